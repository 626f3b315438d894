"""Carries out a plan: the only place that creates sandboxes and containers.

It decides nothing: the actions come from ``core.actions``, configurations from ``core.containers``. It is responsible
for order and error handling: a regular container that cannot start does not hold up the others, an init container that
cannot start ends the pass, every failure is recorded for the pod's status (``pods.start``), and a call that creates
something (``pods.sandboxes``, ``pods.container_creator``) is settled before a sync is cancelled, so that the agent
always knows what exists. Pods that start together take turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.core.lifecycle import spec_grace
from trikubelet.core.names import object_ref
from trikubelet.model.errors import PodSyncError, RetryAt
from trikubelet.pods.start_context import StartContext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.actions import PodActions
    from trikubelet.kit.turnstile import Turnstile
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime import PodObservation
    from trikubelet.pods.making_paces import MakingPaces
    from trikubelet.pods.sandboxes import Sandboxes
    from trikubelet.pods.start import ContainerStarter
    from trikubelet.pods.stop import PodKiller
    from trikubelet.ports import Events


class CarryOut:
    """Performs plans. Owns no state."""

    def __init__(
        self,
        *,
        sandboxes: Sandboxes,
        starter: ContainerStarter,
        killer: PodKiller,
        paces: MakingPaces,
        events: Events,
        turnstile: Turnstile,
        bounds: Bounds,
    ) -> None:
        self._sandboxes = sandboxes
        self._starter = starter
        self._killer = killer
        self._paces = paces
        self._events = events
        self._turnstile = turnstile
        self._bounds = bounds

    async def perform(
        self, pod: Pod, observed: PodObservation, actions: PodActions, volumes: Mapping[str, str]
    ) -> None:
        """Perform the plan. Raises the most urgent PodSyncError, or a RuntimeCallError, after all possible actions are
        done."""
        if actions.to_reset:
            await self._start_over(pod, observed, actions, volumes)
            return
        if actions.create_sandbox:
            self._paces.confirm_sandbox(pod)  # before the old one is removed, and once for each new one
        if actions.kill_pod:
            if actions.create_sandbox and observed.sandboxes:
                message = "Pod sandbox changed, it will be killed and re-created."
                self._events.record(object_ref(pod), "Normal", "SandboxChanged", message)
            await self._killer.stop_pod(pod, observed, spec_grace(pod.spec.termination_grace_period_seconds))
            if not actions.create_sandbox:
                return
        else:
            await self._killer.stop_some(pod, actions.to_kill, observed.ips)
        if actions.create_sandbox or any(actions.starts(pod)):
            errors = await self._start(pod, observed, actions, volumes)
            if errors:
                raise most_urgent(errors)

    async def _start(
        self, pod: Pod, observed: PodObservation, actions: PodActions, volumes: Mapping[str, str]
    ) -> list[PodSyncError]:
        """Create the sandbox, if needed, and start containers; return the errors of those that could not start."""
        errors: list[PodSyncError] = []
        config = await self._sandboxes.configure(pod, actions.attempt, is_new=actions.create_sandbox)
        async with self._turnstile.turn():
            if actions.create_sandbox:
                sandbox = await self._sandboxes.make(pod, config)
            else:
                sandbox = next(s for s in observed.sandboxes if s.id == actions.sandbox_id)
            context = StartContext(pod, observed, config, sandbox, volumes)
            for start in actions.starts(pod):
                try:
                    await self._starter.start(context, start)
                except PodSyncError as error:
                    errors.append(error)
                    if start.is_awaited:
                        break
        return errors

    async def _start_over(
        self, pod: Pod, observed: PodObservation, actions: PodActions, volumes: Mapping[str, str]
    ) -> None:
        """Remove all containers at once except the cause of the restart. The cause is removed in the next sync, once
        its back-off is over, because only it shows why the others are gone. Ephemeral containers may be started
        meanwhile. Raises the most urgent of the back-offs."""
        others = [reset for reset in actions.to_reset if not reset.is_cause]
        names = dict.fromkeys(reset.status.name for reset in actions.to_reset if reset.is_cause)
        waits: list[RetryAt] = []
        if others:
            await self._killer.reset(pod, others)
            self._starter.taken_away(pod, {reset.status.name for reset in others})
            # The removal must be observed and published before any wait.
        elif not (waits := self._starter.back_offs(pod, observed, names)):
            for name in names:
                self._starter.let_go(pod, observed, name)
                await self._killer.reset(pod, [reset for reset in actions.to_reset if reset.status.name == name])
        # A debugger that cannot start holds up nothing: after a removal the next sync begins at once. A debugger whose
        # image is being pulled is waited for, as elsewhere when containers start in order. Cancelling the pull when the
        # pod may start over would restart it each time, so that such a debugger might never run.
        errors = await self._start(pod, observed, actions, volumes) if any(actions.starts(pod)) else []
        if waits:
            wait = max(waits, key=lambda wait: wait.at)  # the pod starts over when all causes may be restarted
            again = trio.current_time() + self._bounds.retry_seconds
            at = min([wait.at, *(error.at if isinstance(error, RetryAt) else again for error in errors)])
            raise RetryAt(wait.reason, wait.message, at, wait.container)

    def note_wait(self, pod: Pod, wait: PodSyncError | None) -> None:
        """Record that all containers of the pod wait for devices, or no longer do."""
        self._starter.note_wait(pod, wait)

    def forget(self, uid: str) -> None:
        """Forget this instance of the pod: what kept it and its containers from being started no longer counts."""
        self._starter.forget(uid)
        self._paces.forget(uid)


def most_urgent(errors: list[PodSyncError]) -> PodSyncError:
    """Return the error that decides when to retry: a real failure, else the back-off that ends first."""
    real = [error for error in errors if not isinstance(error, RetryAt)]
    waits = [error for error in errors if isinstance(error, RetryAt)]
    return real[0] if real else min(waits, key=lambda error: error.at)
