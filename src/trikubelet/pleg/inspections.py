"""Inspections: a bounded number of pods concurrently; one that hangs delays no other.

    due ─► a place is free ─► running ─► done or failed: settle(job, …)   ─► its place goes to the next
                                └─► hangs: its place goes to the next at once; it continues without a place

A pod has at most one inspection at a time. An unexpected exception in it is handled like an error of the runtime. An
inspection that takes longer than ``inspection_hung_seconds`` counts as hung, and no longer against the bound. Each one
times out after ``runtime_call_seconds_max``, so even a runtime that hangs for every pod has at most
``inspections_max * (1 + runtime_call_seconds_max / inspection_hung_seconds)`` inspections at a time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.background import BackgroundTasks
from trikubelet.kit.barrier import message_of
from trikubelet.kit.distribution import Distribution
from trikubelet.kit.every import Every
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trikubelet.core.pleg_pod import Job, UninspectedPod
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.runtime import PodObservation
    from trikubelet.pleg.pods import PlegPods

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 1.0
"""Period of the check for inspections that hang."""


class Inspections:
    """Owns the durations of inspections, and runs those that are due.

    ``inspect`` makes one; ``settle`` gets the result: an observation or the error. ``as_listed`` returns a pod as it is
    in the newest full list. ``report`` gets, every ``CHECK_SECONDS``, the time and the pods whose inspection failed or
    hangs.
    """

    def __init__(
        self,
        pods: PlegPods,
        inspect: Callable[[Job], Awaitable[PodObservation]],
        settle: Callable[[Job, PodObservation | Exception], None],
        as_listed: Callable[[str], Job],
        report: Callable[[float, Sequence[UninspectedPod]], None],
        bounds: Bounds,
    ) -> None:
        self._pods = pods
        self._inspect = inspect
        self._settle = settle
        self._as_listed = as_listed
        self._report = report
        self._bounds = bounds
        self._tasks = BackgroundTasks()
        self._barriers = FaultBarriers(log, "Pod %s: a bug in inspecting it; it is retried")
        self.seconds = Distribution()
        """The durations of inspections, successful or not, without their wait for a place."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run inspections until cancelled. Started once inspections may begin."""
        async with self._tasks.held():
            task_status.started()
            async for now in Every(CHECK_SECONDS):
                self._pods.look_for_hung(now - self._bounds.inspection_hung_seconds)
                self.begin()
                self._report(now, self._pods.uninspected_pods(also_running=False))

    def begin(self) -> None:
        """Begin the inspections that are due while there are free places. Never blocks."""
        while self._pods.in_places < self._bounds.inspections_max:
            job = self._pods.begin_inspection(trio.current_time(), self._as_listed)
            if job is None:
                return
            self._tasks.start_soon(self._make, job)

    async def _make(self, job: Job) -> None:
        began = trio.current_time()
        with self._barriers.of(job.change.uid) as barrier:
            found = await self._found(job)
        if barrier.fault is not None:
            # Passed on as an error of the runtime, because that is the error which waiting workers handle.
            found = RuntimeFailure(f"a bug in inspecting it: {message_of(barrier.fault)}", "INTERNAL")
        self.seconds.add(trio.current_time() - began)
        self._settle(job, found)
        self.begin()

    async def _found(self, job: Job) -> PodObservation | Exception:
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                return await self._inspect(job)
        except (RuntimeCallError, trio.TooSlowError) as error:
            return error


def reason_of(error: Exception) -> str:
    """Return the text of a call's error."""
    return "timed out" if isinstance(error, trio.TooSlowError) else str(error)
