"""The results as a picture: processor time of a relist against the containers there are, a line for each peer.

A panel for each kind of relist, so that every size that was measured is in the picture: few sizes are measured with
every churn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.benchmark.grid import UNARY_CONTAINERS_MAX, Mode, percent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trikubelet.benchmark.grid import Cell
    from trikubelet.benchmark.results import Run

CHURN: Final = 0.01
"""About what a busy node has from one second to the next."""

KINDS: Final[dict[str, Callable[[Cell], bool]]] = {
    "the first relist": lambda cell: cell.unknown,
    "nothing changed": lambda cell: not cell.unknown and not cell.churn,
    f"{percent(CHURN)} of the pods changed": lambda cell: cell.churn == CHURN,
}
_PLACES: Final = {"from bytes": {Mode.BYTES}, "over a socket": {Mode.UNARY, Mode.STREAMED}}


class PlotsMissing(Exception):
    """There is no matplotlib."""

    def __init__(self) -> None:
        super().__init__("plots need matplotlib: pip install matplotlib, or leave out --plot")


def lines(run: Run, modes: frozenset[Mode], is_meant: Callable[[Cell], bool]) -> dict[str, list[tuple[int, float]]]:
    """By peer: containers and the least CPU milliseconds of a relist, fewest containers first. Lists are unary as far
    as one reply reaches, streamed beyond."""
    found: dict[str, list[tuple[int, float]]] = {}
    for result in run.results:
        cell = result.cell
        is_usual = cell.crowd.mode is not Mode.UNARY or cell.crowd.containers <= UNARY_CONTAINERS_MAX
        if cell.crowd.mode in modes and is_usual and is_meant(cell) and not cell.status_latency_seconds:
            for name in result.peers:
                if showing := result.took_part(name):
                    found.setdefault(name, []).append((cell.crowd.containers, showing.cpu_ns / 1e6))
    return {name: sorted(points) for name, points in found.items()}


def can_draw() -> None:
    """Raises PlotsMissing where there is nothing to draw with."""
    try:
        import matplotlib.figure  # noqa: F401, PLC0415 - an extra, and slow to load
    except ModuleNotFoundError:
        raise PlotsMissing from None


def draw(run: Run, name: Path) -> None:
    """Write ``name``.svg and ``name``.png. Raises PlotsMissing, and OSError."""
    can_draw()
    from matplotlib.figure import Figure  # noqa: PLC0415 - see above

    figure = Figure(figsize=(13, 8), layout="constrained")
    rows = figure.subplots(len(_PLACES), len(KINDS), sharex=True, sharey=True)
    for row, (place, modes) in zip(rows, _PLACES.items(), strict=True):
        for axes, (kind, is_meant) in zip(row, KINDS.items(), strict=True):
            for peer, points in lines(run, frozenset(modes), is_meant).items():
                axes.plot(*zip(*points, strict=True), marker="o", label=peer)
                axes.legend()
            axes.set(xscale="log", yscale="log", xlabel="containers", ylabel="CPU ms a relist (least)")
            axes.set_title(f"{place}, {kind}")
            axes.grid(visible=True, alpha=0.3)
    for ending in (".svg", ".png"):
        figure.savefig(name.with_name(name.name + ending))
