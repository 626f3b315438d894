"""Carrying a plan out: the one place that makes sandboxes and containers.

No opinions live here: what to do comes from ``core.actions``, with what configuration from ``core.containers``. What is
ours is order and care: a regular container that cannot start does not hold up its siblings, an init container that
cannot start ends the pass, every failure is noted where the pod's status will show it, and a call that makes something
is settled before an attempt is given up, so that we always know what exists. Pods that start together take turns.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.core.actions import KillReason
from trikubelet.core.lifecycle import GRACE_SECONDS_DEFAULT
from trikubelet.core.names import as_container, object_ref
from trikubelet.core.restarts import is_sidecar
from trikubelet.kit.settle import settle
from trikubelet.model.errors import PodSyncError, RetryAt
from trikubelet.model.runtime_errors import RuntimeCallError
from trikubelet.pods.in_time import in_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.actions import PodActions
    from trikubelet.kit.turnstile import Turnstile
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import PodObservation, SandboxStatus
    from trikubelet.model.runtime_config import SandboxConfig
    from trikubelet.pods.configs import Configs
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.start import ContainerStarter
    from trikubelet.pods.stop import Stopper
    from trikubelet.ports import Events, Runtime

log = logging.getLogger(__name__)


class CarryOut:
    """Performs plans. Owns no state."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        configs: Configs,
        starter: ContainerStarter,
        stopper: Stopper,
        events: Events,
        turnstile: Turnstile,
        bounds: Bounds,
        figures: PodFigures,
    ) -> None:
        self._runtime = runtime
        self._configs = configs
        self._starter = starter
        self._stopper = stopper
        self._events = events
        self._turnstile = turnstile
        self._bounds = bounds
        self._figures = figures

    async def perform(
        self, pod: Pod, observed: PodObservation, actions: PodActions, volumes: Mapping[str, str]
    ) -> None:
        """Do what the plan says. Raises the most urgent PodSyncError, or a RuntimeCallError, once all that could be
        done was done."""
        if actions.to_reset:
            await self._stopper.reset(pod, actions.to_reset)
            return
        if actions.kill_pod:
            if actions.create_sandbox and observed.sandboxes:
                message = "Pod sandbox changed, it will be killed and re-created."
                self._events.record(object_ref(pod), "Normal", "SandboxChanged", message)
            seconds = pod.spec.termination_grace_period_seconds
            await self._stopper.stop_pod(pod, observed, GRACE_SECONDS_DEFAULT if seconds is None else seconds)
            if not actions.create_sandbox:
                return
        else:
            await self._stopper.stop_some(pod, actions.to_kill, observed.ips)
        try:
            config = await self._configs.sandbox(pod, actions.attempt, is_new=actions.create_sandbox)
        except PodSyncError as error:
            self._events.record(object_ref(pod), "Warning", "FailedCreatePodSandBox", error.message)
            raise
        async with self._turnstile.turn():
            sandbox = await self._sandbox(pod, observed, actions, config)
            await self._start_containers(pod, observed, actions, config, sandbox, volumes)

    async def _sandbox(
        self, pod: Pod, observed: PodObservation, actions: PodActions, config: SandboxConfig
    ) -> SandboxStatus:
        if not actions.create_sandbox:
            return next(s for s in observed.sandboxes if s.id == actions.sandbox_id)
        limit, began = self._bounds.runtime_call_seconds_max, trio.current_time()
        is_mapped = pod.spec.host_users is False
        self._figures.mapped += is_mapped
        try:
            self._configs.make_log_directory(config)
            # Twice the time of any other call, as upstream: it sets the pod's network up.
            run = partial(in_time, 2 * limit, partial(self._runtime.run_sandbox, config))
            made = await settle(self._bounds.settle_seconds_max, run)
        except (OSError, RuntimeCallError) as error:
            message = f"Failed to create pod sandbox: {error}"
            self._events.record(object_ref(pod), "Warning", "FailedCreatePodSandBox", message)
            self._figures.sandbox_failures[config.runtime_handler] += 1
            self._figures.mapped_failures += is_mapped
            raise PodSyncError("FailedCreatePodSandBox", message) from error
        finally:
            self._figures.sandboxes[config.runtime_handler].add(trio.current_time() - began)
        log.info("Pod %s: made sandbox %s", object_ref(pod), made[:13])
        return (await in_time(limit, partial(self._runtime.sandbox_status, made))).decode()

    async def _start_containers(
        self,
        pod: Pod,
        observed: PodObservation,
        actions: PodActions,
        config: SandboxConfig,
        sandbox: SandboxStatus,
        volumes: Mapping[str, str],
    ) -> None:
        errors: list[PodSyncError] = []

        async def try_(container: Container, target: str = "") -> bool:
            try:
                await start(container, target=target, is_asked=container.name in asked)
            except PodSyncError as error:
                errors.append(error)
                return False
            return True

        start = partial(self._starter.start, pod, observed=observed, config=config, sandbox=sandbox, volumes=volumes)
        asked = {kill.status.name for kill in actions.to_kill if kill.reason is KillReason.ASKED}
        for index in actions.ephemeral_to_start:
            ephemeral = pod.spec.ephemeral_containers[index]
            await try_(as_container(ephemeral), ephemeral.target_container_name)
        for index in actions.init_to_start:
            container = pod.spec.init_containers[index]
            if not await try_(container) and not is_sidecar(container):
                raise most_urgent(errors)
        for index in actions.to_start:
            await try_(pod.spec.containers[index])
        if errors:
            raise most_urgent(errors)


def most_urgent(errors: list[PodSyncError]) -> PodSyncError:
    """The error that decides when to try again: a real failure, else the back-off that ends first."""
    real = [error for error in errors if not isinstance(error, RetryAt)]
    waits = [error for error in errors if isinstance(error, RetryAt)]
    return real[0] if real else min(waits, key=lambda error: error.at)
