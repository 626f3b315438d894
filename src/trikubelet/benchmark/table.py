"""Results as rows of text: what `trikubelet bench relist` prints, and what docs/benchmarks.md holds."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from trikubelet.benchmark.results import OURS, UPSTREAM, Showing, cpu, least, spread, wall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trikubelet.benchmark.results import CellResult, Round, Run

HEADINGS: Final = ("cell", "peer", "wall ms", "p50", "p90", "CPU ms", "p50", "p90", "wall ratio", "CPU ratio", "more")


def rows(results: Iterable[CellResult]) -> list[tuple[str, ...]]:
    """A row for each peer of each cell; the ratios are to trikubelet, of the least times in the rounds both played."""
    return [
        (str(result.cell) if number == 0 else "", peer, *_figures(peer, showing, result.took_part(OURS)))
        for result in results
        for number, (peer, showing) in enumerate(result.peers.items())
    ]


def _figures(peer: str, showing: Showing, ours: Showing | None) -> Sequence[str]:
    if not showing.rounds:
        return (*[""] * 8, showing.left_out or "no round")
    spreads = [milliseconds(ns) for figure in (wall, cpu) for ns in spread([figure(one) for one in showing.rounds])]
    ratios = [ratio(showing, ours, figure) for figure in (wall, cpu)] if ours else ["", ""]
    return (*spreads, *ratios, ", ".join(_more(peer, showing)))


def ratio(theirs: Showing, ours: Showing, figure: Callable[[Round], int]) -> str:
    """Return a peer's least time in multiples of ours, over the rounds both have played; empty when there are none."""
    found = least(theirs, ours, figure)
    return f"{found[0] / found[1]:.2f}" if found else ""


def _more(peer: str, showing: Showing) -> Iterable[str]:
    if showing.memory is not None:
        yield f"heap {mega(showing.memory.heap_bytes)}, peak {mega(showing.memory.peak_rss_bytes)}"
    for one in showing.counted[:1]:
        if one.allocs is not None and one.alloc_bytes is not None:
            # Go counts what was ever allocated, Python what is held afterwards and was at most.
            template = ("allocations, {} in all" if peer == UPSTREAM else "blocks held more, {} at most").format
            yield f"{one.allocs:,} {template(mega(one.alloc_bytes))}"
    if stalls := [one.stall_ns for one in showing.counted if one.stall_ns is not None]:
        yield f"stall {milliseconds(min(stalls))} to {milliseconds(max(stalls))} ms"
    if stalls := [one.stall_cpu_ns for one in showing.counted if one.stall_cpu_ns is not None]:
        yield f"stall in CPU time {milliseconds(min(stalls))} to {milliseconds(max(stalls))} ms"
    if waited := median(one.waited_ns for one in showing.rounds):
        yield f"waited {milliseconds(waited)} ms"
    if errors := [one.error for one in showing.rounds if one.error is not None]:
        yield f"{len(errors)} of {len(showing.rounds)} failed: {errors[0]}"
    if showing.left_out:
        yield showing.left_out


def compared(now: Run, before: Run) -> list[tuple[str, ...]]:
    """Return the changes of each cell that both runs have: our least times, and our ratios to upstream's, then and now.
    Ratios can be compared between machines, times cannot."""
    found: list[tuple[str, ...]] = []
    for result in now.results:
        other = before.of(result.cell)
        ours, theirs = result.took_part(OURS), other.took_part(OURS) if other else None
        if other is None or ours is None or theirs is None:
            continue
        found.append(
            (
                str(result.cell),
                f"{milliseconds(theirs.wall_ns)} → {milliseconds(ours.wall_ns)}",
                f"{milliseconds(theirs.cpu_ns)} → {milliseconds(ours.cpu_ns)}",
                f"{_to_upstream(other)} → {_to_upstream(result)}",
            )
        )
    return found


COMPARED: Final = ("cell", "wall ms", "CPU ms", "CPU, of upstream's")


def _to_upstream(result: CellResult) -> str:
    ours, upstream = result.took_part(OURS), result.took_part(UPSTREAM)
    found = least(ours, upstream, cpu) if ours and upstream else None
    return f"{found[0] / found[1]:.3f}" if found else "?"


def as_text(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """For a terminal."""
    widths = [max(map(len, column)) for column in zip(headings, *lines, strict=True)]
    shown = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in (headings, *lines)
    )
    return "".join(f"{line.rstrip()}\n" for line in shown)


def as_markdown(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """For a page."""
    shown = [f"| {' | '.join(line)} |\n" for line in (headings, ["---"] * len(headings), *lines)]
    return "".join(shown)


def milliseconds(nanoseconds: float) -> str:
    """Three digits that say something."""
    value = nanoseconds / 1e6
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def mega(size: int) -> str:
    """Bytes, for people."""
    return f"{size / 1e6:,.0f} MB" if size >= 1e7 else f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size:,} B"
