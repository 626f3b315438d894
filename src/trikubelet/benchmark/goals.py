"""The goals of the relist, row by row, and a run's result for each.

Each row is a figure of a cell that must not be more than a bound; most are trikubelet's least time divided by a peer's
in the same rounds of the same cell of one run, for a ratio says the same on a slow machine and on a fast one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.benchmark.grid import Cell, Crowd, Mode, in_order
from trikubelet.benchmark.results import OURS, PURE, UPSTREAM, cpu, least, wall
from trikubelet.benchmark.table import mega, milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.benchmark.results import CellResult, Round, Run


class Finding(NamedTuple):
    """The figure, and what stands beside it for people: the other's, and ours."""

    value: float
    theirs: str
    ours: str


@dataclass(frozen=True, slots=True)
class Goal:
    """One row. ``look`` finds the figure in the results of ``cells``; None when a participant is missing."""

    what: str
    cells: tuple[Cell, ...]
    at_most: float
    look: Callable[..., Finding | None]
    wanted: str = ""

    def find(self, run: Run) -> Finding | None:
        """Return the run's result; None when it has none."""
        results = [run.of(cell) for cell in self.cells]
        return None if any(result is None for result in results) else self.look(*results)


def _against(peer: str, figure: Callable[[Round], int | None]) -> Callable[[CellResult], Finding | None]:
    def look(result: CellResult) -> Finding | None:
        ours, theirs = result.took_part(OURS), result.took_part(peer)
        found = least(ours, theirs, figure) if ours and theirs else None
        if found is None:
            return None
        mine, other = found
        return Finding(mine / other, f"{milliseconds(other)} ms", f"{milliseconds(mine)} ms")

    return look


def _calls_to_first(result: CellResult) -> Finding | None:
    """Return how many status calls, one after another, the first pod that was published took; it has three."""
    calls = {
        peer: min(
            (one.first_published_ns - one.list_ns) / 1e9 / result.cell.status_latency_seconds
            for one in showing.rounds
            if one.first_published_ns is not None and one.list_ns is not None
        )
        for peer in (UPSTREAM, OURS)
        if (showing := result.took_part(peer))
        and any(one.first_published_ns is not None and one.list_ns is not None for one in showing.rounds)
    }
    if OURS not in calls:
        return None
    return Finding(calls[OURS], f"{calls[UPSTREAM]:.2f}" if UPSTREAM in calls else "-", f"{calls[OURS]:.2f}")


def _carried(result: CellResult) -> Finding | None:
    grown = [
        showing.memory.heap_bytes - showing.before.heap_bytes
        for peer in (UPSTREAM, OURS)
        if (showing := result.took_part(peer)) and showing.memory and showing.before
    ]
    return Finding(grown[-1] / 1e6, mega(grown[0]), mega(grown[-1])) if len(grown) == 2 else None


def _peak(*results: CellResult) -> Finding | None:
    """At the end of all these cells of one crowd: a peak is that of a peer's whole life."""
    peaks = {
        peer: showing.memory.peak_rss_bytes
        for peer in (UPSTREAM, OURS)
        if (showing := results[-1].took_part(peer)) and showing.memory
    }
    if OURS not in peaks:
        return None
    return Finding(peaks[OURS] / 1e6, mega(peaks[UPSTREAM]) if UPSTREAM in peaks else "-", mega(peaks[OURS]))


def _blocks(result: CellResult) -> Finding | None:
    """Ours alone: Go counts whatever was ever allocated, freed or not, and that is no number of blocks held."""
    ours = result.took_part(OURS)
    counts = [one.allocs for one in ours.counted if one.allocs is not None] if ours else []
    return Finding(max(counts), "-", f"{max(counts):,}") if counts else None


def _failures(result: CellResult) -> Finding | None:
    failed = {
        name: sum(one.error is not None for one in showing.rounds) / len(showing.rounds)
        for name, showing in result.peers.items()
        if showing.rounds
    }
    if not {OURS, UPSTREAM} <= failed.keys():
        return None
    theirs, ours = (f"{failed[name] * 100:.0f} % of {len(result.peers[name].rounds)} fail" for name in (UPSTREAM, OURS))
    return Finding(failed[OURS], theirs, ours)


def _stall(result: CellResult) -> Finding | None:
    ours = result.took_part(OURS)
    stalls = [one.stall_ns for one in ours.counted if one.stall_ns is not None] if ours else []
    if not stalls:
        return None
    longest, quietest = milliseconds(max(stalls)), milliseconds(min(stalls))
    detail = f"{longest} ms, {quietest} ms in the quietest of {len(stalls)} rounds"
    busy = [one.stall_cpu_ns for one in ours.counted if one.stall_cpu_ns is not None] if ours else []
    return Finding(max(stalls) / 1e6, "-", detail + (f"; CPU {milliseconds(max(busy))} ms" if busy else ""))


def _growth(small: CellResult, large: CellResult) -> Finding | None:
    each = {
        peer: (found[0] / small.cell.crowd.containers, found[1] / large.cell.crowd.containers)
        for peer in (OURS, UPSTREAM)
        if (one := small.took_part(peer)) and (many := large.took_part(peer)) and (found := least(one, many, cpu))
    }
    if OURS not in each:
        return None
    details = {peer: f"{one:,.0f} → {many:,.0f} ns" for peer, (one, many) in each.items()}
    return Finding(each[OURS][1] / each[OURS][0], details.get(UPSTREAM, "-"), details[OURS])


