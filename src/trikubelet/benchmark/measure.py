"""Measuring: crowd by crowd, cell by cell, round by round.

    crowd     a stage, and a process for each peer, which lives through all cells of the crowd
    cell      an unmeasured relist, so that all peers know the same; then rounds; then rounds that are counted
    round     something happens to the pods; then each peer relists, another one first in each round and each crowd

A peer takes part in a cell's rounds until it has used up its time, so that the slow ones are measured less often
rather than never. One that does not answer within ``patience_seconds`` is ended, and left out of the rest of its crowd;
one whose status calls would wait too long is left out of the cell. Both are written down.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import trio

from trikubelet.benchmark.grid import Mode
from trikubelet.benchmark.machine import Usage, busy_elsewhere, calibrate, usage, waited_ns
from trikubelet.benchmark.process import Program, ProgramEnded, open_program
from trikubelet.benchmark.results import OURS, CellResult, Memory, Round, Showing
from trikubelet.benchmark.stages import Stage, open_stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trikubelet.benchmark.grid import Cell
    from trikubelet.benchmark.lineup import Peer

WAIT_SECONDS_MAX: Final = 20.0
"""The wait of a relist's status calls. A longer one shows nothing that arithmetic does not."""

COUNTED_ROUNDS: Final = 3
COUNTED_PODS_MAX: Final = 10_000
"""Counting memory makes the slower peers several times slower still."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How long to measure: rounds of a cell at most, the seconds each peer may use for them, how long to wait for an
    answer; and the seed of the pods."""

    rounds_max: int = 15
    peer_seconds: float = 3.0
    patience_seconds: float = 180.0
    seed: int = 1


class ProgressListener(Protocol):
    """Receives how far the measuring is."""

    def now(self, cell: Cell, doing: str) -> None:
        """This is being done."""

    def done(self, result: CellResult) -> None:
        """A cell has been measured."""


async def measure(cells: Iterable[Cell], peers: Sequence[Peer], rules: Rules, watcher: ProgressListener) -> None:
    """Measure the cells one after another and pass the results to ``watcher``. Cells of one crowd follow each other.
    Raises ProgramEnded when the fake runtime does."""
    for number, (crowd, mine) in enumerate(groupby(cells, key=lambda cell: cell.crowd)):
        async with AsyncExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            stage = await stack.enter_async_context(open_stage(crowd, directory, rules.seed))
            match = _Match(stage, rules, watcher, first=number)  # first relists have but one round to take turns in
            for peer in peers:
                await match.enter(peer, stack, directory)
            for cell in mine:
                watcher.done(await match.play(cell))


