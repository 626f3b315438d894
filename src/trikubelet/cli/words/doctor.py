"""The arguments of ``trikubelet doctor``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser
from trikubelet.cli.options import AGENT_USAGE, add_agent_options


def parser() -> Parser:
    """Return the parser of the arguments of ``doctor``."""
    made = Parser(
        "doctor",
        "Check the container runtime, cgroups, swap, sysctls, clock, disks, ports, certificates, manifests and the API "
        "server, and report problems and their remedies. Exit code 1 if there are errors, 3 if only warnings.",
        [
            ("Check the node of the running agent", "trikubelet doctor"),
            ("Show only problems", "trikubelet doctor -q"),
            (
                "Check for an agent that would be started with these flags",
                "trikubelet doctor -- --standalone --container-runtime-endpoint=embedded:",
            ),
        ],
        usage=f"doctor [-h] [-o json] [-q] {AGENT_USAGE} [-- AGENT_FLAGS]",
    )
    made.add_argument("-o", "--output", choices=("json",), help="output format (default: a table)")
    made.add_argument("-q", "--quiet", action="store_true", help="show only problems")
    add_agent_options(made)
    return made
