"""The measurements of a run: the records of its JSON, and the figures one reads from them. All times are nanoseconds.

The least time is what to compare: whatever else the machine does can only make a round longer. But who plays more
rounds draws a smaller least, so two peers are compared over the rounds that both have played. Medians and the ninth
decile show how noisy it was.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.benchmark.grid import Cell
from trikubelet.benchmark.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FORMAT: Final = 2
"""The format of the file, and of the rules by which it was measured: to be raised whenever those or the peers change,
so that figures of different rules are not taken for the same. Differences are listed in ``report.EARLIER_RULES``."""
OURS: Final = "ours"
UPSTREAM: Final = "upstream"
PORT: Final = "port"
PURE: Final = "pure"


class Round(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A peer's answer when it was asked to relist, see ``peers.protocol``. ``waited_ns``: how long its threads were
    ready to run and had no processor. ``allocs`` is not the same in all languages, see there, and so is not to be
    compared."""

    wall_ns: int
    cpu_ns: int
    events: int
    waited_ns: int = 0
    inspected: int = 0
    list_ns: int | None = None
    first_published_ns: int | None = None
    last_published_ns: int | None = None
    stall_ns: int | None = None
    stall_cpu_ns: int | None = None
    allocs: int | None = None
    alloc_bytes: int | None = None
    error: str | None = None


class Memory(msgspec.Struct, frozen=True):
    """A peer's memory in bytes; the peak is that of its whole life."""

    heap_bytes: int
    rss_bytes: int
    peak_rss_bytes: int


class Showing(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How one peer did in one cell, or why it was left out. ``counted`` are rounds in which memory was counted or the
    event loop watched, which costs time; ``before`` is the memory of a peer that knows nothing yet."""

    rounds: list[Round] = []
    counted: list[Round] = []
    before: Memory | None = None
    memory: Memory | None = None
    left_out: str = ""

    @property
    def wall_ns(self) -> int:
        """The least of its rounds. There must be one."""
        return min(one.wall_ns for one in self.rounds)

    @property
    def cpu_ns(self) -> int:
        """The least processor time."""
        return min(one.cpu_ns for one in self.rounds)

    @property
    def succeeded(self) -> bool:
        """There are rounds, and none ended with an error."""
        return bool(self.rounds) and all(one.error is None for one in self.rounds)


class CellResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One cell. ``list_bytes``: of one pair of lists. ``calibration_ns``: a fixed loop before and after it.
    ``busy_elsewhere``: the fraction of the machine's processors that others kept meanwhile. ``runtime_cpu_ns``: what
    the fake runtime spent on it all."""

    cell: Cell
    peers: dict[str, Showing]
    list_bytes: int = 0
    calibration_ns: tuple[int, int] = (0, 0)
    busy_elsewhere: float = 0.0
    runtime_cpu_ns: int | None = None

    def took_part(self, peer: str) -> Showing | None:
        """Return the showing of that peer; None when it was not there, or failed in some round."""
        showing = self.peers.get(peer)
        return showing if showing is not None and showing.succeeded else None


class Run(msgspec.Struct, kw_only=True):
    """One run. ``commit`` is the id of the measured commit in its checkout; ``trees`` are git's names for what is in
    the folders that were measured, by which they are found in any history; ``version`` is the code's own name for
    itself. The last two are empty in runs that did not note them. ``began`` is a date and time in UTC."""

    format: int = FORMAT
    commit: str
    trees: dict[str, str] = {}
    version: str = ""
    began: str
    seconds: float
    machine: Machine
    results: list[CellResult]

    def of(self, cell: Cell) -> CellResult | None:
        """A cell's result, if it was measured."""
        return next((result for result in self.results if result.cell == cell), None)


def write_run(path: Path, run: Run) -> None:
    """As JSON with a line for each cell. Raises OSError."""
    head = msgspec.json.encode(msgspec.structs.replace(run, results=[])).removesuffix(b"]}")
    lines = b",\n".join(map(msgspec.json.encode, run.results))
    path.write_bytes(head + b"\n" + lines + b"\n]}\n")


def read_run(path: Path, *, oldest: int = FORMAT) -> Run:
    """Raises OSError, and ValueError with the place where it is not a run of a format from ``oldest`` to ours."""
    try:
        run = msgspec.json.decode(path.read_bytes(), type=Run)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: not the results of a benchmark of relists: {error}") from error
    if not oldest <= run.format <= FORMAT:
        raise ValueError(
            f"{path}: results in format {run.format}, by other rules; this trikubelet reads format {FORMAT}: "
            "measure again"
        )
    return run


def wall(one: Round) -> int:
    """For ``least``."""
    return one.wall_ns


def cpu(one: Round) -> int:
    """For ``least``."""
    return one.cpu_ns


def least(mine: Showing, other: Showing, figure: Callable[[Round], int | None]) -> tuple[int, int] | None:
    """The least figure of each over the rounds that both have played and that have it; None when there are none. A
    peer plays the first rounds of a cell, until its time is used up."""
    both = [(figure(one), figure(another)) for one, another in zip(mine.rounds, other.rounds, strict=False)]
    known = [(a, b) for a, b in both if a is not None and b is not None]
    return (min(a for a, _ in known), min(b for _, b in known)) if known else None


def spread(figures: Sequence[int]) -> tuple[float, float, float]:
    """Minimum, median and ninth decile of at least one figure."""
    tenths = quantiles(figures, n=10, method="inclusive") if len(figures) > 1 else [figures[0]]
    return min(figures), median(figures), tenths[-1]
