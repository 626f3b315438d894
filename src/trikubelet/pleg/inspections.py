"""Inspections: many pods side by side, within a bound, and one that hangs in nobody's way.

    add ─► waiting ─► running ─► done: settle(job, found)   ─► its place goes to the next
              │          ├─► failed: settle(job, error)     ─► since when it cannot be seen is remembered
              │          └─► hangs: its place goes to the next at once, it goes on beside them
              └─ has no job of its own: what is asked is asked as the newest list has it when a place is free

A pod has at most one inspection at a time. One that takes longer than ``inspection_hung_seconds`` counts as hung and
no longer against the bound; as each is given up after ``runtime_call_seconds_max``, a runtime that hangs over every pod
is asked for no more than ``inspections_max`` times one more than their quotient at a time.

A pod that cannot be seen, because its inspection hangs or fails, is a *laggard* from the beginning of the first such
inspection until one succeeds.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from trikubelet.kit.background import BackgroundTasks
from trikubelet.kit.distribution import Distribution
from trikubelet.kit.every import Every
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, KeysView, Sequence

    from trikubelet.core.relist import PodChange
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.runtime import PodObservation

CHECK_SECONDS: Final = 1.0
"""How often it is looked whether an inspection has come to hang."""


class Job(NamedTuple):
    """One inspection to make: how the pod was listed, in a list that began at the instant ``began``."""

    change: PodChange
    began: float


class Laggard(NamedTuple):
    """A pod that could not be inspected since that time (Trio's clock, seconds), and why."""

    uid: str
    name: str
    namespace: str
    since: float
    why: str


@dataclass(slots=True)
class _Inspection:
    job: Job
    since: float = 0.0  # when it began to run
    is_hung: bool = False
    is_outdated: bool = False


class Inspections:
    """Owns which pods are under inspection or wait for it, and since when a pod cannot be seen.

    ``inspect`` makes one; ``settle`` is told how it went: what was found or the error, and whether a newer list has
    shown the pod otherwise meanwhile. ``as_listed`` tells a pod as the newest list of everything has it; it is asked
    only for a pod whose turn has come, since thousands may wait. ``tell`` gets, every ``CHECK_SECONDS``, the time and
    the pods whose inspection failed or hangs.
    """

    def __init__(
        self,
        inspect: Callable[[Job], Awaitable[PodObservation]],
        settle: Callable[[Job, PodObservation | Exception, bool], None],
        as_listed: Callable[[str], Job],
        tell: Callable[[float, Sequence[Laggard]], None],
        bounds: Bounds,
    ) -> None:
        self._inspect = inspect
        self._settle = settle
        self._as_listed = as_listed
        self._tell = tell
        self._bounds = bounds
        self._waiting: OrderedDict[str, _Inspection | None] = OrderedDict()  # None: to be made as listed
        self._running: dict[str, _Inspection] = {}
        self._hung_count = 0
        self._failing: dict[str, Laggard] = {}
        self._tasks = BackgroundTasks()
        self.seconds = Distribution()
        """How long inspections took, from their place to their end, whatever that was."""

    @property
    def running(self) -> KeysView[str]:
        """The pods under inspection."""
        return self._running.keys()

    @property
    def waiting(self) -> KeysView[str]:
        """The pods that wait for a place."""
        return self._waiting.keys()

    def add_first(self, job: Job) -> None:
        """Inspect a pod that is not under inspection, before all others. Never blocks."""
        uid = job.change.uid
        assert uid not in self._running
        self._waiting[uid] = _Inspection(job)
        self._waiting.move_to_end(uid, last=False)
        self._fill_places()

    def add_listed(self, uids: Iterable[str], apart: Collection[str]) -> None:
        """Another list of everything is in: inspect these pods in their turn, and those that wait, as that list has
        them. Not those ``apart``, for which it does not speak; of their inspections those are marked that were asked
        for with another picture of their pod than this list has."""
        for uid in apart:
            inspection = self._running.get(uid) or self._waiting.get(uid)
            if inspection is not None and inspection.job.change != self._as_listed(uid).change:
                inspection.is_outdated = True
        for uid in (*self._waiting, *uids):
            if uid not in apart:
                self._waiting[uid] = None
        self._fill_places()

    def laggards(self, seconds: float = 0.0) -> list[Laggard]:
        """The pods that have been out of sight for longer than that, longest first."""
        now = trio.current_time()
        found = dict(self._failing)
        for uid, running in self._running.items():
            if uid in found and not running.is_hung:
                continue  # tried once more: the error of the last time says more
            change = running.job.change
            since = found[uid].since if uid in found else running.since
            found[uid] = Laggard(uid, change.name, change.namespace, since, "no answer yet")
        late = [one for one in found.values() if now - one.since > seconds]
        return sorted(late, key=lambda one: (one.since, one.uid))

    def _out_of_sight(self) -> list[Laggard]:
        if not self._failing and not self._hung_count:
            return []
        hung = {uid for uid, running in self._running.items() if running.is_hung}
        return [one for one in self.laggards() if one.uid in self._failing or one.uid in hung]

    def oldest_seconds(self) -> float:
        """How long the oldest running inspection has taken; 0 when none runs."""
        now = trio.current_time()
        return now - min((one.since for one in self._running.values()), default=now)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Make inspections until cancelled. Started: what is added is begun."""
        async with self._tasks.held():
            task_status.started()
            async for now in Every(CHECK_SECONDS):
                for running in self._running.values():
                    if not running.is_hung and now - running.since > self._bounds.inspection_hung_seconds:
                        running.is_hung = True
                        self._hung_count += 1
                self._fill_places()
                self._tell(now, self._out_of_sight())

    def _fill_places(self) -> None:
        while self._waiting and len(self._running) - self._hung_count < self._bounds.inspections_max:
            uid, waiting = self._waiting.popitem(last=False)
            inspection = waiting or _Inspection(self._as_listed(uid))
            inspection.since = trio.current_time()
            self._running[uid] = inspection
            self._tasks.start_soon(self._make, uid, inspection)

    async def _make(self, uid: str, running: _Inspection) -> None:
        found: PodObservation | Exception
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                found = await self._inspect(running.job)
            self._failing.pop(uid, None)
        except (RuntimeCallError, trio.TooSlowError) as error:
            found = error
            self._note_failure(running, error)
        self.seconds.add(trio.current_time() - running.since)
        del self._running[uid]
        self._hung_count -= running.is_hung
        self._settle(running.job, found, running.is_outdated)
        self._fill_places()

    def _note_failure(self, running: _Inspection, error: Exception) -> None:
        uid, change = running.job.change.uid, running.job.change
        since = self._failing[uid].since if uid in self._failing else running.since
        is_late = isinstance(error, trio.TooSlowError)
        why = f"no answer within {self._bounds.runtime_call_seconds_max:g} s" if is_late else told(error)
        self._failing[uid] = Laggard(uid, change.name, change.namespace, since, why)

    def __repr__(self) -> str:
        return f"<Inspections: {len(self._running)} run, {self._hung_count} hang, {len(self._waiting)} wait>"


def told(error: Exception) -> str:
    """An error of a call in words."""
    return "timed out" if isinstance(error, trio.TooSlowError) else str(error)
