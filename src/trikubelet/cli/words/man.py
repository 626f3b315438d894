"""The arguments of ``trikubelet man``."""

from __future__ import annotations

from trikubelet.cli.arguments import Parser


def parser() -> Parser:
    """Return the parser of the arguments of ``man``."""
    return Parser(
        "man",
        "Print the manual page, in the language of man(7).",
        [("Read the manual page", "trikubelet man | man -l -")],
    )
