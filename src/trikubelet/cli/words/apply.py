"""The arguments of ``trikubelet apply``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser
from trikubelet.cli.options import add_directory_options, add_dry_run_option, add_filename_options


def parser() -> Parser:
    """Return the parser of the arguments of ``apply``."""
    made = Parser(
        "apply",
        "Copy manifests into the agent's manifest directory, from which it runs them. All of them are checked first; "
        "if one "
        "has an error, nothing is changed.",
        [
            ("Run the pod of a manifest", "trikubelet apply -f web.yaml"),
            ("Apply all manifests of a directory", "trikubelet apply -f manifests/"),
            ("Read a manifest from standard input", "cat web.yaml | trikubelet apply -f -"),
        ],
    )
    add_filename_options(made, "manifests to apply", required=True)
    add_dry_run_option(made)
    add_directory_options(made)
    return made
