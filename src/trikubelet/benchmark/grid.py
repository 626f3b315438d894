"""The measured cells of a grid, each a number of pods, of containers, of changes, and a way to get the lists.

Cells with the same pods and the same way are measured one after another on the same pods, a *crowd*; the first cell of
a crowd is the relist of peers that know nothing yet. ``goals`` names the cells that the project's promises are about.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import product
from math import ceil
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

UNARY_CONTAINERS_MAX: Final = 13_300
"""Longer lists exceed the 16 MiB that a reply may have."""

CONTAINERS_MAX: Final = 100_000
"""The most containers of a grid's cells. Costs that grow with their number are seen by then; lists of 180 MB are enough
to wait for."""

CHANGED_MAX: Final = 10_000
"""Pods that change in a cell of the full grid over a socket. More take minutes a round, to say the same again."""


class Mode(StrEnum):
    """How the lists come: as files of undecoded replies, or over a CRI socket, each whole or streamed."""

    BYTES = "bytes"
    UNARY = "unary"
    STREAMED = "streamed"


class Crowd(msgspec.Struct, frozen=True):
    """Pods, and how they are listed."""

    pods: int
    containers_per_pod: int
    mode: Mode

    @property
    def containers(self) -> int:
        """The containers of all pods."""
        return self.pods * self.containers_per_pod

    def __str__(self) -> str:
        return f"{self.pods:,} pods of {self.containers_per_pod}, {self.mode}"


class Cell(msgspec.Struct, frozen=True):
    """One cell of the grid: ``churn`` is the fraction of the pods that changes between two relists. With ``unknown``,
    no peer has listed before, and every pod is new."""

    crowd: Crowd
    churn: float = 0.0
    status_latency_seconds: float = 0.0
    unknown: bool = False

    @property
    def changed(self) -> int:
        """Pods to be inspected in a relist."""
        if self.unknown:
            return self.crowd.pods
        return max(round(self.churn * self.crowd.pods), 1) if self.churn else 0

    def wait_seconds(self, pods_at_once: int, calls_at_once: int) -> float:
        """Return how long the status calls of a relist wait for the runtime, when so many pods are inspected at a time
        and of each so many statuses are asked for at a time."""
        if self.crowd.mode is Mode.BYTES:
            return 0.0
        turns = ceil(self.changed / pods_at_once) * ceil((1 + self.crowd.containers_per_pod) / calls_at_once)
        return turns * self.status_latency_seconds

    def __str__(self) -> str:
        if self.unknown:
            return f"{self.crowd}, nothing known"
        latency = f", status calls of {self.status_latency_seconds * 1e3:g} ms" if self.status_latency_seconds else ""
        return f"{self.crowd}, {percent(self.churn)} churn{latency}"


def percent(fraction: float) -> str:
    """For people."""
    return f"{fraction * 100:g} %"


def grid(
    pods: Sequence[int],
    containers_per_pod: Sequence[int],
    modes: Sequence[str],
    churns: Sequence[float],
    latencies: Sequence[float],
) -> list[Cell]:
    """Every combination that makes sense. The mode "socket" is unary as far as that goes, and streamed beyond."""
    cells: list[Cell] = []
    for mode, many, each in product(modes, pods, containers_per_pod):
        crowd = Crowd(many, each, _mode(mode, many * each))
        # Without calls there is nothing to wait for.
        waits = [0.0] if crowd.mode is Mode.BYTES else latencies
        cells += [Cell(crowd, churn, wait) for wait, churn in product(waits, churns) if churn or not wait]
    return in_order(cells)


def in_order(cells: Iterable[Cell]) -> list[Cell]:
    """The cells crowd by crowd, none twice, each crowd beginning with the one of which nothing is known."""
    by_crowd: dict[Crowd, dict[Cell, None]] = {}
    for cell in cells:
        by_crowd.setdefault(cell.crowd, {Cell(cell.crowd, unknown=True): None})[cell] = None
    return [cell for mine in by_crowd.values() for cell in mine]


def full_grid() -> list[Cell]:
    """Return the cells of docs/benchmarks.md."""
    cells = grid((110, 1_000, 5_000, 10_000, 50_000), (1, 2), ("bytes", "socket"), (0, 0.01, 0.1, 1), (0, 0.05))
    return [
        cell
        for cell in cells
        if cell.crowd.containers <= CONTAINERS_MAX
        and (cell.unknown or cell.crowd.mode is Mode.BYTES or cell.changed <= CHANGED_MAX)
    ]


def _mode(word: str, containers: int) -> Mode:
    if word != "socket":
        return Mode(word)
    return Mode.UNARY if containers <= UNARY_CONTAINERS_MAX else Mode.STREAMED
