"""The progress of a run: a bar that is written over on a terminal, a line for each cell elsewhere.

A run takes long where the lists are long, so the bar counts containers rather than cells.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trikubelet.benchmark.grid import Cell
    from trikubelet.benchmark.results import CellResult

WIDTH: Final = 24
_LINE_COLUMNS_MAX: Final = 118
_EACH_CELL: Final = 2_000
"""The cost of a cell besides its lists, in containers."""


class Progress:
    """Owns the results so far."""

    def __init__(self, cells: Sequence[Cell], to: TextIO, *, seconds: Callable[[], float] = time.monotonic) -> None:
        self.results: list[CellResult] = []
        self._to = to
        self._on_terminal = to.isatty()
        self._seconds = seconds
        self._began = seconds()
        self._count = len(cells)
        self._weight = sum(map(_weight, cells))
        self._done = 0

    def now(self, cell: Cell, doing: str) -> None:
        """See ``measure.ProgressListener``."""
        if self._on_terminal:
            self._write(f"{self.bar()} {cell}: {doing}")

    def done(self, result: CellResult) -> None:
        """See ``measure.ProgressListener``."""
        self.results.append(result)
        self._done += _weight(result.cell)
        if not self._on_terminal:
            self._to.write(f"{self.bar()} {result.cell}\n")
            self._to.flush()

    def end(self) -> None:
        """Leave the line to others."""
        if self._on_terminal:
            self._write("")

    def bar(self) -> str:
        """``[######······] 12/40, 3 min left``."""
        share = self._done / self._weight
        full = int(share * WIDTH)
        left = (self._seconds() - self._began) * (1 / share - 1) if share else None
        remaining = "" if left is None else f", {left / 60:.0f} min left" if left >= 60 else f", {left:.0f} s left"
        return f"[{'#' * full}{'·' * (WIDTH - full)}] {len(self.results)}/{self._count}{remaining}"

    def _write(self, line: str) -> None:
        self._to.write(f"\r\x1b[K{line[: self._columns()]}")
        self._to.flush()

    def _columns(self) -> int:
        """Return the width of a line that is not broken, asked each time: windows change. A full line already breaks on
        some."""
        try:
            there = os.get_terminal_size(self._to.fileno()).columns
        except OSError:
            there = 0
        return min(there - 1, _LINE_COLUMNS_MAX) if there > 1 else _LINE_COLUMNS_MAX  # 0: it does not know either


def _weight(cell: Cell) -> int:
    return cell.crowd.containers + _EACH_CELL
