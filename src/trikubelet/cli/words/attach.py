"""The arguments of ``trikubelet attach``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser
from trikubelet.cli.options import add_agent_options, add_container_option, add_namespace_option


def parser() -> Parser:
    """Return the parser of the arguments of ``attach``."""
    made = Parser(
        "attach",
        "Connect to the main process of a running container: print what it writes from now on and, with -i, pass "
        "standard "
        "input to it. The exit code is that of the process.",
        [
            ("Print what a container writes from now on", "trikubelet attach web-node1"),
            ("Talk to a process that was started with stdin and tty", "trikubelet attach -it console-node1"),
        ],
    )
    made.add_argument("pod", metavar="POD", help="name of the pod")
    add_container_option(made)
    made.add_argument("-i", "--stdin", action="store_true", help="pass standard input to the process")
    made.add_argument("-t", "--tty", action="store_true", help="use the terminal that the process was started with")
    add_namespace_option(made)
    add_agent_options(made)
    return made
