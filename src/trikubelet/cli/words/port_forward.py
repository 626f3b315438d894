"""The arguments of ``trikubelet port-forward``."""

from __future__ import annotations

from trikubelet.cli.arguments import Later, Parser
from trikubelet.cli.options import add_agent_options, add_namespace_option


def parser() -> Parser:
    """Return the parser of the arguments of ``port-forward``."""
    made = Parser(
        "port-forward",
        "Forward connections to ports of this machine to ports of a pod, until interrupted.",
        [
            ("Forward local port 8080 to port 80 of a pod", "trikubelet port-forward web-node1 8080:80"),
            ("Forward to the port that a container names", "trikubelet port-forward web-node1 8080:http"),
            ("Forward any free local port", "trikubelet port-forward web-node1 :80"),
            ("Accept connections from other machines", "trikubelet port-forward --address=0.0.0.0 web-node1 8080:80"),
        ],
    )
    made.add_argument("pod", metavar="POD", help="name of the pod")
    made.add_argument(
        "ports",
        nargs="+",
        type=Later("cli.commands.port_forward", "read_ports"),
        metavar="[LOCAL:]PORT",
        help="a port of the pod, its number or name, after the local port if that is another; an empty LOCAL is any "
        "free port",
    )
    made.add_argument(
        "--address", default="127.0.0.1", metavar="ADDR", help="local address to listen on (default: %(default)s)"
    )
    add_namespace_option(made)
    add_agent_options(made)
    return made
