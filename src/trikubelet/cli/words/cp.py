"""The arguments of ``trikubelet cp``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser
from trikubelet.cli.options import add_agent_options, add_container_option, add_namespace_option


def parser() -> Parser:
    """Return the parser of the arguments of ``cp``."""
    made = Parser(
        "cp",
        "Copy files and directories to or from a container. The container needs a tar program.",
        [
            ("Copy a file out of a container", "trikubelet cp web-node1:/etc/nginx/nginx.conf ."),
            ("Print a file of a container", "trikubelet cp web-node1:/etc/hosts -"),
            ("Copy a directory into a container", "trikubelet cp site/ web-node1:/srv -c app"),
        ],
    )
    for name, more in (("source", ""), ("destination", "; - is standard output")):
        made.add_argument(name, metavar="[[NAMESPACE/]POD:]PATH", help=f"the {name}; one of the two is in a pod{more}")
    add_container_option(made)
    add_namespace_option(made)
    add_agent_options(made)
    return made
