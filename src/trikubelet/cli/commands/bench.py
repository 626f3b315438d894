"""``trikubelet bench relist``: the relist beside its peers, on the same bytes and the same socket, in one run.

Needs no agent and no runtime: it brings its own. A run's JSON can be shown, compared, drawn and made into a page again
with ``--from``, so that nothing has to be measured twice.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

import trio

from trikubelet import __version__
from trikubelet.benchmark.goals import HEADINGS as GOAL_HEADINGS
from trikubelet.benchmark.goals import goal_cells, goal_rows
from trikubelet.benchmark.grid import full_grid, grid, in_order
from trikubelet.benchmark.lineup import PEERS, lineup
from trikubelet.benchmark.machine import this_machine
from trikubelet.benchmark.measure import Rules, measure
from trikubelet.benchmark.plot import PlotsMissing, can_draw, draw
from trikubelet.benchmark.process import ProgramEnded
from trikubelet.benchmark.progress import Progress
from trikubelet.benchmark.results import OURS, Run, read_run, write_run
from trikubelet.benchmark.table import COMPARED, HEADINGS, as_text, compared, rows
from trikubelet.cli.arguments import Parser
from trikubelet.cli.failed import CommandFailed, Misunderstood
from trikubelet.core.relist_twin import ITEMS_MAX
from trikubelet.fake.control import read_fraction, read_latency

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trikubelet.benchmark.grid import Cell
    from trikubelet.benchmark.lineup import Peer
    from trikubelet.benchmark.results import CellResult

HERE: Final = Path(__file__).parent
EXIT_STOPPED: Final = 130
"""As of a program that SIGINT ended; SIGTERM stops a run in the same way."""
_MODES: Final = ("bytes", "socket", "unary", "streamed")
_CELL_FLAGS: Final = ("pods", "containers_per_pod", "mode", "churn", "status_latency")
_HOW_WORDS: Final = ("peers", "rounds", "seed")
_MEASURED: Final = ("rust/relist/src", "src/trikubelet/pleg")
_PODS_MAX: Final = 100_000
_CONTAINERS_PER_POD_MAX: Final = 100
_GRIDS: Final[dict[str, Callable[[], list[Cell]]]] = {
    "goals": goal_cells,
    "full": lambda: in_order([*full_grid(), *goal_cells()]),
}


def parser() -> argparse.ArgumentParser:
    """The arguments of ``bench``."""
    made = Parser(
        prog="trikubelet bench",
        description="Measure the relist side by side with upstream's own and two in Python. What counts are the ratios "
        "of the least times; the rest tells how quiet the machine was.",
        epilog="Lists are written with commas: --pods 110,1000 --churn 0,0.01. Any of the flags about cells measures "
        "every combination of them instead of a grid; those not given have one value.",
        allow_abbrev=False,
    )
    rules = Rules()
    made.add_argument("what", choices=["relist"], help="what to measure")
    cells = made.add_argument_group("which cells")
    add = cells.add_argument
    add("--grid", choices=list(_GRIDS), help="the cells of the goals (default), or all; a full run takes 45 minutes")
    add("--pods", **_list(_whole(_PODS_MAX)), metavar="N,…", help="default: 1000")
    add("--containers-per-pod", **_list(_whole(_CONTAINERS_PER_POD_MAX)), metavar="N,…", help="default: 2")
    add("--churn", **_list(_fraction), metavar="F,…", help="fraction of the pods that changes (default: 0.01)")
    add("--status-latency", **_list(_latency), metavar="DURATION,…", help="of each status call (default: 0)")
    add("--mode", **_list(_one_of(_MODES)), metavar="MODE,…", help=f"of {', '.join(_MODES)} (default: bytes,socket)")
    how = made.add_argument_group("how")
    add = how.add_argument
    add("--peers", **_list(_one_of(PEERS)), default=list(PEERS), metavar="NAME,…", help=f"of {', '.join(PEERS)}")
    add("--rounds", type=_whole(10_000), default=rules.rounds_max, metavar="N", help="at most (default: %(default)s)")
    add("--seed", type=int, default=rules.seed, metavar="N", help="of the made-up pods (default: %(default)s)")
    out = made.add_argument_group("what comes of it")
    add = out.add_argument
    add("--from", dest="source", type=Path, metavar="FILE", help="measure nothing: take the results of another run")
    add("--output", type=Path, metavar="FILE", help="write the results as JSON")
    add("--compare", type=Path, metavar="FILE", help="compare with the results of another run")
    add("--plot", type=Path, metavar="NAME", help="draw NAME.svg and NAME.png (needs the extra: trikubelet[bench])")
    return made


def run(argv: Sequence[str]) -> int:
    """Carry out ``bench``; the exit code. Raises CommandFailed."""
    args = parser().parse_args(argv)
    if args.source and (idle := _said(args, (*_CELL_FLAGS, "grid", *_HOW_WORDS))):
        raise Misunderstood(f"--from measures nothing, and shows all that was measured; leave out {', '.join(idle)}")
    try:
        # What cannot work is refused now, not after an hour of measuring.
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
    """Says of what an OSError is. Raises CommandFailed."""
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
    """The results, and whether they are of all cells: not where somebody stopped it."""
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
            raise  # else what took so long to measure is worth printing
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
    """Measure. SIGTERM ends it as Ctrl-C does, and so does the end of its terminal, unless nohup has it go on: the
    programs end, and the files they read are removed."""
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
    """Raises CommandFailed for a grid and its parts at once."""
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
    """Those of the flags that say another thing than they do by default."""
    made = parser()
    return [f"--{word.replace('_', '-')}" for word in words if getattr(args, word) != made.get_default(word)]


def _commit() -> str:
    """Which code was measured, as git has it; the version, where this is no checkout."""
    return _git("describe", "--always", "--dirty") or __version__


def trees() -> dict[str, str]:
    """Git's names for what is in the folders that are measured, by which they are found when the commit is gone. None
    of a folder that was edited since, or where this is no checkout."""
    named = {folder: _git("rev-parse", "--verify", "--quiet", f"HEAD:{folder}") for folder in _MEASURED}
    return {folder: tree for folder, tree in named.items() if tree and not _git("status", "--porcelain", f":/{folder}")}


def _git(*words: str) -> str:
    """What git says; nothing where there is no git, or it has nothing to say."""
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


# ---- what flags say ----


class _Once(argparse.Action):
    """A list is said once: of two the last would count, and who says two means both."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, flag: str | None = None
    ) -> None:
        """See ``argparse``."""
        if getattr(namespace, self.dest) is not self.default:
            parser.error(f"argument {flag}: is there twice; write its list with commas")
        setattr(namespace, self.dest, values)


class _ListArguments(TypedDict):
    action: type[argparse.Action]
    type: Callable[[str], list[object]]


def _list(read: Callable[[str], object]) -> _ListArguments:
    """A flag with a list, as arguments of ``add_argument``; argparse shows the message of no other error."""

    def reading(said: str) -> list[object]:
        found = [read(word) for word in said.split(",")]
        if twice := [word for word in found if found.count(word) > 1]:
            raise argparse.ArgumentTypeError(f"{twice[0]} is named twice")
        return found

    return {"action": _Once, "type": reading}


def _whole(most: int) -> Callable[[str], int]:
    def read(said: str) -> int:
        if not (said.isascii() and said.isdecimal() and 0 < int(said) <= most):
            raise argparse.ArgumentTypeError(f"{said!r} is not a whole number from 1 to {most}")
        return int(said)

    return read


def _one_of(words: Sequence[str]) -> Callable[[str], str]:
    def read(said: str) -> str:
        if said not in words:
            raise argparse.ArgumentTypeError(f"{said!r} is not one of {', '.join(words)}")
        return said

    return read


def _fraction(said: str) -> float:
    try:
        return read_fraction(said)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None


def _latency(said: str) -> float:
    try:
        return read_latency(said)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None
