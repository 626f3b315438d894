"""Schedules decisions about resizes: at once for a new request, and again in order for those that wait.

    spec changed ──consider──► granted: allocated, its worker carries it out
                        └────► waits: PodResizePending ──retry──► when a pod has gone or shrunk, and every few minutes

A decision may end pods, to make room; the end of other pods never decides anything on the spot, but wakes the task. A
resize is decided before the worker is notified of the new spec, so that no status reflects only one of both. One that
has waited since before this agent began is decided once every source has reported, because the allocations of the other
pods must be known first. An infeasible one waits for another spec. An error about one pod is logged with its name, and
the others go on. ``pods.resize_decisions`` makes the decisions. (upstream: allocation_manager.go)
"""

from __future__ import annotations

import logging
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.names import object_ref
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.core.pod_status.resizing import PENDING
from trikubelet.core.resize.amounts import asked_changes
from trikubelet.core.resize.verdicts import DEFERRED, Pending, Waiting, turn
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.pods.resize_decisions import NOT_YET

if TYPE_CHECKING:
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Pod, PodCondition
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.resize_decisions import ResizeDecisions
    from trikubelet.pods.resize_notes import ResizeNotes
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import Statuses
    from trikubelet.sources.desired import DesiredPods

log = logging.getLogger(__name__)

A_BUG: Final = "a bug in the node's agent prevents a decision (see its log)"
PODS_ADDED, PODS_REMOVED, POD_UPDATED = "pods_added", "pods_removed", "pod_updated"
POD_TERMINATED, PERIODIC = "pod_terminated", "periodic_retry"


class Resizes:
    """Owns which pods' resizes must be decided again, in no order, and since when each waits."""

    def __init__(
        self,
        *,
        allocations: Allocations,
        notes: ResizeNotes,
        decisions: ResizeDecisions,
        workers: PodWorkers,
        desired: DesiredPods,
        statuses: Statuses,
        bounds: Bounds,
        figures: PodFigures,
    ) -> None:
        self._allocations = allocations
        self._notes = notes
        self._decisions = decisions
        self._workers = workers
        self._desired = desired
        self._statuses = statuses
        self._bounds = bounds
        self._figures = figures
        self._waiting: set[str] = set()
        self._barriers = FaultBarriers(log, "%s: a bug in deciding about its resize; it will be decided again later")
        self._woken = trio.Event()
        self._woken_by = PODS_ADDED

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Decide again about waiting resizes, until cancelled."""
        task_status.started()
        pause = self._bounds.resize_first_retry_seconds
        while True:
            with trio.move_on_after(pause):
                await self._woken.wait()
            why, self._woken = self._woken_by if self._woken.is_set() else PERIODIC, trio.Event()
            pause = self._bounds.resize_retry_seconds
            if not self._desired.all_ready:
                pause = self._bounds.resize_first_retry_seconds
            self.retry(why)

    def begin(self, pod: Pod) -> None:
        """Notice that the pod gets a worker. If its spec differs from the allocation of an earlier agent, that is
        decided soon. Never blocks."""
        if self._allocations.as_allocated(pod) is pod:
            return
        uid, shown = pod.metadata.uid, _pending(pod.status.conditions if pod.status is not None else ())
        generation = pod.metadata.generation or 0
        known = shown is not None and shown.observed_generation == generation
        reason, message = (shown.reason, shown.message) if shown is not None and known else (DEFERRED, NOT_YET)
        self._notes.note_pending(uid, Pending(reason, message, generation))
        self._waiting.add(uid)
        self._wake(PODS_ADDED)

    def consider(self, pod: Pod) -> None:
        """Decide about a resize of the pod, which has another spec, before its worker is notified. Never blocks."""
        uid = pod.metadata.uid
        if (worker := self._workers.worker(uid)) is not None:
            self._figures.resizes_asked.update(asked_changes(worker.pod, pod))
        if self._allocations.as_allocated(pod) is pod:
            self._waiting.discard(uid)
            self._notes.note_taken_back(pod)
            return
        self._waiting.add(uid)
        generation = pod.metadata.generation or 0
        if not self._desired.all_ready:
            self._notes.note_pending(uid, Pending(DEFERRED, NOT_YET, generation))
        self.retry(POD_UPDATED, pod)

    def ended(self, pod: Pod) -> None:
        """Notice that a pod is over, so that others may soon have its resources. Never blocks. Decides nothing here: a
        pod that had not begun is over the moment it is preempted, in the middle of the decision that preempts it."""
        self._notes.note_ended(pod)
        self._wake(POD_TERMINATED)

    def _wake(self, why: str) -> None:
        self._woken_by = why
        self._woken.set()

    def retry(self, why: str, newest: Pod | None = None) -> None:
        """Decide about every resize that waits, in order; ``newest``: a pod whose worker does not know its new spec
        yet. Never blocks."""
        if not self._waiting or not self._desired.all_ready:
            return
        for one in self._all(newest):
            uid = one.pod.metadata.uid
            before = self._notes.pending(uid)
            waited = before is not None and (newest is None or newest.metadata.uid != uid)
            with self._barriers.of(f"Pod {object_ref(one.pod)}") as barrier:
                if not self._decisions.decide(one):
                    self._waiting.discard(uid)
            if barrier.fault is not None:
                self._decisions.wait(one, Pending(DEFERRED, A_BUG, one.pod.metadata.generation or 0))
            after = self._notes.pending(uid)
            if after is None and waited and uid not in self._waiting:
                self._figures.resizes_accepted[why] += 1
            if after is None or after != before:
                self._workers.wake([uid])

    def _all(self, newest: Pod | None) -> list[Waiting]:
        """Return the waiting resizes, in order."""
        found = []
        for uid in list(self._waiting):
            worker = self._workers.worker(uid)
            if worker is None or self._desired.get(uid) is None or self._workers.is_termination_requested(uid):
                self._waiting.discard(uid)
                continue
            pod = newest if newest is not None and newest.metadata.uid == uid else worker.pod
            shown = self._statuses.get(uid)
            if shown is not None and shown.phase in TERMINAL:
                self._waiting.discard(uid)
                continue
            with self._barriers.of(f"Pod {object_ref(pod)}") as barrier:
                pending = _pending(shown.conditions if shown is not None else ())
                since = pending.last_transition_time if pending is not None else ""
                one = Waiting(pod, self._allocations.as_allocated(pod), since)
                found.append((turn(one), one))
            if barrier.fault is not None:
                self._notes.note_pending(uid, Pending(DEFERRED, A_BUG, pod.metadata.generation or 0))
        return [one for _, one in sorted(found, key=itemgetter(0))]

    def __repr__(self) -> str:
        return f"<Resizes, {len(self._waiting)} wait>"


def _pending(conditions: tuple[PodCondition, ...]) -> PodCondition | None:
    return next((one for one in conditions if one.type == PENDING), None)
