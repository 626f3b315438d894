"""``trikubelet bench relist``: measure the relist next to its peers, on the same bytes and the same socket, in one run.

It needs no agent and no runtime, because it starts its own. ``--from`` shows, compares, draws or formats the JSON of an
earlier run, so that nothing must be measured twice.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from trikubelet import __version__
from trikubelet.benchmark.goals import HEADINGS as GOAL_HEADINGS
from trikubelet.benchmark.goals import goal_cells, goal_rows
from trikubelet.benchmark.grid import full_grid, grid, in_order
from trikubelet.benchmark.lineup import lineup
from trikubelet.benchmark.machine import this_machine
from trikubelet.benchmark.measure import Rules, measure
from trikubelet.benchmark.plot import PlotsMissing, can_draw, draw
from trikubelet.benchmark.process import ProgramEnded
from trikubelet.benchmark.progress import Progress
from trikubelet.benchmark.results import OURS, Run, read_run, write_run
from trikubelet.benchmark.table import COMPARED, HEADINGS, as_text, compared, rows
from trikubelet.cli.failed import CommandFailed, Misunderstood
from trikubelet.cli.words.bench import parser
from trikubelet.core.relist_twin import ITEMS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trikubelet.benchmark.grid import Cell
    from trikubelet.benchmark.lineup import Peer
    from trikubelet.benchmark.results import CellResult

HERE: Final = Path(__file__).parent
EXIT_STOPPED: Final = 130
"""Like a program that SIGINT ended; SIGTERM stops a run in the same way."""
_CELL_FLAGS: Final = ("pods", "containers_per_pod", "mode", "churn", "status_latency")
_HOW_WORDS: Final = ("peers", "rounds", "seed")
_MEASURED: Final = ("rust/relist/src", "src/trikubelet/pleg")
_GRIDS: Final[dict[str, Callable[[], list[Cell]]]] = {
    "goals": goal_cells,
    "full": lambda: in_order([*full_grid(), *goal_cells()]),
}


def run(argv: Sequence[str]) -> int:
    """Run ``bench`` and return the exit code. Raises CommandFailed."""
    args = parser().parse_args(argv)
    if args.source and (idle := _said(args, (*_CELL_FLAGS, "grid", *_HOW_WORDS))):
        raise Misunderstood(f"--from measures nothing, and shows all that was measured; leave out {', '.join(idle)}")
    try:
        # Errors of the outputs are found now, not after an hour of measuring.
        other = _read("--compare", args.compare) if args.compare else None
        _try_outputs(args)
        measured, is_whole = (_read("--from", args.source), True) if args.source else _measure(args)
        print(as_text(HEADINGS, rows(measured.results)))
        print(as_text(GOAL_HEADINGS, goal_rows(measured)) if not _chosen(args) else "", end="")
        if other is not None:
            print(_comparison(measured, other), end="")
        if args.output:
            with _naming("--output", args.output):
                write_run(args.output, measured)
        if args.plot:
            with _naming("--plot", args.plot):
                draw(measured, args.plot)
    except (OSError, ValueError, ProgramEnded, PlotsMissing) as error:
        raise CommandFailed(str(error)) from error
    if not is_whole:
        sys.stderr.write(f"stopped: {len(measured.results)} cells were measured, and these are all there is\n")
        return EXIT_STOPPED
    if failed := [str(one.cell) for one in measured.results if _failed(one)]:
        raise CommandFailed(f"ours failed in every round of {len(failed)} cells, which say nothing: {failed[0]}, …")
    return 0


def _failed(result: CellResult) -> bool:
    ours = result.peers.get(OURS)
    return ours is not None and bool(ours.rounds) and all(one.error is not None for one in ours.rounds)


def _read(flag: str, path: Path) -> Run:
    with _naming(flag, path):
        return read_run(path)


@contextmanager
def _naming(flag: str, path: Path) -> Iterator[None]:
    """Name the file of an OSError. Raises CommandFailed."""
    try:
        yield
    except OSError as error:
        raise CommandFailed(f"{flag}: {error.filename or path}: {error.strerror or error}") from error


def _comparison(now: Run, before: Run) -> str:
    lines = compared(now, before)
    if not lines:
        return "\nnothing to compare: the two runs have no cell in common that ours was measured in\n"
    return f"\nbefore → now:\n{as_text(COMPARED, lines)}"


def _try_outputs(args: argparse.Namespace) -> None:
    """Raises CommandFailed for a file that cannot be written, and PlotsMissing."""
    if args.output:
        with _naming("--output", args.output):
            is_new = not args.output.exists()
            args.output.open("ab").close()
            if is_new:
                args.output.unlink()
    if args.plot:
        can_draw()
        if not args.plot.absolute().parent.is_dir():
            raise CommandFailed(f"--plot: {args.plot.absolute().parent}: no such directory for the pictures")


def _measure(args: argparse.Namespace) -> tuple[Run, bool]:
    """Return the results, and true if all cells were measured, which is not so after a signal."""
    cells = _cells(args)
    commit, measured = _commit(), trees()
    began, started = time.gmtime(), time.monotonic()
    sys.stderr.write(
        "building upstream's PLEG, which takes minutes the first time\n" if "upstream" in args.peers else ""
    )
    peers = lineup(args.peers)
    progress = Progress(cells, sys.stderr)
    try:
        trio.run(_measure_until_signal, cells, peers, Rules(rounds_max=args.rounds, seed=args.seed), progress)
        if not progress.results:
            raise KeyboardInterrupt  # by SIGTERM; there is always a cell
    except KeyboardInterrupt:
        if not progress.results:
            raise  # otherwise the results so far are worth printing
    finally:
        progress.end()
    run = Run(
        commit=commit,
        trees=measured,
        version=__version__,
        began=time.strftime("%Y-%m-%d %H:%M UTC", began),
        seconds=round(time.monotonic() - started, 1),
        machine=this_machine(),
        results=progress.results,
    )
    return run, len(progress.results) == len(cells)


async def _measure_until_signal(cells: Sequence[Cell], peers: Sequence[Peer], rules: Rules, progress: Progress) -> None:
    """Measure the cells. SIGTERM and the end of the terminal (except under nohup) end it like Ctrl-C: the programs end,
    and the files they read are removed."""
    token = trio.lowlevel.current_trio_token()
    with trio.CancelScope() as scope:
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, lambda *_: token.run_sync_soon(scope.cancel))
        try:
            await measure(cells, peers, rules, progress)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _cells(args: argparse.Namespace) -> list[Cell]:
    """Return the cells. Raises CommandFailed if a grid and its parts are both given."""
    chosen = _chosen(args)
    if not chosen:
        return _GRIDS[args.grid or "goals"]()
    if args.grid:
        raise Misunderstood(f"--grid says which cells already; leave out {chosen[0]}")
    pods, containers = args.pods or [1000], args.containers_per_pod or [2]
    if (most := max(pods) * max(containers)) > ITEMS_MAX:
        at_once = f"--pods {max(pods)} with --containers-per-pod {max(containers)}"
        raise Misunderstood(f"{at_once}: {most} containers, and of lists of more than {ITEMS_MAX} none is read")
    return grid(
        pods,
        containers,
        args.mode or ["bytes", "socket"],
        args.churn or [0.01],
        args.status_latency or [0.0],
    )


def _chosen(args: argparse.Namespace) -> list[str]:
    return _said(args, _CELL_FLAGS)


def _said(args: argparse.Namespace, words: Sequence[str]) -> list[str]:
    """Return the flags that do not have their defaults."""
    made = parser()
    return [f"--{word.replace('_', '-')}" for word in words if getattr(args, word) != made.get_default(word)]


def _commit() -> str:
    """Return the measured commit, as git names it; the version, if this is not a checkout."""
    return _git("describe", "--always", "--dirty") or __version__


def trees() -> dict[str, str]:
    """Return git's names of the measured folders' content, by which it is found when the commit is gone; none for an
    edited folder, or outside of a checkout."""
    named = {folder: _git("rev-parse", "--verify", "--quiet", f"HEAD:{folder}") for folder in _MEASURED}
    return {folder: tree for folder, tree in named.items() if tree and not _git("status", "--porcelain", f":/{folder}")}


def _git(*words: str) -> str:
    """Return git's output; empty if there is no git, or no output."""
    try:
        done = subprocess.run(  # noqa: S603 - the arguments are ours
            ["git", "-C", str(HERE), *words],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip()
