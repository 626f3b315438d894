"""Runs static pods of one full name one after another, in a queue.

    stand(worker) ─► nothing of the name runs, and all before it have ended ─► its event is set ─► it begins ─► leave

An edited manifest adds another UID under the name of the pod that still ends: they would share a mirror pod, log links
and host ports. (upstream: allowStaticPodStart; there the waiting pod polls, here it waits in a queue.)
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
    """Owns the queue of each full name: its workers, each with an event that is set when it may begin."""

    def __init__(self, is_running: Callable[[PodWorker], bool], has_predecessor: Callable[[PodWorker], bool]) -> None:
        """``is_running``: true if something of the worker's pod runs; ``has_predecessor``: true if something of its
        name without a worker runs, or may."""
        self._is_running = is_running
        self._has_predecessor = has_predecessor
        self._lines: dict[str, deque[tuple[PodWorker, trio.Event]]] = {}

    def stand(self, worker: PodWorker) -> trio.Event:
        """Append a worker to the queue of its name, and return its event."""
        turn = trio.Event()
        self._lines.setdefault(full_name(worker.pod), deque()).append((worker, turn))
        self._offer(full_name(worker.pod))
        return turn

    def go_first(self, worker: PodWorker) -> None:
        """Insert a worker that ends an orphan at the head: all others of its name wait for that."""
        turn = trio.Event()
        turn.set()
        self._lines.setdefault(full_name(worker.pod), deque()).appendleft((worker, turn))

    def leave(self, worker: PodWorker) -> None:
        """Remove a worker that has ended or never begins, and set its event. Does nothing for one that is not
        queued."""
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
        """Let pods go on that wait for an earlier agent's pods, when those have ended, whichever component stopped
        them."""
        for name in self._lines:
            self._offer(name)

    def offer_beside(self, worker: PodWorker) -> None:
        """Do the same for one queue, after a request to the worker, which may have nothing to start any more."""
        if full_name(worker.pod) in self._lines:
            self._offer(full_name(worker.pod))

    def waits(self, worker: PodWorker) -> bool:
        """True if it is queued and its turn has not come."""
        return any(one is worker and not turn.is_set() for one, turn in self._lines.get(full_name(worker.pod), ()))

    def first(self, worker: PodWorker) -> PodWorker:
        """Return the first worker of the queue in which this worker is."""
        return self._lines[full_name(worker.pod)][0][0]

    def _offer(self, name: str) -> None:
        """Let the first of the queue go on, and all others that will start nothing any more."""
        # Pods that an earlier agent began precede those that never ran, in whatever order they were added.
        line = deque(sorted(self._lines[name], key=lambda one: not (one[1].is_set() or self._is_running(one[0]))))
        self._lines[name] = line
        for place, (worker, turn) in enumerate(line):
            is_next = place == 0 and (turn.is_set() or not self._has_predecessor(worker))
            if is_next or not isinstance(worker.state, Starting | Syncing):
                turn.set()

    def __len__(self) -> int:
        return len(self._lines)
