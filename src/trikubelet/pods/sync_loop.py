"""The sync loop: turns changes of pods' configurations and containers into requests to their workers.

It has two inputs, neither of which can block the other: changes from the mux, with a source's pods, and wake-ups from
PLEG, with the UIDs to look at. Both end in a synchronous call. Only ``pods.admission`` gives a desired pod its worker,
and a worker its new configuration, whether this loop or housekeeping found it. Other components with an update of a
pod, like probes, volumes and the cluster's objects, wake its worker directly. All pods depend on this loop, so a bug
that one of them triggers is logged and contained to it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.core.lifecycle import StopReason
from trikubelet.core.merge import Op
from trikubelet.core.names import object_ref
from trikubelet.core.pod_status import readiness_gates_differ
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.pods.resizes import PODS_REMOVED

if TYPE_CHECKING:
    from trikubelet.core.merge import PodUpdate
    from trikubelet.kit.gather import Gather
    from trikubelet.model.bounds import Bounds
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
    ) -> None:
        self._changes = changes
        self._wakes = wakes
        self._admission = admission
        self._workers = workers
        self._events = events
        self._bounds = bounds
        self._resizes = resizes
        self._barriers = FaultBarriers(log, "%s: a bug in taking a change of it up; it is left until its next change")
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
        ref = object_ref(change.pod)
        with self._barriers.of(f"Pod {ref}", partial(self._events.record, ref, "Warning", "FailedSync")):
            self._ask(change)

    def _ask(self, change: PodUpdate) -> None:
        pod, ref = change.pod, object_ref(change.pod)
        match change.op:
            case Op.ADD | Op.UPDATE as op:
                what = "DELETE" if pod.metadata.deletion_timestamp else op.name
                log.info("SyncLoop %s pod %s (source %s, uid %s)", what, ref, change.source, pod.metadata.uid)
                (self._admission.begin if op is Op.ADD else self._admission.update)(pod)
            case Op.RECONCILE if readiness_gates_differ(pod):
                # A condition that another component wrote makes it ready, or no longer so.
                self._workers.readiness_gates_changed(pod)
            case Op.RECONCILE if pod.status is not None and pod.status.phase in TERMINAL:
                self._workers.sync(pod)  # if another component reported its end, it ends now; ended pods are not woken
            case Op.RECONCILE:
                self._workers.update_status_only(pod)
            case Op.REMOVE:
                log.info("SyncLoop REMOVE pod %s (source %s)", ref, change.source)
                self._workers.stop(pod.metadata.uid, StopReason.REMOVED)
                self._resizes.retry(PODS_REMOVED)

    def unhealthy(self) -> str | None:
        """Return why the loop counts as stuck; None if it does not."""
        age = trio.current_time() - min(self._passed.values())
        if age <= self._bounds.syncloop_stale_seconds_max:
            return None
        return f"sync loop took its last pass {age:.0f}s ago"
