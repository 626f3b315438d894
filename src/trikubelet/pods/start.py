"""Starting one container: back-off, image, configuration, create, start, postStart hook; each with its own way to fail.

The reason and message of a failure are noted before it is raised, in upstream's words: they are what a user reads in
the waiting state. A container that started has nothing to wait for, so its note is dropped. One whose postStart hook
failed is stopped again; whether it is started once more is its policy's word.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec
import trio

from trikubelet.core.actions import Kill, KillReason
from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.names import EPHEMERAL_CONTAINER, container_kind, log_link_name, object_ref
from trikubelet.kit.settle import settle
from trikubelet.model.duration import format_duration
from trikubelet.model.errors import PodSyncError, RetryAt
from trikubelet.model.runtime import ContainerState, ContainerStatus
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeFailure
from trikubelet.pods.hooks import Hooked
from trikubelet.pods.in_time import in_time
from trikubelet.pods.unstarted import is_discarded, unstarted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ImageInfo, PodObservation, SandboxStatus
    from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.configs import Configs
    from trikubelet.pods.crash_backoffs import CrashBackoffs
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.hooks import Hooks
    from trikubelet.pods.stop import Stopper
    from trikubelet.pods.waiting_reasons import WaitingReasons
    from trikubelet.ports import ContainerFiles, Events, ImagePuller, Runtime, Volumes

log = logging.getLogger(__name__)

T = TypeVar("T")

IMAGE_VOLUMES_SINCE = "one of its volumes is an image: can the runtime mount images? containerd can since 2.1"


class ContainerStarter:
    """Starts containers. Owns no state."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        images: ImagePuller,
        configs: Configs,
        files: ContainerFiles,
        volumes: Volumes,
        reasons: WaitingReasons,
        events: Events,
        backoffs: CrashBackoffs,
        bounds: Bounds,
        hooks: Hooks,
        stopper: Stopper,
        figures: PodFigures,
        allocations: Allocations,
    ) -> None:
        self._runtime = runtime
        self._images = images
        self._configs = configs
        self._files = files
        self._volumes = volumes
        self._reasons = reasons
        self._events = events
        self._backoffs = backoffs
        self._bounds = bounds
        self._hooks = hooks
        self._stopper = stopper
        self._figures = figures
        self._allocations = allocations

    async def start(
        self,
        pod: Pod,
        container: Container,
        *,
        observed: PodObservation,
        config: SandboxConfig,
        sandbox: SandboxStatus,
        volumes: Mapping[str, str],
        target: str = "",
        is_asked: bool = False,
    ) -> None:
        """Make and start one container in a sandbox that stands; ``target`` names the container whose processes an
        ephemeral one shall see; ``is_asked``: an operator wants it anew, and now. Raises PodSyncError; RetryAt while
        backing off."""
        try:
            if not is_asked:
                self._check_backoff(pod, container, observed)
            with self._counted(pod, container):
                image = await self._images.ensure(pod, container, config)
                volumes = {**volumes, **await self._image_volumes(pod, container, config)}
                configure = partial(self._configure, pod, container, observed, image, sandbox, config, volumes, target)
                made, beside = await self._replacing(pod, container, observed, configure)
                container_id = await self._call(
                    "CreateContainerError",
                    pod,
                    container,
                    partial(self._create, sandbox.id, made, config),
                )
                self._events.record(object_ref(pod, container.name), "Normal", "Created", "Container created")
                if beside is not None:
                    log.warning(
                        "Pod %s: the runtime gave up the start of container %s (%s) and keeps what is left of it until"
                        " it is itself restarted; another is made beside it",
                        *(object_ref(pod), container.name, beside.id[:13]),
                    )
                await self._call(
                    "RunContainerError", pod, container, partial(self._runtime.start_container, container_id)
                )
                self._events.record(object_ref(pod, container.name), "Normal", "Started", "Container started")
                log.info("Pod %s: started container %s (%s)", object_ref(pod), container.name, container_id[:13])
                self._link_log(pod, container, container_id, f"{config.log_directory}/{made.log_path}")
                await self._run_hook(Hooked(pod, container, container_id, sandbox.ips), made.attempt)
        except PodSyncError as error:
            self._reasons.note(pod.metadata.uid, container.name, error.reason, error.message)
            raise
        self._reasons.note_gone(pod.metadata.uid, container.name)

    @contextmanager
    def _counted(self, pod: Pod, container: Container) -> Iterator[None]:
        """It is to be started now; while it is backing off it is not."""
        kind = container_kind(pod, container.name)
        self._figures.started[kind] += 1
        try:
            yield
        except PodSyncError as error:
            self._figures.start_failures[kind, error.reason] += 1
            raise

    def _link_log(self, pod: Pod, container: Container, container_id: str, path: str) -> None:
        link = log_link_name(pod, container.name, container_id)
        try:
            self._files.link_log(link, path)
        except OSError as error:  # a convenience for log collectors: no reason to fail a container that runs
            log.warning("Pod %s: cannot link its log as %s: %s", object_ref(pod), link, error)

    async def _run_hook(self, of: Hooked, attempt: int) -> None:
        """The postStart hook; the next container is started when it is over. Of a failed one the container is stopped
        before its PodSyncError is passed on."""
        try:
            await self._hooks.post_start(of)
        except PodSyncError:
            running = ContainerStatus(of.id, of.container.name, attempt, ContainerState.RUNNING, 0)
            try:
                # The reason stands for a message here: users know the Killing event by it.
                kill = Kill(running, KillReason.POST_START, "FailedPostStartHook")
                await self._stopper.stop_some(of.pod, (kill,), of.ips)
            except RuntimeCallError as error:
                log.warning(
                    "Pod %s: %s runs on after its hook failed: %s", object_ref(of.pod), of.container.name, error
                )
            raise

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
        # Not before all is ready for the next one: until then nothing else tells that the pod goes on.
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
            attempt = self._attempt(pod, container, observed, beside)
            if container_kind(pod, container.name) != EPHEMERAL_CONTAINER:
                self._allocations.making(pod, container, attempt)
            target_id = seen.id if seen is not None else ""
            made = await self._configs.container(pod, container, attempt, image, sandbox, config, volumes, target_id)
        except (ConfigError, OSError) as error:
            message = error.message if isinstance(error, ConfigError) else str(error)
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {message}")
            raise ConfigError(message, container.name) from error
        return await self._with_sub_paths(pod, container, made)

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

    async def _image_volumes(self, pod: Pod, container: Container, config: SandboxConfig) -> dict[str, str]:
        """The images that the container mounts, by the names of their volumes. What keeps one away keeps the container
        waiting, for the same reasons as its own image does."""
        mounted = {mount.name for mount in container.volume_mounts}
        found = {}
        for volume in pod.spec.volumes:
            if volume.image is not None and volume.name in mounted:
                source = volume.image
                asked = msgspec.structs.replace(container, image=source.reference, image_pull_policy=source.pull_policy)
                self._figures.image_volumes += 1
                try:
                    found[volume.name] = (await self._images.ensure(pod, asked, config)).id
                except PodSyncError:
                    self._figures.image_volume_failures += 1
                    raise
        return found

    async def _with_sub_paths(self, pod: Pod, container: Container, made: ContainerConfig) -> ContainerConfig:
        seconds = self._bounds.runtime_call_seconds_max
        try:
            with trio.fail_after(seconds):
                return replace(made, mounts=await self._volumes.resolve(pod, container, made.mounts))
        except trio.TooSlowError as error:
            message = f"the sub-paths of its volumes were not ready within {seconds:.0f}s"
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {message}")
            raise ConfigError(message, container.name) from error
        except PodSyncError as error:
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {error.message}")
            raise

    def _check_backoff(self, pod: Pod, container: Container, observed: PodObservation) -> None:
        """A container that just ended waits; one that may start now will wait longer the next time. Of one that was
        killed in this very attempt, for a probe, the end before counts, as upstream has it."""
        exited = (one for one in observed.history(container.name) if one.state is ContainerState.EXITED)
        latest = next(exited, None)
        if latest is None:
            return
        wait = self._backoffs.begin(pod, container, latest.finished_at)
        if wait is not None:
            name, meta = container.name, pod.metadata
            told = f"pod={meta.name}_{meta.namespace}({meta.uid})"
            text = f"back-off {format_duration(wait.seconds)} restarting failed container={name} {told}"
            event = f"Back-off restarting failed container {name} in pod {meta.name}_{meta.namespace}({meta.uid})"
            self._events.record(object_ref(pod, name), "Warning", "BackOff", event)
            raise RetryAt("CrashLoopBackOff", text, trio.current_time() + wait.left_seconds, name)

    def _attempt(self, pod: Pod, container: Container, observed: PodObservation, beside: ContainerStatus | None) -> int:
        """The restart count of the next container: one more than the last. The logs remember attempts whose containers
        are gone. In place of one that was never started it is no restart."""
        latest = observed.latest(container.name)
        logged = self._files.log_attempts(self._configs.log_directory(pod), container.name)
        last = max(-1 if latest is None else latest.attempt, *logged[:1], -1)
        left = unstarted(observed, container) if beside is None else None
        return last if left is not None and left.attempt == last else last + 1

    async def _call(self, reason: str, pod: Pod, container: Container, call: Callable[[], Awaitable[T]]) -> T:
        """A call that makes something, settled; its failure under the reason users know it by."""
        try:
            timed = partial(in_time, self._bounds.runtime_call_seconds_max, call)
            return await settle(self._bounds.settle_seconds_max, timed)
        except RuntimeCallError as error:
            self._events.record(object_ref(pod, container.name), "Warning", "Failed", f"Error: {error}")
            raise PodSyncError(reason, str(error), container.name) from error
