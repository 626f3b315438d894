"""The arguments of ``trikubelet kubeconfig``."""

from __future__ import annotations

from pathlib import Path

from trikubelet.cli.arguments import Parser
from trikubelet.cli.options import add_agent_options


def parser() -> Parser:
    """Return the parser of the arguments of ``kubeconfig``."""
    made = Parser(
        "kubeconfig",
        "Print a kubeconfig with which kubectl reads from an agent that was started with --kubectl-port. It contains a "
        "secret: a person with it can run commands in the pods.",
        [
            ("Write a kubeconfig that only you can read", "trikubelet kubeconfig node.kubeconfig"),
            ("Use it once", "trikubelet kubeconfig > node.kubeconfig"),
        ],
    )
    made.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="a new file that only you can read (default: standard output)",
    )
    add_agent_options(made)
    return made
