"""Tables in kubectl's look: upper-case headings, columns three spaces apart, nothing after the last word of a line.

A watch prints rows as they change. It keeps the initial widths and widens them when it must, so that rows stay under
their headings as long as possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cli.terminal import in_a_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GAP = 3


class Table:
    """Owns the widths of the columns printed so far."""

    def __init__(self, headings: Sequence[str], *, show_headings: bool = True, gap: int = GAP) -> None:
        self._headings = tuple(headings)
        self._gap = gap
        self._widths = [len(heading) if show_headings else 0 for heading in headings]
        self._due = show_headings

    def lines(self, rows: Iterable[Sequence[str]]) -> list[str]:
        """Return the rows as lines; before the first of them the headings, if requested."""
        rows = [tuple(map(in_a_cell, row)) for row in rows]
        for row in rows:
            assert len(row) == len(self._widths)
            self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, row, strict=True)]
        shown = [self._headings, *rows] if self._due and rows else rows
        self._due = self._due and not rows
        return [self._line(row) for row in shown]

    def _line(self, row: Sequence[str]) -> str:
        cells = (cell.ljust(width + self._gap) for cell, width in zip(row, self._widths, strict=True))
        return "".join(cells).rstrip()
