"""The arguments of ``trikubelet version``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser


def parser() -> Parser:
    """Return the parser of the arguments of ``version``."""
    made = Parser(
        "version",
        "Print the version of this trikubelet.",
        [
            ("Print the version", "trikubelet version"),
            ("Print the versions of Kubernetes and Python, too", "trikubelet version -o yaml"),
        ],
    )
    made.add_argument(
        "-o",
        "--output",
        choices=("json", "yaml"),
        help="print an object, with the versions of Kubernetes and Python (default: one line)",
    )
    return made
