"""What a pod worker can try: sync, terminate, clean up.

Each is one pass from facts to actions: from an observation newer than the last attempt, compute and publish the
status, plan, carry out. Whoever acted asks for an on-demand relist of the pod, so the next pass sees the result without
waiting for the clock. Nothing is remembered between attempts but the reasons why containers wait (``FactFinder``) and
the crash back-offs (``CrashBackoffs``), both of which a restart of the agent may lose.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from trikubelet.core.actions import plan
from trikubelet.core.lifecycle import Outcome
from trikubelet.core.names import object_ref
from trikubelet.core.pod_status import deadline_left, generate, with_verdicts
from trikubelet.core.pod_status import terminate as last_word
from trikubelet.core.pod_status.deadline import DEADLINE_EXCEEDED, DEADLINE_MESSAGE
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.core.pod_status.resizing import happened
from trikubelet.core.resize.progress import as_made, is_pods_own_under_way, resizes
from trikubelet.core.timestamps import rfc3339
from trikubelet.kit.instant import instant
from trikubelet.model.errors import CgroupFailed, NetworkNotReady, PodSyncError, ResizeFailed, VolumeFailed
from trikubelet.model.runtime import SandboxState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trikubelet.core.actions import PodActions
    from trikubelet.core.lifecycle import Terminated, Terminating
    from trikubelet.model import k8s
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.runtime import PodObservation
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.carry_out import CarryOut
    from trikubelet.pods.crash_backoffs import CrashBackoffs
    from trikubelet.pods.facts import FactFinder
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.resizes import ResizeNotes
    from trikubelet.pods.resizing import Resizing
    from trikubelet.pods.stop import Stopper
    from trikubelet.pods.user_ids import UserIds
    from trikubelet.pods.wishes import RestartWishes
    from trikubelet.ports import (
        Clock,
        Events,
        PodCache,
        PodCgroups,
        PodDirectories,
        Probes,
        Relister,
        RuntimeHealth,
        Statuses,
        Volumes,
    )

log = logging.getLogger(__name__)

NETWORK_NOT_READY = "network is not ready"


class PodAttempts:
    """Owns when the last container of a pod's earlier life was made, where the pod began anew beside what is left of
    that life. Joins the ports for one pod's attempts; shared by all workers."""

    def __init__(
        self,
        *,
        cache: PodCache,
        relister: Relister,
        statuses: Statuses,
        events: Events,
        files: PodDirectories,
        volumes: Volumes,
        cgroups: PodCgroups,
        probes: Probes,
        wishes: RestartWishes,
        backoffs: CrashBackoffs,
        user_ids: UserIds,
        allocations: Allocations,
        resize_notes: ResizeNotes,
        resizing: Resizing,
        facts: FactFinder,
        clock: Clock,
        carry_out: CarryOut,
        stopper: Stopper,
        health: RuntimeHealth,
        bounds: Bounds,
        figures: PodFigures,
    ) -> None:
        self._earlier: dict[str, int] = {}  # by UID, when the last container of an earlier life was made
        self._cache = cache
        self._relister = relister
        self._statuses = statuses
        self._events = events
        self._files = files
        self._volumes = volumes
        self._cgroups = cgroups
        self._probes = probes
        self._wishes = wishes
        self._backoffs = backoffs
        self._user_ids = user_ids
        self._allocations = allocations
        self._resize_notes = resize_notes
        self._resizing = resizing
        self._facts = facts
        self._clock = clock
        self._carry_out = carry_out
        self._stopper = stopper
        self._health = health
        self._bounds = bounds
        self._figures = figures

    async def accompany(self, pod: k8s.Pod, live: Callable[[], Awaitable[None]]) -> None:
        """Run ``live``, the pod's worker, with what lives beside it: the pod's probes."""
        await self._probes.beside(pod, live)

    async def observe(self, uid: str, since: float, *, soon: bool = False) -> PodObservation:
        """What the runtime has of the pod, seen after ``since`` (an instant); ``soon``: ask for it, unless it is known,
        rather than wait for the next list. Raises the RuntimeCallError or TooSlowError of the pod's inspection."""
        if soon and not self._cache.is_newer(uid, since):
            self._relister.look_at(uid)
        observed = await self._cache.newer_than(uid, since)
        return observed.without_earlier(self._earlier[uid]) if uid in self._earlier else observed

    async def sync(self, pod: k8s.Pod, observed: PodObservation) -> Outcome:
        """Bring the pod closer to its configuration. DONE: its phase is terminal; IDLE: it is as configured.

        Raises PodSyncError (also for a disk that takes nothing) or RuntimeCallError when something is left to try
        again.
        """
        pod = self._allocations.as_allocated(pod)
        status = self._publish(pod, observed, is_ending=False)
        if status.phase in TERMINAL:
            log.info("Pod %s ended: %s", object_ref(pod), status.phase)
            if status.reason == DEADLINE_EXCEEDED:
                self._events.record(object_ref(pod), "Normal", DEADLINE_EXCEEDED, DEADLINE_MESSAGE)
            return Outcome.DONE
        left = self.seconds_left(pod)
        with trio.move_on_after(math.inf if left is None else left):
            return await self._mend(pod, observed, status)
        # A hook or a pull that hangs does not hold the pod's own deadline off; the next attempt tells of it.
        return Outcome.AGAIN

    async def _mend(self, pod: k8s.Pod, observed: PodObservation, status: k8s.PodStatus) -> Outcome:
        """Of ``pod`` as it is allocated."""
        uid = pod.metadata.uid
        self._check_network(pod)
        self._make_directory(pod)
        held = self._allocations.learned(pod, observed)
        under_way = resizes(pod, observed, held)
        before = as_made(pod, under_way, held) if under_way or is_pods_own_under_way(held) else None
        await self._ensure_cgroup(pod, beside=before)
        volumes = await self._set_up_volumes(pod)
        verdicts = replace(self._probes.verdicts(uid), restarts=self._wishes.about(observed))
        actions = plan(pod, observed, verdicts, shown=status, resizes=under_way)
        if actions.is_empty and before is None:
            return Outcome.IDLE
        trouble: ResizeFailed | None = None
        try:
            with self._relister.acting_on(uid):
                if before is not None:
                    observed, trouble = await self._resize(pod, before, observed, actions)
                if not actions.is_empty:
                    await self._carry_out.perform(pod, observed, actions, volumes)
                if before is not None and trouble is None:
                    await self._end_resize(pod)
        finally:
            self._publish(pod, observed, is_ending=False)
        if trouble is not None:
            raise trouble
        return Outcome.AGAIN

    async def _resize(
        self, pod: k8s.Pod, before: k8s.Pod, observed: PodObservation, actions: PodActions
    ) -> tuple[PodObservation, ResizeFailed | None]:
        """Change the containers that are changed as they run; the observation as it is then, and what went wrong: that
        keeps nothing else of the pod from being mended."""
        uid, began = pod.metadata.uid, trio.current_time()
        is_done = False
        try:
            await self._resizing.check(pod, before, actions.staying(observed), actions.to_resize)
            observed = await self._resizing.perform(pod, observed, actions.to_resize)
            is_done = True
        except ResizeFailed as error:
            self._resize_notes.errors[uid] = error.message
            return observed, error
        finally:
            self._figures.resizes[str(is_done).lower()].add((trio.current_time() - began) * 1000)
            self._relister.look_inside(uid)
        return observed, None

    async def _end_resize(self, pod: k8s.Pod) -> None:
        """All containers have what they are allocated, so the pod needs no more than that."""
        await self._ensure_cgroup(pod)
        try:
            self._allocations.pods_own_changed(pod)
        except OSError as error:
            raise ResizeFailed("ResizeError", f"what was done cannot be written down: {error}") from error
        self._resize_notes.errors.pop(pod.metadata.uid, None)

    async def terminate(self, pod: k8s.Pod, state: Terminating, before: PodObservation) -> Outcome:
        """Stop every container and sandbox within the grace. DONE: none runs any more.

        Raises RuntimeCallError when the pod could not be inspected or a container not be stopped, PodSyncError when
        something runs after all was stopped.
        """
        uid = pod.metadata.uid
        self._probes.ending(uid)
        self._publish(pod, before, is_ending=False)
        with self._relister.acting_on(uid):
            await self._stopper.terminate_pod(pod, before, state.grace_seconds)
        after = await self._cache.newer_than(uid, instant())
        alive = [*after.running, *(box for box in after.sandboxes if box.state is SandboxState.READY)]
        if alive:
            # Something was made while we stopped the rest, or the runtime said "stopped" of what is not.
            raise PodSyncError("FailedKillPod", f"{len(alive)} of its containers and sandboxes still run")
        self._publish(pod, after, is_ending=True)
        return Outcome.DONE

    async def clean_up(self, pod: k8s.Pod, state: Terminated) -> Outcome:
        """Take the volumes and the cgroup down, and give its users back. DONE: nothing of it needs a task any more.
        Raises VolumeFailed and CgroupFailed."""
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                await self._volumes.tear_down(pod.metadata.uid)
        except trio.TooSlowError as error:
            raise VolumeFailed("FailedUnmount", "the volumes could not be unmounted in time") from error
        with self._figures.timed_cgroup("destroy"):
            await self._cgroups.remove(pod.metadata.uid)
        self._user_ids.release(pod.metadata.uid)
        return Outcome.DONE

    def seconds_left(self, pod: k8s.Pod) -> float | None:
        """Until the pod's activeDeadlineSeconds are over, by its published start; 0 when they ended during the attempt
        just made, whose status does not say so yet. None when it has no end or has ended."""
        status = self._statuses.get(pod.metadata.uid)
        if status is None or status.phase in TERMINAL:
            return None
        return deadline_left(pod, status.start_time, self._clock.now_ns())

    def show_serving(self, pod: k8s.Pod) -> None:
        """Publish what probes and readiness gates say now, in the middle of an attempt or without one."""
        uid = pod.metadata.uid
        shown = self._statuses.get(uid)
        if shown is not None:
            now = rfc3339(self._clock.now_ns())
            self._statuses.publish(uid, pod, with_verdicts(pod, shown, self._probes.verdicts(uid), now))

    def begin_beside_remains(self, uid: str) -> None:
        """From now on none of the pod's containers that are there counts: they are of a life that is over."""
        self._earlier[uid] = self._cache.get(uid).newest_ns

    def forget(self, uid: str) -> None:
        """This life of the pod is over and left nothing to show."""
        self._earlier.pop(uid, None)
        self._backoffs.forget(uid)
        self._facts.forget(uid)
        self._statuses.forget(uid)
        self._allocations.forget(uid)
        self._resize_notes.forget(uid)

    def _publish(self, pod: k8s.Pod, observed: PodObservation, *, is_ending: bool) -> k8s.PodStatus:
        previous = self._statuses.get(pod.metadata.uid)
        verdicts = self._probes.look(pod, observed, previous or pod.status)
        pod = self._allocations.as_allocated(pod)
        resize = self._resize_notes.facts(pod)
        facts = self._facts.status_facts(pod, observed, previous, verdicts, resize, is_ending=is_ending)
        status = generate(pod, observed, facts)
        if is_ending:
            status = last_word(pod, status, facts.now)
        else:
            for event in happened(pod, previous or pod.status, status):
                self._events.record(object_ref(pod), *event)
        self._statuses.publish(pod.metadata.uid, pod, status)
        return status

    def _check_network(self, pod: k8s.Pod) -> None:
        trouble = self._health.network_trouble()
        if trouble and not pod.spec.host_network:
            self._events.record(object_ref(pod), "Warning", "NetworkNotReady", f"{NETWORK_NOT_READY}: {trouble}")
            raise NetworkNotReady("NetworkNotReady", f"{NETWORK_NOT_READY}: {trouble}")

    def _make_directory(self, pod: k8s.Pod) -> None:
        try:
            self._files.make_pod(pod.metadata.uid)
        except OSError as error:  # a disk that is full or read-only is the operator's to mend
            message = f"error making pod data directories: {error}"
            self._events.record(object_ref(pod), "Warning", "FailedToMakePodDataDirectories", message)
            raise PodSyncError("FailedToMakePodDataDirectories", message) from error

    async def _ensure_cgroup(self, pod: k8s.Pod, *, beside: k8s.Pod | None = None) -> None:
        try:
            with self._figures.timed_cgroup("update"):
                await self._cgroups.ensure(pod, beside=beside)
        except CgroupFailed as error:
            self._events.record(object_ref(pod), "Warning", error.reason, error.message)
            raise

    async def _set_up_volumes(self, pod: k8s.Pod) -> dict[str, str]:
        try:
            return dict(await self._volumes.set_up(pod))
        except VolumeFailed as error:
            for message in error.messages:
                self._events.record(object_ref(pod), "Warning", error.reason, message)
            raise
