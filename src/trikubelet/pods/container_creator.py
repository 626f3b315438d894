"""Creating one container and starting it: its number, its configuration, the calls, each with its own way to fail.

    what is left of a start that came to nothing goes ─► create ─► start ─► its log is linked

Asked by ``pods.start``, which has had its images pulled. What a container is to be created with is noted before it is
created, so that whoever finds it knows (``pods.allocations``). A call that creates something is settled.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.names import EPHEMERAL_CONTAINER, container_kind, log_link_name, log_path, object_ref
from trikubelet.core.restarts import RUN_CONTAINER_ERROR
from trikubelet.kit.disk import disk_in_time
from trikubelet.kit.settle import settled
from trikubelet.model.errors import PodSyncError
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
    from trikubelet.ports import ContainerFiles, Events, Runtime

log = logging.getLogger(__name__)

OLD_LOGS_SECONDS_MAX = 1.0
"""For all of a container's that go with its start: its hook and the next container wait meanwhile. The rest of them go
with the next start."""
IMAGE_VOLUMES_SINCE = "one of its volumes is an image: can the runtime mount images? containerd can since 2.1"


class CreatedContainer(NamedTuple):
    """A container that was created and started: its id and its number."""

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
        files: ContainerFiles,
        noted_lives: NotedLives,
        paces: MakingPaces,
        events: Events,
        bounds: Bounds,
        figures: PodFigures,
    ) -> None:
        self._runtime = runtime
        self._configs = configs
        self._allocations = allocations
        self._files = files
        self._noted_lives = noted_lives
        self._paces = paces
        self._events = events
        self._bounds = bounds
        self._figures = figures

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
                "Pod %s: the runtime gave up the start of container %s (%s) and keeps what is left of it until"
                " it is itself restarted; another is made beside it",
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
        """What to create once nothing is left of a start that came to nothing; or else beside what is."""
        new_config = await self._configure(context, start, image, beside=None)
        left = created_not_started(context.observed, start.container)
        if left is None:
            return new_config, None
        # Not before all is ready for the next one: until then nothing else shows that the pod goes on.
        async with self._calling("CreateContainerError", context.pod, start.container):
            is_gone = await try_remove(self._runtime, left)
        if is_gone:
            return new_config, None
        return await self._configure(context, start, image, beside=left), left

    async def _configure(
        self, context: StartContext, start: Start, image: ImageInfo, *, beside: ContainerStatus | None
    ) -> ContainerConfig:
        """What to create, in every detail. ``beside``: what stays of a start that was given up, and keeps its name."""
        pod, container, observed, target = context.pod, start.container, context.observed, start.target
        try:
            seen = observed.latest(target) if target else None
            if target and seen is None:
                raise ConfigError(f"unable to find target container {target}", container.name)
            attempt = await self._attempt(pod, container, observed, beside)
            if container_kind(pod, container.name) != EPHEMERAL_CONTAINER:
                self._allocations.creating(pod, container, attempt)
            target_id = seen.id if seen is not None else ""
            new_config = await self._configs.container(context, container, attempt, image, target_id)
        except (ConfigError, OSError) as error:
            message = error.message if isinstance(error, ConfigError) else str(error)
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {message}")
            raise ConfigError(message, container.name) from error
        try:
            return await self._configs.with_sub_paths(pod, container, new_config)
        except PodSyncError as error:
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {error.message}")
            raise

    async def _attempt(
        self, pod: Pod, container: Container, observed: PodObservation, beside: ContainerStatus | None
    ) -> int:
        """The restart count of the next container: one more than the last. The logs remember attempts whose containers
        are gone. In place of one that was never started it is no restart. A pod that came back after it was gone counts
        from 0. One that came back before goes on, and so does one of whose earlier instance something cannot be
        removed: the runtime and the log directory have its numbers still, and neither takes one twice."""
        latest = observed.latest(container.name)
        logged = await self._configs.logged_attempts(pod, container)
        earlier = self._noted_lives.of(pod).attempts.get(container.name, -1)
        last = max(-1 if latest is None else latest.attempt, earlier, *logged[:1])
        left = created_not_started(observed, container) if beside is None else None
        return last if left is not None and left.attempt == last else last + 1

    @contextmanager
    def _mounting_images(self, new_config: ContainerConfig) -> Iterator[None]:
        """The container is created in the block; the images that it mounts are counted."""
        images = sum(bool(mount.image) for mount in new_config.mounts)
        try:
            yield
        except RuntimeCallError as error:
            self._figures.image_volume_failures += images
            if images:
                # An older runtime does not know the field and complains of something else, as an empty path.
                raise RuntimeFailure(f"{error} ({IMAGE_VOLUMES_SINCE})") from error
            raise
        self._figures.image_volumes_mounted += images

    @asynccontextmanager
    async def _calling(self, reason: str, pod: Pod, container: Container) -> AsyncIterator[None]:
        """In the block is a call that makes something: settled; its failure under the reason users know it by."""
        try:
            async with settled(self._bounds.settle_seconds_max):
                with in_time(self._bounds.runtime_call_seconds_max):
                    yield
        except RuntimeCallError as error:
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {error}")
            raise PodSyncError(reason, str(error), container.name) from error

    async def _remove_forgotten_logs(self, context: StartContext, container: Container, attempt: int) -> None:
        """Remove the logs of runs before the last of a container that the runtime has forgotten, as after a restart of
        all: logs go with their containers, so while the pod lives nobody else would."""
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
                    below = old[-1]  # only the newest are told, and among those may be some that do not go
        except OSError as error:  # their number is looked at again with the next start
            log.warning("Pod %s: cannot remove old logs of %s: %s", object_ref(pod), container.name, error)

    async def _link_log(self, pod: Pod, container: Container, container_id: str, path: str) -> None:
        link = log_link_name(pod, container.name, container_id)
        try:
            # Settled, for nobody links it later: whoever was cancelled meanwhile goes once it is done.
            async with settled(seconds := self._bounds.settle_seconds_max):
                await disk_in_time(seconds, partial(self._files.link_log, link, path))
        except OSError as error:  # a convenience for log collectors: no reason to fail a container that runs
            log.warning("Pod %s: cannot link its log as %s: %s", object_ref(pod), link, error)
