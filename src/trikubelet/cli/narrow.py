"""Narrows tables for small terminals, so that no line of a table is wrapped.

    it fits ─► unchanged
      └► else one space between columns, shorter headings, no age after RESTARTS
           └► the middle of long names and the ends of texts are cut
                └► columns are left out, the least needed first
                     └► the ends of lines are cut

Names of related pods differ at their ends, so a name loses its middle. ``get`` and ``top pods`` use it below
``NARROW_WIDTH`` on a terminal, ``top`` on the whole screen at any width.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.cli.tables import Table
from trikubelet.cli.terminal import in_a_cell
from trikubelet.core.kubectl.words import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NARROW_WIDTH: Final = 60
"""Below this width a table on a terminal is narrowed. A wider one wraps longer lines, as kubectl does, and they are
readable."""
NAME_LETTERS_MIN: Final = 16
"""Letters of a name that are kept while a column can be left out instead."""
TEXT_LETTERS_MIN: Final = 16
"""Letters of a text at the end of a line that are kept while a column can be left out instead."""
DISPENSABLE: Final = ("AGE", "VERSION", "ROLES", "LAST SEEN", "TYPE", "KIND", "NAMESPACE", "RESTARTS", "READY")
"""Headings of the columns that may be left out, the least needed first."""
_NAMES: Final = ("NAME", "OBJECT", "REPOSITORY")
"""Headings of columns with names. The first one in a table is shortened."""
_TEXTS: Final = ("MESSAGE", "STATE")
"""Headings of last columns whose ends may be cut."""
_RESTARTS: Final = "RESTARTS"
_SHORTER: Final = {"CPU(cores)": "CPU", "MEMORY(bytes)": "MEMORY", UNKNOWN: "-"}
"""Headings and cells with a shorter form."""


def table_for_terminal(headings: Sequence[str], *, show_headings: bool = True) -> Table | NarrowTable:
    """Return an unchanged table, unless standard output is a narrow terminal."""
    if sys.stdout.isatty():
        from shutil import get_terminal_size  # noqa: PLC0415 - it takes longer to load than most tables

        if (width := get_terminal_size().columns) < NARROW_WIDTH:
            return NarrowTable(headings, width, show_headings=show_headings)
    return Table(headings, show_headings=show_headings)


class _Fit(msgspec.Struct, frozen=True):
    """The way to narrow a table: the columns that are kept, and the letters of a name."""

    kept: tuple[int, ...]
    name_letters: int


class NarrowTable:
    """Owns the way a table is narrowed. Its first rows decide it; later ones, as of a watch, are narrowed alike."""

    def __init__(
        self,
        headings: Sequence[str],
        width: int,
        *,
        show_headings: bool = True,
        dispensable: Sequence[str] = DISPENSABLE,
    ) -> None:
        self._headings = tuple(headings)
        self._width = width
        self._show_headings = show_headings
        self._dispensable = dispensable
        self._name = next((headings.index(one) for one in _NAMES if one in headings), 0)
        self._table: Table | None = None
        self._fit: _Fit | None = None

    def lines(self, rows: Iterable[Sequence[str]]) -> list[str]:
        """See ``Table.lines``. No line is longer than the width."""
        rows = [tuple(map(in_a_cell, row)) for row in rows]
        if not rows:
            return []
        if self._table is None:
            self._table = self._begun(rows)
        shown = rows if self._fit is None else self._narrowed(rows, self._fit)
        return [line[: self._width] for line in self._table.lines(shown)]

    def _begun(self, rows: Sequence[Sequence[str]]) -> Table:
        """Return the table that these rows fit into."""
        as_it_is = Table(self._headings, show_headings=self._show_headings)
        if max(map(len, as_it_is.lines(rows))) <= self._width:
            return Table(self._headings, show_headings=self._show_headings)
        self._fit = self._fitting(rows)
        headings = [_SHORTER.get(self._headings[at], self._headings[at]) for at in self._fit.kept]
        return Table(headings, show_headings=self._show_headings, gap=1)

    def _fitting(self, rows: Sequence[Sequence[str]]) -> _Fit:
        """Return the mildest way to narrow these rows to the width, or else the strictest."""
        whole = max(len(row[self._name]) for row in rows)
        kept = tuple(range(len(self._headings)))
        for heading in (None, *self._dispensable):
            kept = tuple(at for at in kept if self._headings[at] != heading)
            letters = whole - max(0, self._needed(rows, _Fit(kept, whole)) - self._width)
            if letters >= min(whole, NAME_LETTERS_MIN):
                return _Fit(kept, letters)
        return _Fit(kept, NAME_LETTERS_MIN)

    def _needed(self, rows: Sequence[Sequence[str]], how: _Fit) -> int:
        """Return the width of the rows below their headings, with their texts cut as far as allowed."""
        cells = self._narrowed(rows, how)
        if self._show_headings:
            headings = [self._headings[at] for at in how.kept]
            cells.append([_SHORTER.get(heading, heading) for heading in headings])
        if self._headings[how.kept[-1]] in _TEXTS:
            cells = [[*row[:-1], row[-1][:TEXT_LETTERS_MIN]] for row in cells]
        return max(map(len, Table([""] * len(how.kept), show_headings=False, gap=1).lines(cells)))

    def _narrowed(self, rows: Sequence[Sequence[str]], how: _Fit) -> list[list[str]]:
        return [[self._cell(at, row[at], how) for at in how.kept] for row in rows]

    def _cell(self, at: int, cell: str, how: _Fit) -> str:
        if at == self._name:
            return without_middle(cell, how.name_letters)
        if self._headings[at] == _RESTARTS:
            return cell.partition(" ")[0]  # without the time of the last restart
        return _SHORTER.get(cell, cell)


def without_middle(name: str, letters: int) -> str:
    """Return the name in that many letters."""
    front = letters // 2
    return name if len(name) <= letters else f"{name[:front]}…{name[front + 1 - letters :]}"
