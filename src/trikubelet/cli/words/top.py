"""The arguments of ``trikubelet top``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser
from trikubelet.cli.options import add_agent_options, add_namespace_option


def parser() -> Parser:
    """Return the parser of the arguments of ``top``."""
    made = Parser(
        "top",
        "Show the CPU and memory that pods or the node use. Without a kind, show a live view on the whole screen: "
        "Enter shows the details of a pod, l its log, / filters, c, m and n sort by CPU, memory and name, ? lists all "
        "keys, and q quits.",
        [
            ("Show the live view of the node and its pods", "trikubelet top"),
            ("List the pods of every namespace, the busiest first", "trikubelet top pods -A --sort-by=cpu"),
            ("List what each container uses", "trikubelet top pods --containers"),
        ],
    )
    made.add_argument("kind", nargs="?", metavar="pods|node", help="what to list (default: the live view)")
    made.add_argument("names", nargs="*", metavar="NAME", help="only these")
    made.add_argument("--containers", action="store_true", help="list each container of the pods")
    made.add_argument(
        "--sort-by", choices=("cpu", "memory"), help="list the pods that use most first (default: by name)"
    )
    made.add_argument("-A", "--all-namespaces", action="store_true", help="list pods of every namespace")
    made.add_argument("--no-headers", action="store_true", help="leave out the column headings")
    add_namespace_option(made)
    add_agent_options(made)
    return made
