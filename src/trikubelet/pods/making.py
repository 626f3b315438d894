"""Making one container and starting it: its number, its configuration, the calls, each with its own way to fail.

    what is left of a start that came to nothing goes ─► create ─► start ─► its log is linked

Asked by ``pods.start``, which has had its images pulled. What a container is to be made with is noted before it is
made, so that whoever finds it knows (``pods.allocations``). A call that makes something is settled.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.names import EPHEMERAL_CONTAINER, container_kind, log_link_name, object_ref
from trikubelet.kit.disk import disk_in_time
from trikubelet.kit.settle import settle
from trikubelet.model.errors import PodSyncError
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeFailure
from trikubelet.pods.in_time import in_time
from trikubelet.pods.unstarted import is_discarded, unstarted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ContainerStatus, ImageInfo, PodObservation, SandboxStatus
    from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.container_configs import ContainerConfigs
    from trikubelet.pods.figures import PodFigures
    from trikubelet.ports import ContainerFiles, Events, Runtime

log = logging.getLogger(__name__)

T = TypeVar("T")

IMAGE_VOLUMES_SINCE = "one of its volumes is an image: can the runtime mount images? containerd can since 2.1"


class Made(NamedTuple):
    """A container that was made and started: its id and its number."""

    id: str
    attempt: int


class ContainerMaker:
    """Makes containers and starts them. Owns no state."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        configs: ContainerConfigs,
        allocations: Allocations,
        files: ContainerFiles,
        events: Events,
        bounds: Bounds,
        figures: PodFigures,
    ) -> None:
        self._runtime = runtime
        self._configs = configs
        self._allocations = allocations
        self._files = files
        self._events = events
        self._bounds = bounds
        self._figures = figures

    async def make(
        self,
        pod: Pod,
        container: Container,
        *,
        observed: PodObservation,
        image: ImageInfo,
        config: SandboxConfig,
        sandbox: SandboxStatus,
        volumes: Mapping[str, str],
        target: str,
    ) -> Made:
        """Make and start the container of this image in a sandbox that stands; the other arguments are those of
        ``ContainerStarter.start``. Raises PodSyncError."""
        configure = partial(self._configure, pod, container, observed, image, sandbox, config, volumes, target)
        made, beside = await self._replacing(pod, container, observed, configure)
        create = partial(self._create, sandbox.id, made, config)
        container_id = await self._call("CreateContainerError", pod, container, create)
        self._events.record(object_ref(pod, container.name), "Normal", "Created", "Container created")
        if beside is not None:
            log.warning(
                "Pod %s: the runtime gave up the start of container %s (%s) and keeps what is left of it until"
                " it is itself restarted; another is made beside it",
                *(object_ref(pod), container.name, beside.id[:13]),
            )
        await self._call("RunContainerError", pod, container, partial(self._runtime.start_container, container_id))
        self._events.record(object_ref(pod, container.name), "Normal", "Started", "Container started")
        log.info("Pod %s: started container %s (%s)", object_ref(pod), container.name, container_id[:13])
        await self._link_log(pod, container, container_id, f"{config.log_directory}/{made.log_path}")
        return Made(container_id, made.attempt)

    async def _replacing(
        self,
        pod: Pod,
        container: Container,
        observed: PodObservation,
        configure: Callable[..., Awaitable[ContainerConfig]],
    ) -> tuple[ContainerConfig, ContainerStatus | None]:
        """What to make once nothing is left of a start that came to nothing; or else beside what is."""
        made = await configure(beside=None)
        left = unstarted(observed, container)
        # Not before all is ready for the next one: until then nothing else shows that the pod goes on.
        if left is None or await self._call(
            "CreateContainerError", pod, container, partial(is_discarded, self._runtime, left)
        ):
            return made, None
        return await configure(beside=left), left

    async def _configure(
        self,
        pod: Pod,
        container: Container,
        observed: PodObservation,
        image: ImageInfo,
        sandbox: SandboxStatus,
        config: SandboxConfig,
        volumes: Mapping[str, str],
        target: str,
        *,
        beside: ContainerStatus | None,
    ) -> ContainerConfig:
        """What to make, in every detail. ``beside``: what stays of a start that was given up, and keeps its name."""
        try:
            seen = observed.latest(target) if target else None
            if target and seen is None:
                raise ConfigError(f"unable to find target container {target}", container.name)
            attempt = await self._attempt(pod, container, observed, beside)
            if container_kind(pod, container.name) != EPHEMERAL_CONTAINER:
                self._allocations.making(pod, container, attempt)
            target_id = seen.id if seen is not None else ""
            made = await self._configs.container(pod, container, attempt, image, sandbox, config, volumes, target_id)
        except (ConfigError, OSError) as error:
            message = error.message if isinstance(error, ConfigError) else str(error)
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {message}")
            raise ConfigError(message, container.name) from error
        try:
            return await self._configs.with_sub_paths(pod, container, made)
        except PodSyncError as error:
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {error.message}")
            raise

    async def _attempt(
        self, pod: Pod, container: Container, observed: PodObservation, beside: ContainerStatus | None
    ) -> int:
        """The restart count of the next container: one more than the last. The logs remember attempts whose containers
        are gone. In place of one that was never started it is no restart."""
        latest = observed.latest(container.name)
        logged = await self._configs.logged_attempts(pod, container)
        last = max(-1 if latest is None else latest.attempt, *logged[:1], -1)
        left = unstarted(observed, container) if beside is None else None
        return last if left is not None and left.attempt == last else last + 1

    async def _create(self, sandbox_id: str, made: ContainerConfig, config: SandboxConfig) -> str:
        images = sum(bool(mount.image) for mount in made.mounts)
        try:
            container_id = await self._runtime.create_container(sandbox_id, made, config)
        except RuntimeCallError as error:
            self._figures.image_volume_failures += images
            if images:
                # An older runtime does not know the field and complains of something else, as an empty path.
                raise RuntimeFailure(f"{error} ({IMAGE_VOLUMES_SINCE})") from error
            raise
        self._figures.image_volumes_mounted += images
        return container_id

    async def _call(self, reason: str, pod: Pod, container: Container, call: Callable[[], Awaitable[T]]) -> T:
        """A call that makes something, settled; its failure under the reason users know it by."""
        try:
            timed = partial(in_time, self._bounds.runtime_call_seconds_max, call)
            return await settle(self._bounds.settle_seconds_max, timed)
        except RuntimeCallError as error:
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {error}")
            raise PodSyncError(reason, str(error), container.name) from error

    async def _link_log(self, pod: Pod, container: Container, container_id: str, path: str) -> None:
        link = log_link_name(pod, container.name, container_id)
        try:
            # Settled, for nobody links it later: whoever was cancelled meanwhile goes once it is done.
            seconds = self._bounds.settle_seconds_max
            await settle(seconds, partial(disk_in_time, seconds, partial(self._files.link_log, link, path)))
        except OSError as error:  # a convenience for log collectors: no reason to fail a container that runs
            log.warning("Pod %s: cannot link its log as %s: %s", object_ref(pod), link, error)
