"""What a pod worker can try: sync, terminate, clean up.

Each is one pass from facts to actions: from an observation newer than the last attempt, compute and publish the
status, plan, carry out. Whoever acted asks for an on-demand relist of the pod, so the next pass sees the result without
waiting for the clock. Nothing is remembered between attempts but the reasons why containers wait (``Reasons``) and the
crash back-offs, both of which a restart of the agent may lose.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from trikubelet.core.actions import Verdicts, plan
from trikubelet.core.lifecycle import Outcome
from trikubelet.core.names import object_ref
from trikubelet.core.pod_status import deadline_left, generate
from trikubelet.core.pod_status import terminate as last_word
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.kit.instant import instant
from trikubelet.model.errors import CgroupFailed, NetworkNotReady, PodSyncError, VolumeFailed
from trikubelet.model.runtime import SandboxState

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.core.lifecycle import Terminated, Terminating
    from trikubelet.model import k8s
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.runtime import PodObservation
    from trikubelet.pods.carry_out import CarryOut
    from trikubelet.pods.facts import FactFinder
    from trikubelet.pods.stop import Stopper
    from trikubelet.ports import Events, PodCache, PodCgroups, PodFiles, Relister, Statuses, Volumes

log = logging.getLogger(__name__)

NETWORK_NOT_READY = "network is not ready"


class PodAttempts:
    """Joins the ports for one pod's attempts. Shared by all workers; owns no state of a pod."""

    def __init__(
        self,
        *,
        cache: PodCache,
        relister: Relister,
        statuses: Statuses,
        events: Events,
        files: PodFiles,
        volumes: Volumes,
        cgroups: PodCgroups,
        facts: FactFinder,
        carry_out: CarryOut,
        stopper: Stopper,
        network_trouble: Callable[[], str | None],
        bounds: Bounds,
    ) -> None:
        self._cache = cache
        self._relister = relister
        self._statuses = statuses
        self._events = events
        self._files = files
        self._volumes = volumes
        self._cgroups = cgroups
        self._facts = facts
        self._carry_out = carry_out
        self._stopper = stopper
        self._network_trouble = network_trouble
        self._bounds = bounds

    async def observe(self, uid: str, since: float, *, soon: bool = False) -> PodObservation:
        """What the runtime has of the pod, seen after ``since`` (an instant); ``soon``: ask for it rather than wait for
        the next list. Raises the RuntimeCallError or TooSlowError of the pod's inspection."""
        if soon:
            self._relister.look_at(uid)
        return await self._cache.newer_than(uid, since)

    async def sync(self, pod: k8s.Pod, observed: PodObservation) -> Outcome:
        """Bring the pod closer to its configuration. DONE: its phase is terminal.

        Raises PodSyncError (also for a disk that takes nothing) or RuntimeCallError when something is left to try
        again.
        """
        uid = pod.metadata.uid
        status = self._publish(pod, observed, is_ending=False)
        if status.phase in TERMINAL:
            log.info("Pod %s ended: %s", object_ref(pod), status.phase)
            return Outcome.DONE
        self._check_network(pod)
        self._make_directory(pod)
        self._ensure_cgroup(pod)
        volumes = await self._set_up_volumes(pod)
        actions = plan(pod, observed, Verdicts(), shown=status)
        if actions.is_empty:
            return Outcome.AGAIN
        try:
            await self._carry_out.perform(pod, observed, actions, volumes)
        finally:
            self._relister.look_at(uid)
            self._publish(pod, observed, is_ending=False)
        return Outcome.AGAIN

    async def terminate(self, pod: k8s.Pod, state: Terminating, before: PodObservation) -> Outcome:
        """Stop every container and sandbox within the grace. DONE: none runs any more.

        Raises RuntimeCallError when the pod could not be inspected or a container not be stopped, PodSyncError when
        something runs after all was stopped.
        """
        uid = pod.metadata.uid
        self._publish(pod, before, is_ending=False)
        try:
            await self._stopper.stop_pod(pod, before, state.grace_seconds)
        finally:
            self._relister.look_at(uid)
        after = await self._cache.newer_than(uid, instant())
        alive = [*after.running, *(box for box in after.sandboxes if box.state is SandboxState.READY)]
        if alive:
            # Something was made while we stopped the rest, or the runtime said "stopped" of what is not.
            raise PodSyncError("FailedKillPod", f"{len(alive)} of its containers and sandboxes still run")
        self._publish(pod, after, is_ending=True)
        return Outcome.DONE

    async def clean_up(self, pod: k8s.Pod, state: Terminated) -> Outcome:
        """Take the volumes and the cgroup down. DONE: nothing of it needs a task any more. Raises VolumeFailed and
        CgroupFailed."""
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                await self._volumes.tear_down(pod.metadata.uid)
        except trio.TooSlowError as error:
            raise VolumeFailed("FailedUnmount", "the volumes could not be unmounted in time") from error
        self._cgroups.remove(pod.metadata.uid)
        return Outcome.DONE

    def seconds_left(self, pod: k8s.Pod) -> float | None:
        """Until the pod's activeDeadlineSeconds are over, by its published start; 0 when they ended during the attempt
        just made, whose status does not say so yet. None when it has no end or has ended."""
        status = self._statuses.get(pod.metadata.uid)
        if status is None or status.phase in TERMINAL:
            return None
        return deadline_left(pod, status.start_time, self._facts.now_ns())

    def forget(self, uid: str) -> None:
        """This life of the pod is over and left nothing to show."""
        self._facts.forget(uid)
        self._statuses.forget(uid)

    def _publish(self, pod: k8s.Pod, observed: PodObservation, *, is_ending: bool) -> k8s.PodStatus:
        facts = self._facts.status_facts(pod, observed, self._statuses.get(pod.metadata.uid), is_ending=is_ending)
        status = generate(pod, observed, facts)
        if is_ending:
            status = last_word(pod, status, facts.now)
        self._statuses.publish(pod.metadata.uid, pod, status)
        return status

    def _check_network(self, pod: k8s.Pod) -> None:
        trouble = self._network_trouble()
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

    def _ensure_cgroup(self, pod: k8s.Pod) -> None:
        try:
            self._cgroups.ensure(pod)
        except CgroupFailed as error:
            self._events.record(object_ref(pod), "Warning", error.reason, error.message)
            raise

    async def _set_up_volumes(self, pod: k8s.Pod) -> dict[str, str]:
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                return dict(await self._volumes.set_up(pod))
        except VolumeFailed as error:
            self._events.record(object_ref(pod), "Warning", "FailedMount", error.message)
            raise
        except trio.TooSlowError as error:
            message = f"the volumes were not ready within {self._bounds.runtime_call_seconds_max:.0f}s"
            self._events.record(object_ref(pod), "Warning", "FailedMount", message)
            raise VolumeFailed("FailedMount", message) from error
