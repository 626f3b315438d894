"""Parses the arguments of a verb: argparse, with the error texts of kubectl, and help that ends with examples."""

from __future__ import annotations

import argparse
import math
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from trikubelet.cli.failed import Misunderstood

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

T = TypeVar("T")

DASH_HINT: Final = " (a value that begins with a dash is written --flag=-x)"


class Parser(argparse.ArgumentParser):
    """Parses the arguments of one verb. ``examples`` are pairs of a description and a command; ``usage`` follows
    ``trikubelet`` in the usage line where argparse cannot format it; ``notes`` are printed below the flags. Raises
    Misunderstood, and OSError if help cannot be written."""

    def __init__(
        self, verb: str, description: str, examples: Sequence[tuple[str, str]], *, usage: str = "", notes: str = ""
    ) -> None:
        self._width = 78
        super().__init__(
            prog=f"trikubelet {verb}",
            usage=f"trikubelet {usage}" if usage else None,
            description=description,
            allow_abbrev=False,
        )
        self.examples = tuple(examples)
        self._own_usage = self.usage
        self.notes = notes
        self._positionals.title = "arguments"
        self._optionals.title = "flags"

    def error(self, message: str) -> NoReturn:
        """See ``argparse``."""
        raise Misunderstood(f"{said_plainly(message, self._flags())}; `{self.prog} --help` lists the flags")

    def _get_formatter(self) -> argparse.HelpFormatter:
        """See ``argparse``, which would query the terminal's width whenever an argument is added."""
        return argparse.HelpFormatter(self.prog, width=self._width)

    def _flags(self) -> list[str]:
        return [name for action in self._actions for name in action.option_strings if name.startswith("--")]

    def parse_known_intermixed_args(
        self, args: Iterable[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """See ``argparse``, which would format the usage line each time, in case of an error. That takes longer than
        all the rest, and no error here has one."""
        self.usage = self.usage or self.prog
        try:
            return super().parse_known_intermixed_args(args, namespace)
        finally:
            self.usage = self._own_usage

    def format_help(self) -> str:
        """See ``argparse``."""
        self.usage = self._own_usage
        import shutil  # noqa: PLC0415 - only help has lines to fill

        self._width = shutil.get_terminal_size().columns - 2
        parts = [super().format_help()]
        parts += [f"\n{self.notes}\n"] if self.notes else []
        if self.examples:
            shown = "\n\n".join(f"  # {what}\n  {command}" for what, command in self.examples)
            parts.append(f"\nexamples:\n{shown}\n")
        return "".join(parts)

    def print_help(self, file: object = None) -> None:
        """See ``argparse``, which ignores an OSError. ``file`` is never given."""
        assert file is None
        print(self.format_help(), end="")


def said_plainly(message: str, flags: Sequence[str]) -> str:
    """Return an error of argparse in kubectl's words. ``flags``: the known long ones."""
    if found := re.match(r"unrecognized arguments: (.+)", message, re.DOTALL):
        word = found[1].split(" ")[0]
        if not word.startswith("-"):
            return f'unexpected argument "{word}"'
        from trikubelet.model.faults import nearest  # noqa: PLC0415 - only for a mistake

        name = word.partition("=")[0]
        hint = nearest(name.lstrip("-"), [flag.lstrip("-") for flag in flags], "--") if name.startswith("--") else ""
        return f"unknown flag: {name}{f' ({hint})' if hint else ''}"
    if found := re.match(r"the following arguments are required: (.+)", message, re.DOTALL):
        return f"missing argument: {found[1]}"
    if found := re.match(r"argument ([^:]+): expected (?:one|at least one) argument", message):
        return f"missing argument of flag {found[1]}{DASH_HINT}"
    if found := re.match(r"argument ([^:]+): not allowed with argument (.+)", message):
        return f"flags {found[1]} and {found[2]} exclude each other"
    if found := re.match(r"one of the arguments (.+) is required", message):
        return f"missing flag: one of {found[1]}"
    if found := re.match(r"argument ([^:]+): invalid choice: '(.*)' \(choose from (.+)\)", message, re.DOTALL):
        return f'invalid value "{found[2]}" for {found[1]} (one of {found[3].replace(chr(39), "")})'
    if found := re.match(r"argument ([^:]+): (.+)", message, re.DOTALL):
        return f"invalid value for {found[1]}: {found[2]}"
    return message


def valid(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return a reader for argparse that shows the reader's own error message, which argparse would hide."""

    def reading(said: str) -> T:
        try:
            return read(said)
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None

    return reading


class Later:
    """A reader for argparse that is imported when there is a value to read."""

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def reader(self) -> Callable[[str], Any]:
        """Return the function that reads. Raises ImportError and AttributeError."""
        read: Callable[[str], Any] = getattr(import_module(f"trikubelet.{self._module}"), self._name)
        return read

    def __call__(self, said: str) -> Any:
        return valid(self.reader())(said)


def count(most: int, least: int = 0) -> Callable[[str], float]:
    """Return a reader of whole numbers."""

    def read(said: str) -> int:
        if not (said.isascii() and said.isdecimal() and least <= int(said) <= most):
            raise ValueError(f"{said!r} is not a whole number from {least} to {most}")
        return int(said)

    return valid(read)


def _read_timeout(said: str) -> float:
    from trikubelet.model.duration import parse_duration  # noqa: PLC0415 - see Later

    return math.inf if said.startswith("-") else parse_duration(said)


valid_timeout: Final = valid(_read_timeout)
"""Reads a timeout in seconds. A negative duration is no limit."""

valid_span: Final = Later("model.duration", "parse_span")
"""Reads a duration in seconds, not negative."""

valid_selector: Final = Later("core.selectors", "parse_selector")
"""Reads a label selector."""
