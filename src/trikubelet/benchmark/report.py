"""docs/benchmarks.md, made of one run: the goals and whether they are reached, every cell, where others are quicker.

Nothing in the page is written by hand but what explains it, so that it cannot claim what was not measured.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from trikubelet.benchmark.goals import GOALS, goal_cells, goal_rows
from trikubelet.benchmark.goals import HEADINGS as GOAL_HEADINGS
from trikubelet.benchmark.grid import full_grid, percent
from trikubelet.benchmark.results import OURS, PORT, PURE, UPSTREAM, cpu, wall
from trikubelet.benchmark.table import as_markdown, mega, milliseconds, ratio

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.benchmark.results import CellResult, Run

OTHERS: Final = (UPSTREAM, PORT, PURE)

_PEERS: Final = f"""\
- `{OURS}`: trikubelet. From bytes its relist record alone; over a socket its PLEG, pod cache, CRI client and channel.
- `{UPSTREAM}`: upstream's GenericPLEG with its runtime manager and CRI client, imported from `k8s.io/kubernetes`
  (`bench/peers/go`); unary lists as far as a reply reaches, streamed ones beyond.
- `{PORT}`: upstream's way in plain Python: decode everything, compare objects, inspect one pod after another.
- `{PURE}`: the best pure Python we could write, inspecting side by side as `{OURS}` does. It keeps what it finds and
  has nothing else of a PLEG: no hints, no health, no workers that wait, no look whether a status says anything new.

Over a socket `{OURS}`, `{PORT}` and `{PURE}` share our CRI client, whose frames are read by the compiled module: what
differs is what becomes of the replies.

All of them relist the same pods on the same socket, or read the same files, in turn and in one run; who comes first
changes from round to round, and from one first relist to the next. Each list comes shuffled, and so does every label
and annotation map in it. Figures are the least of a cell's rounds: others on the machine can only make a round longer.
A slow peer plays fewer rounds, so a ratio is that of the least times in the rounds both have played. The runtime's time
is part of every wall time. A first relist is measured once: trust its processor time.