def _cell(pods: int, mode: Mode, churn: float, latency: float = 0.0, *, unknown: bool = False) -> tuple[Cell]:
    return (Cell(Crowd(pods, 2, mode), churn, latency, unknown),)


_BYTES_10K: Final = _cell(10_000, Mode.BYTES, 0.01)
_BYTES_110: Final = _cell(110, Mode.BYTES, 0.01)
_STILL_10K: Final = _cell(10_000, Mode.STREAMED, 0)
_CHURN_10K: Final = _cell(10_000, Mode.STREAMED, 0.01)
_UNARY_5K: Final = _cell(5_000, Mode.UNARY, 0.01)
_UNARY_110: Final = _cell(110, Mode.UNARY, 0)
_HUNDRED: Final = _cell(1_000, Mode.UNARY, 0.1, 0.05)
_BYTES_9K: Final = _cell(9_000, Mode.BYTES, 0, unknown=True)
_STREAMED_9K: Final = (
    *_cell(9_000, Mode.STREAMED, 0, unknown=True),
    *_cell(9_000, Mode.STREAMED, 0),
    *_cell(9_000, Mode.STREAMED, 0.01),
)
_UNKNOWN_10K: Final = _cell(10_000, Mode.STREAMED, 0, unknown=True)
_BEYOND: Final = _cell(10_000, Mode.UNARY, 0)

GOALS: Final = (
    Goal("from bytes, 10,000 pods, 1 % churn: CPU to upstream's", _BYTES_10K, 1 / 50, _against(UPSTREAM, cpu)),
    Goal("the same, to the best pure Python's", _BYTES_10K, 1 / 5, _against(PURE, cpu)),
    Goal("from bytes, 110 pods, 1 % churn: CPU to upstream's", _BYTES_110, 1 / 20, _against(UPSTREAM, cpu)),
    Goal("streamed, 10,000 pods, no churn: wall", _STILL_10K, 0.2, _against(UPSTREAM, wall)),
    Goal("the same: CPU", _STILL_10K, 0.2, _against(UPSTREAM, cpu)),
    Goal("streamed, 10,000 pods, 1 % churn: wall", _CHURN_10K, 0.3, _against(UPSTREAM, wall)),
    Goal("the same: CPU", _CHURN_10K, 0.3, _against(UPSTREAM, cpu)),
    Goal("unary, 5,000 pods, 1 % churn: wall", _UNARY_5K, 0.3, _against(UPSTREAM, wall)),
    Goal("the same: CPU", _UNARY_5K, 0.3, _against(UPSTREAM, cpu)),
    Goal("unary, 110 pods, no churn: wall", _UNARY_110, 0.7, _against(UPSTREAM, wall)),
    Goal("the same: CPU", _UNARY_110, 0.7, _against(UPSTREAM, cpu)),
    Goal("memory kept for 18,000 containers, from bytes", _BYTES_9K, 8, _carried, "< 8 MB"),
    Goal("peak RSS at 18,000 containers, streamed, churn included", _STREAMED_9K, 130, _peak, "< 130 MB"),
    Goal(
        "Python's memory blocks held more after a relist of 10,000 pods without churn",
        _cell(10_000, Mode.BYTES, 0),
        100,
        _blocks,
        "none for a pod",
    ),
    Goal(
        "100 pods changed, status calls of 50 ms: last published",
        _HUNDRED,
        0.05,
        _against(UPSTREAM, lambda one: one.last_published_ns),
    ),
    Goal(
        "the same: from the lists to the first published, in status calls",
        _HUNDRED,
        2,
        _calls_to_first,
        "< 2: side by side",
    ),
    Goal("first relist of 10,000 unknown pods, streamed: wall", _UNKNOWN_10K, 0.5, _against(UPSTREAM, wall)),
    Goal("unary lists beyond 16 MiB, 10,000 pods", _BEYOND, 0, _failures, "works"),
    Goal("event loop kept at most, relist of 10,000 pods", _CHURN_10K, 10, _stall, "≤ 10 ms"),
    Goal(
        "CPU a container from bytes without churn, 100,000 to 20,000",
        (*_cell(10_000, Mode.BYTES, 0), *_cell(50_000, Mode.BYTES, 0)),
        1.25,
        _growth,
        "≤ 1.25: linear",
    ),
)


def goal_cells() -> list[Cell]:
    """The cells that the goals need."""
    return in_order(cell for goal in GOALS for cell in goal.cells)


HEADINGS: Final = ("measure", "the other", "trikubelet", "reached", "wanted", "")


def goal_rows(run: Run) -> list[tuple[str, ...]]:
    """A row for each goal."""
    return [_row(goal, goal.find(run)) for goal in GOALS]


def _row(goal: Goal, found: Finding | None) -> tuple[str, ...]:
    wanted = goal.wanted or f"≤ {goal.at_most:g}"
    if found is None:
        return (goal.what, "", "", "", wanted, "not measured")
    return (
        goal.what,
        found.theirs,
        found.ours,
        f"{found.value:.3g}",
        wanted,
        "yes" if found.value <= goal.at_most else "NO",
    )
