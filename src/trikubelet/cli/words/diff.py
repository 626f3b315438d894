"""The arguments of ``trikubelet diff``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser
from trikubelet.cli.options import add_directory_options, add_filename_options


def parser() -> Parser:
    """Return the parser of the arguments of ``diff``."""
    made = Parser(
        "diff",
        "Show what apply would change in the agent's manifests, as a unified diff. Values of Secrets are masked. The "
        "exit code is 0 without a difference, 1 with one, and larger after an error.",
        [
            ("Show what would change", "trikubelet diff -f web.yaml"),
            ("Show it for all manifests of a directory", "trikubelet diff -f manifests/"),
        ],
    )
    add_filename_options(made, "manifests to compare", required=True)
    add_directory_options(made)
    return made
