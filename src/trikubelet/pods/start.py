"""Starting one container: back-off, image, configuration, create, start; each with its own way to fail.

The reason and message of a failure are noted before it is raised, in upstream's words: they are what a user reads in
the waiting state. A container that started has nothing to wait for, so its note is dropped.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.names import log_link_name, object_ref
from trikubelet.core.restarts import (
    BackoffEntry,
    BackoffLimits,
    backoff_key,
    backoff_next,
    backoff_remaining,
)
from trikubelet.kit.settle import settle
from trikubelet.model.duration import format_duration
from trikubelet.model.errors import PodSyncError, RetryAt
from trikubelet.model.runtime import ContainerState
from trikubelet.model.runtime_errors import RuntimeCallError
from trikubelet.pods.in_time import in_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ContainerStatus, ImageInfo, PodObservation, SandboxStatus
    from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig
    from trikubelet.pods.configs import Configs
    from trikubelet.pods.facts import FactFinder
    from trikubelet.ports import Clock, Events, ImagePuller, PodFiles, Runtime

log = logging.getLogger(__name__)

T = TypeVar("T")

BACKOFFS_KEPT_MAX = 10_000


class ContainerStarter:
    """Owns the crash back-offs. They may be lost with the process: the worst is one early restart."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        images: ImagePuller,
        configs: Configs,
        files: PodFiles,
        facts: FactFinder,
        events: Events,
        clock: Clock,
        bounds: Bounds,
        limits: BackoffLimits,
    ) -> None:
        self._runtime = runtime
        self._images = images
        self._configs = configs
        self._files = files
        self._facts = facts
        self._events = events
        self._clock = clock
        self._bounds = bounds
        self._limits = limits
        self._backoffs: dict[str, BackoffEntry] = {}

    async def start(
        self,
        pod: Pod,
        container: Container,
        *,
        observed: PodObservation,
        config: SandboxConfig,
        sandbox: SandboxStatus,
        volumes: Mapping[str, str],
    ) -> None:
        """Make and start one container in a sandbox that stands. Raises PodSyncError; RetryAt while backing off."""
        try:
            self._check_backoff(pod, container, observed.latest(container.name))
            image = await self._images.ensure(pod, container, config)
            made = self._configure(pod, container, observed, image, sandbox, volumes)
            container_id = await self._call(
                "CreateContainerError",
                pod,
                container,
                partial(self._runtime.create_container, sandbox.id, made, config),
            )
            self._events.record(object_ref(pod, container.name), "Normal", "Created", "Container created")
            await self._call("RunContainerError", pod, container, partial(self._runtime.start_container, container_id))
        except PodSyncError as error:
            self._facts.note(pod.metadata.uid, container.name, error.reason, error.message)
            raise
        self._events.record(object_ref(pod, container.name), "Normal", "Started", "Container started")
        log.info("Pod %s: started container %s (%s)", object_ref(pod), container.name, container_id[:13])
        self._facts.note_gone(pod.metadata.uid, container.name)
        link = log_link_name(pod, container.name, container_id)
        try:
            self._files.link_log(link, f"{config.log_directory}/{made.log_path}")
        except OSError as error:  # a convenience for log collectors: no reason to fail a container that runs
            log.warning("Pod %s: cannot link its log as %s: %s", object_ref(pod), link, error)

    def _configure(
        self,
        pod: Pod,
        container: Container,
        observed: PodObservation,
        image: ImageInfo,
        sandbox: SandboxStatus,
        volumes: Mapping[str, str],
    ) -> ContainerConfig:
        try:
            attempt = self._attempt(pod, container, observed)
            return self._configs.container(pod, container, attempt, image, sandbox, volumes)
        except (ConfigError, OSError) as error:
            message = error.message if isinstance(error, ConfigError) else str(error)
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {message}")
            raise ConfigError(message, container.name) from error

    def _check_backoff(self, pod: Pod, container: Container, latest: ContainerStatus | None) -> None:
        """A container that just ended waits; one that may start now will wait longer the next time."""
        if latest is None or latest.state is not ContainerState.EXITED:
            return
        key, now = backoff_key(pod, container), self._clock.now_ns()
        entry = self._backoffs.get(key)
        remaining = backoff_remaining(entry, latest.finished_at, now, self._limits)
        if entry is not None and remaining > 0:
            name, meta = container.name, pod.metadata
            told = f"pod={meta.name}_{meta.namespace}({meta.uid})"
            text = f"back-off {format_duration(entry.seconds)} restarting failed container={name} {told}"
            event = f"Back-off restarting failed container {name} in pod {meta.name}_{meta.namespace}({meta.uid})"
            self._events.record(object_ref(pod, name), "Warning", "BackOff", event)
            raise RetryAt("CrashLoopBackOff", text, trio.current_time() + remaining, name)
        self._backoffs[key] = backoff_next(entry, latest.finished_at, now, self._limits)
        if len(self._backoffs) > BACKOFFS_KEPT_MAX:
            del self._backoffs[next(iter(self._backoffs))]

    def _attempt(self, pod: Pod, container: Container, observed: PodObservation) -> int:
        """The restart count of the next container: one more than the last. The logs remember attempts whose containers
        are gone."""
        latest = observed.latest(container.name)
        logged = self._files.highest_log_attempt(self._configs.log_directory(pod), container.name)
        return max(-1 if latest is None else latest.attempt, -1 if logged is None else logged) + 1

    async def _call(self, reason: str, pod: Pod, container: Container, call: Callable[[], Awaitable[T]]) -> T:
        """A call that makes something, settled; its failure under the reason users know it by."""
        try:
            timed = partial(in_time, self._bounds.runtime_call_seconds_max, call)
            return await settle(self._bounds.settle_seconds_max, timed)
        except RuntimeCallError as error:
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {error}")
            raise PodSyncError(reason, str(error), container.name) from error
