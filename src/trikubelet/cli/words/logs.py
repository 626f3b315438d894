"""The arguments of ``trikubelet logs``."""

from __future__ import annotations

from typing import Final

from trikubelet.cli.arguments import Later, Parser, count, valid_selector
from trikubelet.cli.options import add_agent_options, add_namespace_option
from trikubelet.core.query import COUNT_MAX

FOLLOWED: Final = 5
"""How many logs are followed at once by default, as by kubectl."""
FOLLOWED_MAX: Final = 50
"""Each is a connection to the agent, which takes 64."""


def parser() -> Parser:
    """Return the parser of the arguments of ``logs``."""
    made = Parser(
        "logs",
        "Print what a container of a pod has written to its standard output and error.",
        [
            ("Print the logs of a pod with one container", "trikubelet logs web-node1"),
            ("Follow a container, beginning with its last 20 lines", "trikubelet logs web-node1 -c app -f --tail=20"),
            ("Print the logs of the run before the last restart", "trikubelet logs web-node1 --previous"),
            ("Print the last lines of all pods with a label", "trikubelet logs -l app=web --prefix"),
            ("Print the last five minutes of all containers", "trikubelet logs web-node1 --all-containers --since=5m"),
        ],
    )
    made.add_argument("pod", nargs="?", metavar="POD", help="name of the pod; or select pods with -l")
    made.add_argument("container", nargs="?", metavar="CONTAINER", help="name of the container, like -c")
    made.add_argument(
        "-c", "--container", dest="option", metavar="NAME", help="name of the container (default: the pod's first one)"
    )
    made.add_argument("--all-containers", action="store_true", help="print the logs of every container of the pod")
    made.add_argument(
        "-l", "--selector", type=valid_selector, metavar="LABELS", help="print the logs of every pod with these labels"
    )
    made.add_argument("--prefix", action="store_true", help="begin each line with the names of pod and container")
    made.add_argument("-f", "--follow", action="store_true", help="keep printing until the container ends")
    made.add_argument("-p", "--previous", action="store_true", help="print the logs of the container's previous run")
    made.add_argument(
        "--tail",
        type=Later("cli.commands.logs", "read_tail"),
        metavar="LINES",
        help="only the last lines of each log (default: all, with -l the last 10; -1: all)",
    )
    made.add_argument(
        "--max-log-requests",
        type=count(FOLLOWED_MAX, 1),
        default=FOLLOWED,
        metavar="LOGS",
        help="number of logs that may be followed at once (default: %(default)s)",
    )
    made.add_argument(
        "--since",
        type=Later("cli.commands.logs", "read_since"),
        metavar="DURATION",
        help="only lines written within this time, such as 5s, 2m or 3h",
    )
    made.add_argument(
        "--since-time",
        type=Later("cli.commands.logs", "read_time"),
        metavar="TIME",
        help="only lines written after this time, such as 2026-11-21T07:01:02Z",
    )
    made.add_argument("--limit-bytes", type=count(COUNT_MAX, 1), metavar="BYTES", help="stop after this many bytes")
    made.add_argument("--timestamps", action="store_true", help="begin each line with the time it was written")
    add_namespace_option(made)
    add_agent_options(made)
    return made