What is counted: *memory kept* is what is in use after a relist (Python's and the C library's, the compiled module's
among it; Go's heap after a collection) less what was before the first. *Memory blocks* are Python's alone, and none of
the compiled module's, whose memory is in the line before; Go reports only how often it has ever allocated, so it has
none there. The *peak RSS* is that of the whole process, its program and libraries among it, after a first relist, then
rounds without churn, then with. The *event loop* was kept as long as the longest step of any task, in the worst of the
rounds in which that was watched: by the clock, which runs on while others have the processor, and in processor time.
"""


_FLOORS: Final = """\
Below what a relist from bytes cannot go, and why not five times below the best pure Python:
[decisions/0009](decisions/0009-what-a-relist-costs.md). What keeps the event loop:
[decisions/0012](decisions/0012-what-keeps-the-event-loop.md).
"""

EARLIER_RULES: Final = {
    1: f"""\
  - In cells of which nothing is known, `{OURS}` was always the first.
  - `{PURE}` inspected 16 pods at a time, and asked for each one's statuses one after another.
  - `{OURS}` ran without the care that the agent takes of its heap.
  - The event loop was watched by the clock alone, not by processor time.
  - No cell had 9,000 pods and churn, so the peak RSS is that of a first relist.
""",
}
"""By format: what was otherwise than the page says."""


def page(run: Run) -> str:
    """The whole page."""
    return "\n".join(
        (
            "# What a relist costs, beside others\n",
            "Made of `bench/results/relist.json` by `packaging/generate_benchmarks.py`; `make lint` compares, and",
            "`make bench-relist` measures again. Ratios say something, milliseconds are this machine's.\n",
            _circumstances(run),
            _earlier(run),
            "## What is wanted, and what is reached\n",
            _goals(run),
            "## Who is measured\n",
            _PEERS,
            "## Whether they report the same\n",
            _agreement(run),
            "## Where others are quicker\n",
            _losses(run),
            "## Growth\n",
            "![CPU time of a relist against the number of containers](benchmarks.svg)\n",
            "## Every cell that was measured\n",
            _extent(run),
            "Least milliseconds of `ours` in all its rounds; how many times as long the others took in the rounds they",
            "had in common, wall and processor time.",
            "*Elsewhere*: what others kept of the machine meanwhile. *Loop*: milliseconds of a fixed loop, the slower",
            "of before and after. *Runtime*: processor milliseconds of the fake runtime for each relist, the churn",
            "included.\n",
            _cells(run),
        )
    )


def _earlier(run: Run) -> str:
    """Return the notes that a reader of figures by earlier rules must know first."""
    texts = [texts for format_, texts in sorted(EARLIER_RULES.items()) if format_ >= run.format]
    if not texts:
        return ""
    return (
        f"**These figures are of {run.began}, by earlier rules.** What is said below of the rules\nis how it "
        f"is measured today. What was otherwise then:\n\n{''.join(texts)}"
    )


def _extent(run: Run) -> str:
    """Return how much of the grid the page covers."""
    whole = {*full_grid(), *goal_cells()}
    measured = len({result.cell for result in run.results} & whole)
    if measured == len(whole):
        return f"All {measured} cells of the full grid."
    return f"{measured} of the {len(whole)} cells of the full grid (`--grid full`); the goals need {len(goal_cells())}."


def _circumstances(run: Run) -> str:
    machine = run.machine
    busy = [result.busy_elsewhere for result in run.results] or [0.0]
    loops = [loop for result in run.results for loop in result.calibration_ns] or [0]
    return (
        f"Measured {run.began}{_version(run)} in {run.seconds / 60:.0f} minutes, on {machine.processors} "
        f"processors\n({machine.processor}), {machine.memory_bytes / 2**30:.0f} GiB, Linux {machine.kernel}, "
        f"Python {machine.python}.\nOthers kept {percent(round(median(busy), 2))} of the machine in the middle of the "
        f"cells, at most {percent(round(max(busy), 2))}; a fixed loop took\n{milliseconds(min(loops))} ms at best and "
        f"{milliseconds(max(loops))} ms at worst.\n{_trees(run)}"
    )


def _version(run: Run) -> str:
    """Return the version that was measured. Not the commit, which no reader may find: histories are rewritten."""
    return f" of version {run.version}" if run.version else ""


def _trees(run: Run) -> str:
    named = " and ".join(f"{tree} ({folder})" for folder, tree in run.trees.items())
    return f"The code is that of the git trees {named}.\n" if named else ""


def _goals(run: Run) -> str:
    rows = goal_rows(run)
    reached = sum(row[-1] == "yes" for row in rows)
    measured = sum(row[-1] != "not measured" for row in rows)
    summary = (
        f"{reached} of {len(GOALS)} are reached, {measured - reached} are not, {len(GOALS) - measured} not measured.\n"
    )
    return f"{as_markdown((*GOAL_HEADINGS[:-1], 'reached?'), rows)}\n{summary}{_FLOORS}"


def _agreement(run: Run) -> str:
    """Compares how many events each peer reported in each round that they had in common."""
    same, different = 0, list[str]()
    for result in run.results:
        rounds = [showing.rounds for name in result.peers if (showing := result.took_part(name))]
        if len(rounds) < 2:
            continue
        agree = [len({one.events for one in together}) == 1 for together in zip(*rounds, strict=False)]
        same += sum(agree)
        if not all(agree):
            different.append(f"{agree.count(False)} of {len(agree)} rounds of {result.cell}")
    but = f", and another in {'; '.join(different)}" if different else ", and never another"
    return f"In {same:,} rounds all peers reported the same number of events{but}.\n"


def _losses(run: Run) -> str:
    rows = [
        (str(result.cell), peer, wall, cpu)
        for result in run.results
        for peer in OTHERS
        for wall, cpu in _ratios(result, peer)
        if float(wall) < 1 or float(cpu) < 1
    ]
    if not rows:
        return "In no cell.\n"
    head = "A ratio below 1 is a peer that took less time than trikubelet.\n\n"
    return head + as_markdown(("cell", "peer", "wall ratio", "CPU ratio"), rows)


def _cells(run: Run) -> str:
    headings = [
        "cell",
        "wall ms",
        "CPU ms",
        *(f"{peer}: wall, CPU" for peer in OTHERS),
        "heap",
        "runtime",
        "elsewhere",
        "loop",
    ]
    return as_markdown(headings, map(_cell, run.results))


def _cell(result: CellResult) -> list[str]:
    ours = result.took_part(OURS)
    times = ["", ""] if ours is None else [milliseconds(ours.wall_ns), milliseconds(ours.cpu_ns)]
    others = []
    for peer in OTHERS:
        showing = result.peers.get(peer)
        found = [f"{wall}, {cpu}" for wall, cpu in _ratios(result, peer)]
        failed = [one.error for one in showing.rounds if one.error] if showing else []
        others += found or ([showing.left_out or ("fails" if failed else "")] if showing else [""])
    heap = mega(ours.memory.heap_bytes) if ours and ours.memory else ""
    relists = sum(len(showing.rounds) for showing in result.peers.values())
    runtime = milliseconds(result.runtime_cpu_ns / relists) if result.runtime_cpu_ns and relists else ""
    return [
        str(result.cell),
        *times,
        *others,
        heap,
        runtime,
        percent(round(result.busy_elsewhere, 2)),
        milliseconds(max(result.calibration_ns)),
    ]


def _ratios(result: CellResult, peer: str) -> Iterable[tuple[str, str]]:
    """Yield a peer's wall and processor time in multiples of ours; nothing when one of the two did not take part."""
    ours, theirs = result.took_part(OURS), result.took_part(peer)
    if ours is not None and theirs is not None:
        yield ratio(theirs, ours, wall), ratio(theirs, ours, cpu)
