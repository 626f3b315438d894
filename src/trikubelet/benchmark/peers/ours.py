"""trikubelet itself as a peer: the compiled relist from bytes, and its whole PLEG over a socket."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol

import trio

from trikubelet.benchmark.peers.protocol import Event, Round, main
from trikubelet.core.relist import EventKind, Relist
from trikubelet.cri.runtime import CriRuntime
from trikubelet.kit.gather import Gather
from trikubelet.kit.heap import look_after_heap
from trikubelet.kit.instant import instant
from trikubelet.model.bounds import Bounds
from trikubelet.pleg.cache import PodCache
from trikubelet.pleg.inspections import reason_of
from trikubelet.pleg.pleg import Pleg

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Sequence

    from trikubelet.core.pleg_pod import Job
    from trikubelet.core.relist import PodChange
    from trikubelet.cri.channel import Channel
    from trikubelet.model.runtime import PodObservation
    from trikubelet.ports import Runtime

UPSTREAM_TYPES: Final = {
    EventKind.STARTED: "ContainerStarted",
    EventKind.DIED: "ContainerDied",
    EventKind.REMOVED: "ContainerRemoved",
}
"""CHANGED has no name: upstream does not deliver it."""


def events_of(change: PodChange) -> list[Event]:
    """The events of upstream for a pod that was inspected because of ``change``."""
    if not change.events:
        return [Event(change.uid, "PodSync")]  # it was inspected again, and nothing else had happened
    return [
        Event(change.uid, UPSTREAM_TYPES[event.kind], event.id)
        for event in change.events
        if event.kind in UPSTREAM_TYPES
    ]


class Recorded(Protocol):
    """A relist whose records advance on request, as ``core.relist.Relist`` is one."""

    def observe(
        self, sandboxes: Sequence[bytes], containers: Sequence[bytes], reinspect: Collection[str] = ()
    ) -> list[PodChange]:
        """Apply full lists; the pods that differ from their records, and those in ``reinspect``."""

    def advance(self, uid: str) -> None:
        """Make the observation of the pod its record."""


class RecordObserver:
    """Owns which pods are to be inspected again."""

    def __init__(self, relist: Recorded) -> None:
        self._relist = relist
        self._reinspect: set[str] = set()

    def observe(self, sandboxes: Sequence[bytes], containers: Sequence[bytes], fail: Collection[str]) -> list[Event]:
        """See ``protocol.Observer``."""
        changes = self._relist.observe(sandboxes, containers, self._reinspect)
        failed = {change.uid for change in changes if change.uid in fail and not change.gone}
        self._reinspect = failed
        events: list[Event] = []
        for change in changes:
            if change.uid not in failed:  # what is gone needs no inspection, and has none that could fail
                self._relist.advance(change.uid)
                events += events_of(change)
        return events


class OurPleg(Pleg):
    """PLEG at the pace of the benchmark: it relists on request, and reports the result.

    Owns what the relist under way has come to. Events are those of the records, as upstream sends them; that PLEG need
    not wake a worker for each is another matter."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime, PodCache(), Gather(), Gather(), Bounds())
        self._round = Round()
        self._idle = trio.Event()

    async def relist(self, round_: Round) -> None:
        """See ``protocol.Relister``."""
        self._round = round_
        self._idle = trio.Event()
        await self._list_all(instant())
        self._look_idle()
        await self._idle.wait()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Make inspections until cancelled. Started: it can be asked to relist."""
        await self._inspections.run(task_status=task_status)

    def _look_idle(self) -> None:
        if not self._pods.inspecting and not self._pods.due:
            self._idle.set()

    def _spread(self, due: Collection[str], began: float) -> None:
        self._round.listed()
        super()._spread(due, began)

    def _note_failure(self, error: Exception, began: float) -> None:
        self._round.error = reason_of(error)
        super()._note_failure(error, began)

    def _settle(self, job: Job, found: PodObservation | Exception) -> None:
        super()._settle(job, found)
        if not job.change.gone:
            self._round.inspected += 1
            self._round.published()
        if not isinstance(found, Exception):
            self._round.events += events_of(job.change)
        self._look_idle()


@asynccontextmanager
async def open_ours(channel: Channel, streaming: bool) -> AsyncGenerator[OurPleg, None]:
    """PLEG over the channel, beside what looks after the heap in the agent. Whether lists are streamed it finds out by
    itself, as it does on a node."""
    pleg = OurPleg(CriRuntime(channel))
    async with trio.open_nursery() as nursery:
        await nursery.start(pleg.run)
        nursery.start_soon(look_after_heap)
        yield pleg
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    main(lambda: RecordObserver(Relist()), open_ours)
