"""The arguments of ``trikubelet config``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser
from trikubelet.cli.options import AGENT_USAGE, add_agent_options


def parser() -> Parser:
    """Return the parser of the arguments of ``config``."""
    made = Parser(
        "config",
        "Show the effective configuration of the running agent and where each value comes from; or that of an agent "
        "that "
        "would be started with the flags after --.",
        [
            ("Show what was configured, without the defaults", "trikubelet config view --given"),
            ("Print the whole configuration as a file", "trikubelet config view -o yaml"),
            ("Show the effect of a flag before using it", "trikubelet config view -- --standalone --max-pods=20"),
            ("Check a file", "trikubelet config view -- --config=kubelet.yaml --strict-config"),
        ],
        usage=f"config view [-h] [-o json|yaml] [--given] {AGENT_USAGE} [-- AGENT_FLAGS]",
    )
    made.add_argument("what", choices=("view",), help="show it")
    made.add_argument(
        "-o", "--output", choices=("json", "yaml"), help="print a KubeletConfiguration file (default: a table)"
    )
    made.add_argument("--given", action="store_true", help="show only values that were set, without the defaults")
    add_agent_options(made)
    return made
