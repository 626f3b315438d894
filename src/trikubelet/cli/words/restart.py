"""The arguments of ``trikubelet restart``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser, valid_timeout
from trikubelet.cli.options import add_agent_options, add_namespace_option


def parser() -> Parser:
    """Return the parser of the arguments of ``restart``."""
    made = Parser(
        "restart",
        "Restart the containers of pods, each with its preStop hook and within its grace period.",
        [
            ("Restart every container of a pod", "trikubelet restart web-node1"),
            ("Restart one container, and wait until it is ready", "trikubelet restart web-node1 -c app --wait"),
        ],
    )
    made.add_argument("names", nargs="+", metavar="POD", help="the pods to restart")
    made.add_argument("-c", "--container", default="", metavar="NAME", help="only this container (default: all)")
    made.add_argument(
        "--wait",
        action="store_true",
        help="return when the new containers are ready: when they run and their readiness and startup probes succeed",
    )
    made.add_argument(
        "--timeout",
        type=valid_timeout,
        metavar="DURATION",
        help="how long --wait waits, such as 5s or 2m (default: 2m; negative: without a limit)",
    )
    add_namespace_option(made)
    add_agent_options(made)
    return made