class _Match:
    """Owns who takes part in a crowd's cells, and why others do not any more. ``first``: which of the peers is the
    first to relist."""

    def __init__(self, stage: Stage, rules: Rules, watcher: ProgressListener, first: int) -> None:
        self._stage = stage
        self._rules = rules
        self._watcher = watcher
        self._first = first
        self._peers: dict[str, Peer] = {}
        self._programs: dict[str, Program] = {}
        self._out: dict[str, str] = {}

    async def enter(self, peer: Peer, stack: AsyncExitStack, directory: Path) -> None:
        """The peer takes part, unless it cannot."""
        self._peers[peer.name] = peer
        if peer.left_out:
            self._out[peer.name] = peer.left_out
            return
        command = [*peer.command, *self._stage.peer_flags]
        program = open_program(command, directory / f"{peer.name}.log")
        self._programs[peer.name] = await stack.enter_async_context(program)

    async def play(self, cell: Cell) -> CellResult:
        """Measure one cell."""
        showings = {name: Showing(left_out=self._why_not(name, cell)) for name in self._peers}
        result = CellResult(cell=cell, peers=showings)
        able = [name for name, showing in showings.items() if not showing.left_out]
        if cell.unknown:
            for name in able:
                showings[name].before = await self._memory(name)
        else:
            for name in self._programs:
                if name not in self._out:
                    self._watcher.now(cell, f"{name} catches up")
                    await self._relist(name, {})
        await self._stage.set_latency(cell.status_latency_seconds)
        calibration, before, runtime_ns = calibrate(), self._usage(), await self._stage.cpu_ns()
        await self._rounds(cell, able, showings)
        if runtime_ns is not None:
            result.runtime_cpu_ns = (await self._stage.cpu_ns() or 0) - runtime_ns
        result.busy_elsewhere = round(busy_elsewhere(before, self._usage()), 4)
        result.calibration_ns = (calibration, calibrate())
        result.list_bytes = self._stage.list_bytes
        await self._count(cell, able, showings)
        await self._stage.set_latency(0)
        for name in able:
            showings[name].memory = await self._memory(name)
            showings[name].left_out = self._out.get(name, "")
        return result

    def _why_not(self, name: str, cell: Cell) -> str:
        peer = self._peers[name]
        wait = cell.wait_seconds(peer.pods_at_once, peer.calls_at_once)
        if name not in self._out and wait > WAIT_SECONDS_MAX:
            return f"its status calls would wait for {wait:.0f} s"
        return self._out.get(name, "")

    async def _rounds(self, cell: Cell, able: Sequence[str], showings: dict[str, Showing]) -> None:
        left_ns = dict.fromkeys(able, int(self._rules.peer_seconds * 1e9))
        for number in range(1 if cell.unknown else self._rules.rounds_max):
            playing = [name for name in able if left_ns[name] > 0 and name not in self._out]
            if not playing:
                return
            await self._stage.tick(cell.churn)
            first = (self._first + number) % len(playing)
            for name in playing[first:] + playing[:first]:
                self._watcher.now(cell, f"{name}, round {number + 1}")
                round_ = await self._relist(name, {})
                if round_ is not None:
                    showings[name].rounds.append(round_)
                    left_ns[name] -= round_.wall_ns

    async def _count(self, cell: Cell, able: Sequence[str], showings: dict[str, Showing]) -> None:
        """Rounds in which the peers count their memory (from files) or ours watches its event loop (over a socket)."""
        if cell.unknown or cell.status_latency_seconds or cell.crowd.pods > COUNTED_PODS_MAX:
            return
        from_files = cell.crowd.mode is Mode.BYTES
        for _ in range(1 if from_files else COUNTED_ROUNDS):
            await self._stage.tick(cell.churn)
            for name in able if from_files else {OURS} & set(able):
                if name not in self._out:
                    self._watcher.now(cell, f"{name}, counted")
                    round_ = await self._relist(name, {"count": True} if from_files else {"stall": True})
                    if round_ is not None:
                        showings[name].counted.append(round_)

    async def _relist(self, name: str, more: dict[str, object]) -> Round | None:
        """Let a peer relist; None when it did not answer, and is out."""
        program = self._programs[name]
        waited = waited_ns(program.pid)
        answer = await self._ask(name, self._stage.question() | more)
        if answer is None:
            return None
        round_ = msgspec.convert(answer, Round)
        return msgspec.structs.replace(round_, waited_ns=max(waited_ns(program.pid) - waited, 0))

    async def _memory(self, name: str) -> Memory | None:
        """Return the memory in use once the peer has forgotten its events, which are ours to remember and not its. They
        are not asked for: to send them takes memory, and the peak is that of all cells of the crowd so far."""
        if name in self._out or await self._ask(name, {"do": "forget"}) is None:
            return None
        answer = await self._ask(name, {"do": "memory"})
        return None if answer is None else msgspec.convert(answer, Memory)

    async def _ask(self, name: str, question: dict[str, object]) -> Any:
        with trio.move_on_after(self._rules.patience_seconds):
            try:
                return await self._programs[name].ask(question)
            except ProgramEnded as ended:
                self._out[name] = f"it ended: {ended}"
                return None
        self._out[name] = f"it had not answered after {self._rules.patience_seconds:g} s"
        self._programs[name].kill()
        return None

    def _usage(self) -> Usage:
        return usage({os.getpid(), self._stage.pid, *(program.pid for program in self._programs.values())})
