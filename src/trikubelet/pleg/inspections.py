"""Inspections: many pods side by side, within a bound, and one that hangs delays no other.

    due ─► a place is free ─► under way ─► done or failed: settle(job, …)   ─► its place goes to the next
                                  └─► hangs: its place goes to the next at once, it goes on beside them

A pod has at most one inspection at a time; a bug in one is its failure, as an error of the runtime's is. One that takes
longer than ``inspection_hung_seconds`` counts as hung and no longer against the bound; as each is given up after
``runtime_call_seconds_max``, a runtime that hangs over every pod is asked for no more than ``inspections_max`` times
one more than their quotient at a time.
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
"""How often it is looked whether an inspection has come to hang."""


class Inspections:
    """Owns how long inspections took, and makes those that are due.

    ``inspect`` makes one; ``settle`` gets the outcome: what was found or the error. ``as_listed`` returns a pod as
    the newest full list has it. ``report`` gets, every ``CHECK_SECONDS``, the time and the pods whose inspection failed
    or hangs.
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
        self._barriers = FaultBarriers(log, "Pod %s: a bug in inspecting it; it is tried again")
        self.seconds = Distribution()
        """How long inspections took, from their place to their end, whatever that was."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Make inspections until cancelled. Started: what is due is begun."""
        async with self._tasks.held():
            task_status.started()
            async for now in Every(CHECK_SECONDS):
                self._pods.look_for_hung(now - self._bounds.inspection_hung_seconds)
                self.begin()
                self._report(now, self._pods.uninspected_pods(also_running=False))

    def begin(self) -> None:
        """Begin what is due while there is a place. Never blocks."""
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
            # An error of the runtime's to all who wait: that is what they are ready for.
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
    """An error of a call in words."""
    return "timed out" if isinstance(error, trio.TooSlowError) else str(error)
