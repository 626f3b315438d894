"""What a verb's flags are read with: argparse, which here says what is wrong in one line, as every verb does."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, NoReturn, TypeVar

from trikubelet.cli.failed import Misunderstood
from trikubelet.core.selectors import parse_selector
from trikubelet.model.duration import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that raises Misunderstood, and does not hide that help cannot be written."""

    def error(self, message: str) -> NoReturn:
        """See ``argparse``, to which a value with a dash in front is a flag."""
        if message.endswith("expected one argument"):
            message += " (one that begins with a dash is written --flag=-x)"
        raise Misunderstood(f"{message}; `{self.prog} --help` lists the flags")

    def print_help(self, file: object = None) -> None:
        """See ``argparse``, which passes over an OSError. ``file`` is never given."""
        assert file is None
        print(self.format_help(), end="")


def valid(read: Callable[[str], T]) -> Callable[[str], T]:
    """A reader for argparse, which shows the message of no other error than its own."""

    def reading(said: str) -> T:
        try:
            return read(said)
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None

    return reading


def count(most: int, least: int = 0) -> Callable[[str], float]:
    """A reader of whole numbers."""

    def read(said: str) -> int:
        if not (said.isascii() and said.isdecimal() and least <= int(said) <= most):
            raise ValueError(f"{said!r} is not a whole number from {least} to {most}")
        return int(said)

    return valid(read)


def _read_timeout(said: str) -> float:
    return math.inf if said.startswith("-") else parse_duration(said)


valid_timeout = valid(_read_timeout)
"""A reader of how long to wait, in seconds. A negative duration is no limit."""

valid_selector = valid(parse_selector)
"""A reader of label selectors."""
