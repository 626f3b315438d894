"""Creates and starts one container: its attempt, its configuration, and the calls, each with its own errors.

    remove the leftovers of a failed start ─► create ─► start ─► link its log

``pods.start`` calls this after pulling the images. A container's resources are noted before it is created, so that a
later agent knows them (``pods.allocations``); so are its devices. A call that creates something is settled.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.devices.run_options import with_devices
from trikubelet.core.names import EPHEMERAL_CONTAINER, container_kind, log_link_name, log_path, object_ref
from trikubelet.core.restarts import RUN_CONTAINER_ERROR
from trikubelet.kit.disk import disk_in_time
from trikubelet.kit.settle import settled
from trikubelet.model.errors import PodSyncError, RetryAt
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeFailure
from trikubelet.pods.created_not_started import created_not_started, try_remove
from trikubelet.pods.in_time import in_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from trikubelet.core.actions import Start
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ContainerStatus, ImageInfo, PodObservation
    from trikubelet.model.runtime_config import ContainerConfig
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.container_configs import ContainerConfigs
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.making_paces import MakingPaces
    from trikubelet.pods.noted_lives import NotedLives
    from trikubelet.pods.start_context import StartContext
    from trikubelet.ports import ContainerFiles, Events, PodDevices, Runtime

log = logging.getLogger(__name__)

OLD_LOGS_SECONDS_MAX = 1.0
"""The limit for removing all old logs of a container at its start, because its hook and the next container wait
meanwhile. The next start removes the rest."""
IMAGE_VOLUMES_SINCE = "one of its volumes is an image: can the runtime mount images? containerd can since 2.1"


class CreatedContainer(NamedTuple):
    """A container that was created and started: its id and its attempt."""

    id: str
    attempt: int


class ContainerCreator:
    """Creates containers and starts them. Owns no state."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        configs: ContainerConfigs,
        allocations: Allocations,
        devices: PodDevices,
        files: ContainerFiles,
        noted_lives: NotedLives,
        paces: MakingPaces,
        events: Events,
        bounds: Bounds,
        figures: PodFigures,
        booted_ns: int,
    ) -> None:
        self._runtime = runtime
        self._configs = configs
        self._allocations = allocations
        self._devices = devices
        self._files = files
        self._noted_lives = noted_lives
        self._paces = paces
        self._events = events
        self._bounds = bounds
        self._figures = figures
        self._booted_ns = booted_ns

    async def create(self, context: StartContext, start: Start, image: ImageInfo) -> CreatedContainer:
        """Create the container of this image and start it. Raises PodSyncError."""
        pod, container = context.pod, start.container
        new_config, beside = await self._replacing(context, start, image)
        self._paces.container_made(pod, container, context.sandbox.id)
        async with self._calling("CreateContainerError", pod, container):
            with self._mounting_images(new_config):
                container_id = await self._runtime.create_container(context.sandbox.id, new_config, context.config)
        self._events.record(object_ref(pod, container.name), "Normal", "Created", "Container created")
        if beside is not None:
            log.warning(
                "Pod %s: the runtime gave up the start of container %s (%s) and keeps the rest of it until"
                " it is restarted; another container is created next to it",
                *(object_ref(pod), container.name, beside.id[:13]),
            )
        async with self._calling(RUN_CONTAINER_ERROR, pod, container):
            await self._runtime.start_container(container_id)
        self._events.record(object_ref(pod, container.name), "Normal", "Started", "Container started")
        log.info("Pod %s: started container %s (%s)", object_ref(pod), container.name, container_id[:13])
        await self._link_log(pod, container, container_id, f"{context.config.log_directory}/{new_config.log_path}")
        await self._remove_forgotten_logs(context, container, new_config.attempt)
        return CreatedContainer(container_id, new_config.attempt)

    async def _replacing(
        self, context: StartContext, start: Start, image: ImageInfo
    ) -> tuple[ContainerConfig, ContainerStatus | None]:
        """Return the configuration, after the leftovers of a failed start were removed; or with the leftovers that
        remain."""
        new_config = await self._configure(context, start, image, beside=None)
        left = created_not_started(context.observed, start.container)
        if left is None:
            return new_config, None
        # Not before the next one is ready: until then only the leftovers show that the pod goes on.
        async with self._calling("CreateContainerError", context.pod, start.container):
            is_gone = await try_remove(self._runtime, left)
        if is_gone:
            return new_config, None
        return await self._configure(context, start, image, beside=left), left

    async def _configure(
        self, context: StartContext, start: Start, image: ImageInfo, *, beside: ContainerStatus | None
    ) -> ContainerConfig:
        """Return the full configuration. ``beside``: the leftovers of an abandoned start, which keep their name."""
        pod, container, observed, target = context.pod, start.container, context.observed, start.target
        try:
            seen = observed.latest(target) if target else None
            if target and seen is None:
                raise ConfigError(f"unable to find target container {target}", container.name)
            attempt = await self._attempt(pod, container, observed, beside)
            if container_kind(pod, container.name) != EPHEMERAL_CONTAINER:
                self._allocations.creating(pod, container, attempt)
            devices = await self._devices.for_container(pod, container.name)
            target_id = seen.id if seen is not None else ""
            new_config = await self._configs.container(context, container, attempt, image, target_id)
        except (ConfigError, OSError) as error:
            message = error.message if isinstance(error, ConfigError) else str(error)
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {message}")
            raise ConfigError(message, container.name) from error
        except RetryAt as wait:
            self._events.record(object_ref(pod, container.name), "Warning", wait.reason, wait.message)
            raise
        try:
            return with_devices(await self._configs.with_sub_paths(pod, container, new_config), devices)
        except PodSyncError as error:
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {error.message}")
            raise

    async def _attempt(
        self, pod: Pod, container: Container, observed: PodObservation, beside: ContainerStatus | None
    ) -> int:
        """Return the restart count of the next container: one more than the last. Logs show attempts whose containers
        are gone. Replacing a container that was never started is no restart. A pod that came back after its end counts
        from 0. One that came back before that counts on, and so does one whose earlier instance has leftovers that
        cannot be removed: the runtime and the log directory still use its numbers, and neither accepts one twice.

        A container that was created before the machine booted counts as a run: a runtime does not flush its record of
        a start, so a power cut can lose it."""
        latest = observed.latest(container.name)
        logged = await self._configs.logged_attempts(pod, container)
        earlier = self._noted_lives.of(pod).attempts.get(container.name, -1)
        last = max(-1 if latest is None else latest.attempt, earlier, *logged[:1])
        left = created_not_started(observed, container) if beside is None else None
        if left is None or left.attempt != last or left.created_at < self._booted_ns:
            return last + 1
        return last

    @contextmanager
    def _mounting_images(self, new_config: ContainerConfig) -> Iterator[None]:
        """Wrap the creation of the container, and count the images that it mounts."""
        images = sum(bool(mount.image) for mount in new_config.mounts)
        try:
            yield
        except RuntimeCallError as error:
            self._figures.image_volume_failures += images
            if images:
                # An older runtime ignores the field and reports another error, such as an empty path.
                raise RuntimeFailure(f"{error} ({IMAGE_VOLUMES_SINCE})") from error
            raise
        self._figures.image_volumes_mounted += images

    @asynccontextmanager
    async def _calling(self, reason: str, pod: Pod, container: Container) -> AsyncIterator[None]:
        """Wrap a call that creates something: it is settled, and its failure gets the reason that users know."""
        try:
            async with settled(self._bounds.settle_seconds_max):
                with in_time(self._bounds.runtime_call_seconds_max):
                    yield
        except RuntimeCallError as error:
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {error}")
            raise PodSyncError(reason, str(error), container.name) from error

    async def _remove_forgotten_logs(self, context: StartContext, container: Container, attempt: int) -> None:
        """Remove the logs of runs before the last if the runtime has forgotten the container, as after a restart of
        all. Logs are otherwise removed with their containers, so while the pod lives nothing else would."""
        pod, observed = context.pod, context.observed
        if attempt < 2 or observed.latest(container.name) is not None:
            return
        try:
            with trio.move_on_after(OLD_LOGS_SECONDS_MAX):
                below = attempt - 1
                while old := [one for one in await self._configs.logged_attempts(pod, container) if one < below]:
                    for before in old:
                        path = f"{context.config.log_directory}/{log_path(container.name, before)}"
                        await self._files.remove_container_logs(path)
                    below = old[-1]  # only the newest are returned, and some of those may not be removable
        except OSError as error:  # the next start tries again
            log.warning("Pod %s: cannot remove old logs of %s: %s", object_ref(pod), container.name, error)

    async def _link_log(self, pod: Pod, container: Container, container_id: str, path: str) -> None:
        link = log_link_name(pod, container.name, container_id)
        try:
            # Settled, because nothing links it later: a cancelled sync ends after this.
            async with settled(seconds := self._bounds.settle_seconds_max):
                await disk_in_time(seconds, partial(self._files.link_log, link, path))
        except OSError as error:  # a convenience for log collectors: no reason to fail a running container
            log.warning("Pod %s: cannot link its log as %s: %s", object_ref(pod), link, error)
