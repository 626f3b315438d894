"""The sync loop: what happened to a pod's configuration or containers becomes a request to its worker.

Two inputs, neither of which can block the other: changes from the mux, which say what a source wants, and wake-ups from
PLEG (and later probes, eviction, volumes), which only say who to look at. Both end in a synchronous call.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from trikubelet.core.containers.unsupported import unsupported_fields
from trikubelet.core.lifecycle import StopReason
from trikubelet.core.merge import Op, PodChange
from trikubelet.core.names import object_ref

if TYPE_CHECKING:
    from trikubelet.kit.gather import Gather
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Pod
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import Events

log = logging.getLogger(__name__)

PASS_SECONDS_MAX = 30.0
"""An idle loop passes at least this often, so that a stuck one can be told from an idle one."""


class SyncLoop:
    """Owns the time of its own last pass, which ``/healthz/syncloop`` reads."""

    def __init__(
        self,
        changes: trio.MemoryReceiveChannel[PodChange],
        wakes: Gather[str],
        workers: PodWorkers,
        events: Events,
        bounds: Bounds,
    ) -> None:
        self._changes = changes
        self._wakes = wakes
        self._workers = workers
        self._events = events
        self._bounds = bounds
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

    def _apply(self, change: PodChange) -> None:
        pod, ref = change.pod, object_ref(change.pod)
        if change.op in (Op.ADD, Op.UPDATE):
            self._say_unsupported(pod)
        match change.op:
            case Op.ADD | Op.UPDATE if pod.metadata.deletion_timestamp:
                log.info("SyncLoop DELETE pod %s (source %s)", ref, change.source)
                self._workers.sync(pod, create=change.op is Op.ADD)
                self._workers.stop(pod.metadata.uid, StopReason.DELETED)
            case Op.ADD:
                log.info("SyncLoop ADD pod %s (source %s, uid %s)", ref, change.source, pod.metadata.uid)
                self._workers.sync(pod, create=True)
            case Op.UPDATE:
                log.info("SyncLoop UPDATE pod %s (source %s)", ref, change.source)
                self._workers.sync(pod)
            case Op.RECONCILE:
                self._workers.sync(pod)
            case Op.REMOVE:
                log.info("SyncLoop REMOVE pod %s (source %s)", ref, change.source)
                self._workers.stop(pod.metadata.uid, StopReason.REMOVED)

    def _say_unsupported(self, pod: Pod) -> None:
        """What the pod asks for and will not get; it is told once per configuration, and never dropped in silence."""
        found = unsupported_fields(pod)
        if not found:
            return
        told = "; ".join(f"{field.path}: {field.why}" for field in found)
        log.warning("Pod %s uses what this agent does not support yet: %s", object_ref(pod), told)
        self._events.record(object_ref(pod), "Warning", "UnsupportedFields", f"Not supported yet: {told}")

    def unhealthy(self) -> str | None:
        """Why the loop counts as stuck, or None."""
        age = trio.current_time() - min(self._passed.values())
        if age <= self._bounds.syncloop_stale_seconds_max:
            return None
        return f"sync loop took its last pass {age:.0f}s ago"
