"""The sync loop: what happened to a pod's configuration or containers becomes a request to its worker.

Two inputs, neither of which can block the other: changes from the mux, which say what a source wants, and wake-ups from
PLEG, which only say who to look at. Both end in a synchronous call. Whoever else has an update of a pod, as probes,
volumes and the cluster's objects have, wakes its worker without coming this way. All pods depend on this loop, so a bug
that one of them provokes in it is logged and stays its own.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.core.containers.embedded import done_without
from trikubelet.core.containers.unsupported import unsupported_fields
from trikubelet.core.lifecycle import StopReason
from trikubelet.core.merge import Op, PodUpdate
from trikubelet.core.names import object_ref
from trikubelet.core.pod_status import gates_unheeded
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.kit.bugs import Bugs
from trikubelet.pods.resizes import PODS_REMOVED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.containers.unsupported import Unsupported
    from trikubelet.kit.barrier import Barrier
    from trikubelet.kit.gather import Gather
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Pod
    from trikubelet.pods.admission import Admission
    from trikubelet.pods.resizes import Resizes
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import Events

log = logging.getLogger(__name__)

PASS_SECONDS_MAX = 30.0
"""An idle loop passes at least this often, so that a stuck one can be distinguished from an idle one."""


class SyncLoop:
    """Owns the time of its own last pass, which ``/healthz/syncloop`` reads."""

    def __init__(
        self,
        changes: trio.MemoryReceiveChannel[PodUpdate],
        wakes: Gather[str],
        admission: Admission,
        workers: PodWorkers,
        events: Events,
        bounds: Bounds,
        resizes: Resizes,
        *,
        embedded: bool,
    ) -> None:
        """``embedded``: pods get an event of what the embedded runtime does without."""
        self._changes = changes
        self._wakes = wakes
        self._admission = admission
        self._workers = workers
        self._events = events
        self._bounds = bounds
        self._embedded = embedded
        self._resizes = resizes
        self._bugs = Bugs(log, "%s: a bug in taking a change of it up; it is left until its next change")
        self._passed = {"changes": float("inf"), "wakes": float("inf")}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve both inputs until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve_changes)
            nursery.start_soon(self._serve_wakes)
            task_status.started()

    async def _serve_changes(self) -> None:
        while True:
            self._passed["changes"] = trio.current_time()
            with trio.move_on_after(PASS_SECONDS_MAX):
                self._apply(await self._changes.receive())

    async def _serve_wakes(self) -> None:
        while True:
            self._passed["wakes"] = trio.current_time()
            with trio.move_on_after(PASS_SECONDS_MAX):
                self._workers.wake(await self._wakes.collect())

    def _apply(self, change: PodUpdate) -> None:
        if change.op in (Op.ADD, Op.UPDATE):
            with self._barrier(change.pod):  # of its own: what cannot be reported is no reason not to run the pod
                self._say_unsupported(change.pod, is_known=_was_reported(change))
        with self._barrier(change.pod):
            self._ask(change)

    def _barrier(self, pod: Pod) -> Barrier:
        ref = object_ref(pod)
        return self._bugs.of(f"Pod {ref}", partial(self._events.record, ref, "Warning", "FailedSync"))

    def _ask(self, change: PodUpdate) -> None:
        pod, ref = change.pod, object_ref(change.pod)
        match change.op:
            case Op.ADD | Op.UPDATE if pod.metadata.deletion_timestamp:
                log.info("SyncLoop DELETE pod %s (source %s)", ref, change.source)
                self._workers.sync(pod, create=change.op is Op.ADD)
                self._workers.stop(pod.metadata.uid, StopReason.DELETED)
            case Op.ADD:
                log.info("SyncLoop ADD pod %s (source %s, uid %s)", ref, change.source, pod.metadata.uid)
                self._admission.begin(pod)
            case Op.UPDATE:
                log.info("SyncLoop UPDATE pod %s (source %s)", ref, change.source)
                if pod.metadata.uid in self._workers:
                    self._resizes.consider(pod)
                    self._workers.sync(pod)
                else:
                    self._admission.begin(pod)  # it could not be decided about yet, and is no less to be asked about
            case Op.RECONCILE if gates_unheeded(pod):
                self._workers.heed_gates(pod)  # a condition somebody else wrote makes it ready, or not any more
            case Op.RECONCILE if pod.status is not None and pod.status.phase in TERMINAL:
                self._workers.sync(pod)  # should somebody else have said so, it ends now; what ended is not woken
            case Op.RECONCILE:
                self._workers.note(pod)
            case Op.REMOVE:
                log.info("SyncLoop REMOVE pod %s (source %s)", ref, change.source)
                self._workers.stop(pod.metadata.uid, StopReason.REMOVED)
                self._resizes.retry(PODS_REMOVED)

    def _say_unsupported(self, pod: Pod, *, is_known: bool) -> None:
        """What the pod asks for and will not get; it is reported once per configuration, and never dropped in silence.
        Where it ``is_known`` already, in the log alone."""
        self._report(unsupported_fields(pod), pod, "uses what this agent does not support yet", is_known=is_known)
        if self._embedded:
            self._report(done_without(pod), pod, "asks for what the embedded runtime does without", is_known=is_known)

    def _report(self, found: Sequence[Unsupported], pod: Pod, what: str, *, is_known: bool) -> None:
        if not found:
            return
        ref, unsupported = object_ref(pod), "; ".join(f"{field.path}: {field.why}" for field in found)
        log.warning("Pod %s %s: %s", ref, what, unsupported)
        if not is_known:
            self._events.record(ref, "Warning", "UnsupportedFields", f"The pod {what}: {unsupported}")

    def unhealthy(self) -> str | None:
        """Why the loop counts as stuck, or None."""
        age = trio.current_time() - min(self._passed.values())
        if age <= self._bounds.syncloop_stale_seconds_max:
            return None
        return f"sync loop took its last pass {age:.0f}s ago"


def _was_reported(change: PodUpdate) -> bool:
    """What a server knows to have started was reported by an earlier agent, and is in its events."""
    status = change.pod.status
    return change.op is Op.ADD and status is not None and bool(status.start_time)
