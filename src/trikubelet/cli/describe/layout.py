"""The layout of ``describe``: labels and values, indented by two spaces a level, and aligned in consecutive lines.

A line without a value (``Containers:``) ends an alignment, and so does a return to the margin: each block has its own
width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cli.tables import Table
from trikubelet.cli.terminal import in_lines
from trikubelet.core.kubectl.words import NONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

INDENT, GAP = "  ", 2


class Layout:
    """Owns the lines laid out so far."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._block: list[tuple[str, str]] = []

    def field(self, level: int, label: str, value: object) -> None:
        """Add ``label: value``, aligned with its neighbours."""
        if level == 0 and self._block and self._block[-1][0].startswith(INDENT):
            self._end_block()
        self._block.append((f"{INDENT * level}{label}:", str(value)))

    def fields(self, level: int, label: str, values: Iterable[str]) -> None:
        """Add one label with a value on each line; ``<none>`` without values."""
        lines = list(values) or [NONE]
        self.field(level, label, lines[0])
        self._block += [("", line) for line in lines[1:]]

    def title(self, level: int, text: str) -> None:
        """Add a title line for the lines that follow."""
        self._end_block()
        self._done.append(f"{INDENT * level}{text}:")

    def texts(self, level: int, lines: Iterable[str]) -> None:
        """Add lines as they are."""
        self._end_block()
        self._done += [f"{INDENT * level}{line}" for line in lines]

    def table(self, level: int, headings: Sequence[str], rows: Sequence[Sequence[str]], *, ruled: bool = False) -> None:
        """Add a small table; ``ruled``: with dashes under its headings."""
        dashes = [tuple("-" * len(heading) for heading in headings)] if ruled else []
        self.texts(level, Table(headings, gap=GAP).lines([*dashes, *rows]))

    def lines(self) -> list[str]:
        """Return everything so far."""
        self._end_block()
        return [in_lines(line) for line in self._done]

    def _end_block(self) -> None:
        width = max((len(label) for label, _ in self._block), default=0) + GAP
        self._done += [f"{label.ljust(width)}{value}".rstrip() for label, value in self._block]
        self._block = []
