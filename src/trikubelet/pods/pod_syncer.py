"""Syncs a pod: to its configuration, to its end, or to clean up after it (upstream: SyncPod, SyncTerminatingPod,
SyncTerminatedPod).

Each is one pass from facts to actions: from an observation newer than the last sync, compute and publish the status,
plan, carry out. Changes request an on-demand relist of the pod, so the next pass sees the result without waiting for
the next full list. Between syncs only notes are kept, which a restart of the agent may lose; the parts own them.

    observations ─► publisher: status ─► preparation ─► core.actions plans ─► resizing, carry_out ─► publisher: status
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from trikubelet.core.actions import plan
from trikubelet.core.lifecycle import Outcome, StopReason
from trikubelet.core.names import is_static, object_ref
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.model.errors import DevicesRefused, PodSyncError, RetryAt
from trikubelet.model.runtime import SandboxState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from trikubelet.core.lifecycle import Terminated, Terminating
    from trikubelet.model import k8s
    from trikubelet.model.errors import ResizeFailed
    from trikubelet.model.runtime import PodObservation
    from trikubelet.pods.carry_out import CarryOut
    from trikubelet.pods.observations import Observations
    from trikubelet.pods.preparation import Preparation
    from trikubelet.pods.resizing import Resizing
    from trikubelet.pods.restart_requests import RestartRequests
    from trikubelet.pods.status_publisher import StatusPublisher
    from trikubelet.pods.stop import PodKiller
    from trikubelet.ports import Probes

log = logging.getLogger(__name__)


class PodSyncer:
    """Joins the parts for one pod's syncs; shared by all workers. Owns no state."""

    def __init__(
        self,
        *,
        observations: Observations,
        publisher: StatusPublisher,
        preparation: Preparation,
        probes: Probes,
        restart_requests: RestartRequests,
        resizing: Resizing,
        carry_out: CarryOut,
        killer: PodKiller,
    ) -> None:
        self._observations = observations
        self._publisher = publisher
        self._preparation = preparation
        self._probes = probes
        self._restart_requests = restart_requests
        self._resizing = resizing
        self._carry_out = carry_out
        self._killer = killer

    async def run_with_probes(self, pod: k8s.Pod, live: Callable[[], Awaitable[None]]) -> None:
        """Run ``live``, the pod's worker, together with the pod's probes."""
        await self._probes.run_with_probes(pod, live)

    async def observe(self, uid: str, since: float, *, soon: bool = False) -> PodObservation:
        """Return the runtime's state of the pod (see ``Observations``). Raises the RuntimeCallError or TooSlowError of
        the pod's inspection."""
        return await self._observations.newer_than(uid, since, soon=soon)

    async def sync(self, pod: k8s.Pod, observed: PodObservation) -> Outcome:
        """Bring the pod closer to its configuration. DONE: it has ended, or cannot begin; AGAIN: something was begun;
        AT_ONCE: something was removed, and the next sync follows at once; IDLE: it is as configured.

        Raises PodSyncError (also for a disk that cannot be written) or RuntimeCallError if something must be retried.
        """
        await self._publisher.read_termination_messages(pod, observed)
        pod = self._resizing.as_allocated(pod)
        status = self._publisher.publish(pod, observed, is_ending=False)
        if status.phase in TERMINAL:
            log.info("Pod %s ended: %s", object_ref(pod), status.phase)
            self._publisher.record_end(pod, status)
            return Outcome.DONE
        left = self.seconds_left(pod)
        with trio.move_on_after(math.inf if left is None else left):
            return await self._reconcile(pod, observed, status)
        # A hook or a pull that hangs does not delay the pod's own deadline; the next sync reports it.
        return Outcome.AGAIN

    async def _reconcile(self, pod: k8s.Pod, observed: PodObservation, status: k8s.PodStatus) -> Outcome:
        """Plan and carry out; ``pod`` has its allocated resources."""
        uid = pod.metadata.uid
        await self._preparation.begin(pod)
        if not observed.sandboxes and not observed.containers and not await self._allocate(pod, observed):
            return Outcome.DONE
        self._observations.note_earlier(uid)
        self._publisher.note_life(pod, status)
        resize = self._resizing.under_way(pod, observed)
        volumes = await self._preparation.set_up(pod, beside=resize.before)
        verdicts = replace(self._probes.verdicts(uid), restarts=self._restart_requests.about(observed))
        actions = plan(pod, observed, verdicts, shown=status, resizes=resize.containers)
        if actions.is_empty and resize.before is None:
            return Outcome.IDLE
        problem: ResizeFailed | None = None
        try:
            with self._observations.changing(uid):
                if resize.before is not None:
                    observed, problem = await self._resizing.carry_out(pod, resize.before, observed, actions)
                if not actions.is_empty:
                    await self._carry_out.perform(pod, observed, actions, volumes)
                if resize.before is not None and problem is None:
                    await self._resizing.end(pod)
        finally:
            self._publisher.publish(pod, observed, is_ending=False)
        if problem is not None:
            raise problem
        # PLEG reports starts and deaths, but not removals, so no event may follow.
        return Outcome.AT_ONCE if actions.to_reset else Outcome.AGAIN

    async def _allocate(self, pod: k8s.Pod, observed: PodObservation) -> bool:
        """Give the pod its devices, before anything of it is made. False if it cannot have them, and has failed. Raises
        PodSyncError if it tries again."""
        try:
            await self._preparation.allocate(pod)
        except DevicesRefused as refusal:
            self._publisher.refuse(pod, refusal)
            if not is_static(pod):
                return False
            self._note_wait(pod, observed, refusal)  # no controller makes another one
            raise
        except RetryAt as wait:
            self._note_wait(pod, observed, wait)
            raise
        self._carry_out.note_wait(pod, None)
        return True

    def _note_wait(self, pod: k8s.Pod, observed: PodObservation, why: PodSyncError) -> None:
        """Show why the pod's containers wait for devices."""
        self._carry_out.note_wait(pod, why)
        self._publisher.publish(pod, observed, is_ending=False)

    async def terminate(self, pod: k8s.Pod, state: Terminating, before: PodObservation) -> Outcome:
        """Stop every container and sandbox within the grace. DONE: none runs any more.

        Raises RuntimeCallError if the pod could not be inspected or a container not be stopped, PodSyncError if
        something runs after all was stopped.
        """
        uid = pod.metadata.uid
        self._probes.ending(uid)
        await self._publisher.read_termination_messages(pod, before)
        self._publisher.publish(pod, before, is_ending=False)
        with self._observations.changing(uid):
            await self._killer.terminate_pod(pod, before, state.grace_seconds)
        after = await self._observations.all_instances(uid)
        alive = [*after.running, *(box for box in after.sandboxes if box.state is SandboxState.READY)]
        if alive:
            # Something was created while the rest was stopped, or the runtime reported a running one as stopped.
            raise PodSyncError("FailedKillPod", f"{len(alive)} of its containers and sandboxes still run")
        own = self._observations.current_instance(after)  # an earlier instance's messages were read at its own end
        await self._publisher.read_termination_messages(pod, own)
        # A pod that ends with the agent has not failed: the next agent continues it.
        self._publisher.publish(pod, own, is_ending=state.reason is not StopReason.AGENT_STOPS)
        return Outcome.DONE

    async def clean_up(self, pod: k8s.Pod, state: Terminated) -> Outcome:
        """Remove everything that was prepared for the pod. DONE: nothing of it needs a task any more. Raises
        VolumeFailed and CgroupFailed."""
        await self._preparation.clean_up(pod)
        return Outcome.DONE

    def seconds_left(self, pod: k8s.Pod) -> float | None:
        """Return the seconds until the pod's activeDeadlineSeconds are over (see ``StatusPublisher``)."""
        return self._publisher.seconds_left(pod)

    def publish_readiness(self, pod: k8s.Pod) -> None:
        """Publish the present results of probes and readiness gates, during a sync or without one."""
        self._publisher.publish_readiness(pod)

    def begin_despite_leftovers(self, uid: str) -> None:
        """Ignore everything present of the pod from now on: it belongs to an ended instance."""
        self._observations.begin_despite_leftovers(uid)

    def last_attempts(self, pod: k8s.Pod) -> Mapping[str, int]:
        """Return the restart counts that the pod's containers reached in this life, or before it, by name."""
        return self._publisher.last_attempts(pod)

    def go_on_from(self, uid: str, attempts: Mapping[str, int]) -> None:
        """Record that another life of the pod begins, whose restart counts continue these, by the names of
        containers."""
        self._publisher.go_on_from(uid, attempts)

    def forget(self, uid: str) -> None:
        """Forget this instance of the pod, which is over and has nothing left to show."""
        self._observations.forget(uid)
        self._carry_out.forget(uid)
        self._publisher.forget(uid)
        self._resizing.forget(uid)
