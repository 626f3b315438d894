"""Static pods of one full name run one after another: who of them has its turn.

    stand(worker) ─► nothing of the name runs, and all before it have ended ─► its event is set ─► it begins ─► leave

A manifest that was edited brings another UID under the name of the pod that still ends: their mirror pod, log links and
host ports are the same. (upstream: allowStaticPodStart; there the waiting pod polls, here it stands in line.)
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import trio

from trikubelet.core.lifecycle import Starting, Syncing
from trikubelet.core.names import full_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.pods.worker import PodWorker


class StaticTurns:
    """Owns the line of each full name: its workers, each with an event that is set when it may begin."""

    def __init__(self, is_running: Callable[[PodWorker], bool], has_predecessor: Callable[[PodWorker], bool]) -> None:
        """``is_running``: whether something of the worker's pod runs; ``has_predecessor``: whether something of its
        name does, or may, that has no worker."""
        self._is_running = is_running
        self._has_predecessor = has_predecessor
        self._lines: dict[str, deque[tuple[PodWorker, trio.Event]]] = {}

    def stand(self, worker: PodWorker) -> trio.Event:
        """The last of its name so far."""
        turn = trio.Event()
        self._lines.setdefault(full_name(worker.pod), deque()).append((worker, turn))
        self._offer(full_name(worker.pod))
        return turn

    def go_first(self, worker: PodWorker) -> None:
        """It ends an orphan: whoever waits under its name waits for that."""
        turn = trio.Event()
        turn.set()
        self._lines.setdefault(full_name(worker.pod), deque()).appendleft((worker, turn))

    def leave(self, worker: PodWorker) -> None:
        """It has ended, or never begins: then its event is set, too. Nothing for one that does not stand in line."""
        name = full_name(worker.pod)
        line = self._lines.get(name)
        if line is None:
            return
        for one, turn in line:
            if one is worker:
                turn.set()
        left = deque(entry for entry in line if entry[0] is not worker)
        if left:
            self._lines[name] = left
            self._offer(name)
        else:
            del self._lines[name]

    def offer(self) -> None:
        """Who waits for what an earlier agent began may go on when that has ended, by whomever it was stopped."""
        for name in self._lines:
            self._offer(name)

    def offer_beside(self, worker: PodWorker) -> None:
        """The same of one line: the worker was asked for something, and may start nothing any more."""
        if full_name(worker.pod) in self._lines:
            self._offer(full_name(worker.pod))

    def waits(self, worker: PodWorker) -> bool:
        """Whether it stands in line, and has not had its turn."""
        return any(one is worker and not turn.is_set() for one, turn in self._lines.get(full_name(worker.pod), ()))

    def first(self, worker: PodWorker) -> PodWorker:
        """Who is first in the line in which a worker stands."""
        return self._lines[full_name(worker.pod)][0][0]

    def _offer(self, name: str) -> None:
        """Let the first in line go, and everyone in line who will start nothing any more."""
        # What an earlier agent began comes before what never ran, in whatever order they were brought.
        line = deque(sorted(self._lines[name], key=lambda one: not (one[1].is_set() or self._is_running(one[0]))))
        self._lines[name] = line
        for place, (worker, turn) in enumerate(line):
            is_next = place == 0 and (turn.is_set() or not self._has_predecessor(worker))
            if is_next or not isinstance(worker.state, Starting | Syncing):
                turn.set()

    def __len__(self) -> int:
        return len(self._lines)
