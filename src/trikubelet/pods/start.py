"""Starts one container: back-off, images, creation, postStart hook; each with its own errors.

The reason and message of a failure are recorded before it is raised, in upstream's terms, because users read them in
the waiting state. A started container waits for nothing, so its record is dropped. One whose postStart hook failed is
stopped again; its policy decides if it is started once more.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from trikubelet.core.actions import Kill, KillReason
from trikubelet.core.admission import UNEXPECTED
from trikubelet.core.devices.decision import AWAITS_PLUGIN
from trikubelet.core.names import all_containers, container_kind, object_ref
from trikubelet.core.restarts import CRASH_LOOP_BACK_OFF, RUN_CONTAINER_ERROR
from trikubelet.model.duration import format_duration
from trikubelet.model.errors import PodSyncError, RetryAt
from trikubelet.model.runtime import ContainerState, ContainerStatus
from trikubelet.model.runtime_errors import RuntimeCallError
from trikubelet.pods.hooks import Hooked
from trikubelet.pods.making_paces import NOT_THERE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from trikubelet.core.actions import Start
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import PodObservation
    from trikubelet.model.runtime_config import SandboxConfig
    from trikubelet.pods.container_creator import ContainerCreator
    from trikubelet.pods.crash_backoffs import CrashBackoffs, Wait
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.hooks import Hooks
    from trikubelet.pods.making_paces import MakingPaces
    from trikubelet.pods.start_context import StartContext
    from trikubelet.pods.stop import PodKiller
    from trikubelet.pods.waiting_reasons import WaitingReasons
    from trikubelet.ports import Events, ImagePuller

log = logging.getLogger(__name__)

FAILED_START_SHOWN_SECONDS: Final = 10.0


class ContainerStarter:
    """Starts containers. Owns no state."""

    def __init__(
        self,
        *,
        images: ImagePuller,
        creator: ContainerCreator,
        hooks: Hooks,
        killer: PodKiller,
        reasons: WaitingReasons,
        backoffs: CrashBackoffs,
        paces: MakingPaces,
        events: Events,
        figures: PodFigures,
    ) -> None:
        self._images = images
        self._creator = creator
        self._hooks = hooks
        self._killer = killer
        self._reasons = reasons
        self._backoffs = backoffs
        self._paces = paces
        self._events = events
        self._figures = figures

    async def start(self, context: StartContext, start: Start) -> None:
        """Create and start one container. Raises PodSyncError; RetryAt while backing off."""
        pod, container = context.pod, start.container
        with self._noted(pod, container):
            if not start.is_asked:
                self._confirm_no_back_off(pod, container, context.observed)
                self._confirm_pace(context, container)
                self._count(pod, container, context.observed)
            with self._counted(pod, container):
                images = await self._image_volumes(pod, container, context.config)
                image = await self._images.ensure(pod, container, context.config)
                context = replace(context, volumes={**context.volumes, **images})
                created = await self._creator.create(context, start, image)
                await self._run_hook(Hooked(pod, container, created.id, context.sandbox.ips), created.attempt)

    def back_offs(self, pod: Pod, observed: PodObservation, causes: Collection[str]) -> list[RetryAt]:
        """Return the back-offs under way among these containers, whose ends make the pod start over."""
        waits = []
        for container in all_containers(pod):
            if container.name in causes:
                try:
                    with self._noted(pod, container):
                        self._confirm_no_back_off(pod, container, observed)
                except RetryAt as wait:
                    waits.append(wait)
        return waits

    def taken_away(self, pod: Pod, names: Collection[str]) -> None:
        """Drop the reasons why these containers waited: now they wait for their pod to start over. They did exist, so
        their absence must not delay their next creation."""
        self._paces.start_over(pod)
        for name in names:
            self._reasons.note_gone(pod.metadata.uid, name)

    def let_go(self, pod: Pod, observed: PodObservation, cause: str) -> None:
        """Count the removal of that container: after its next end it waits longer."""
        container = next(one for one in all_containers(pod) if one.name == cause)
        self._paces.start_over(pod)
        if ends := _ends(observed, cause):
            self._backoffs.let_go(pod, container, ends[0].finished_at)

    def note_wait(self, pod: Pod, wait: PodSyncError | None) -> None:
        """Record that all containers of the pod, of which nothing was made, wait for devices, or no longer do. Other
        reasons stay."""
        uid = pod.metadata.uid
        for container in all_containers(pod):
            if wait is not None:
                self._reasons.note(uid, container.name, wait.reason, wait.message)
            elif self._reasons.of(uid).get(container.name, NOT_THERE)[0] in (AWAITS_PLUGIN, UNEXPECTED):
                self._reasons.note_gone(uid, container.name)

    def forget(self, uid: str) -> None:
        """Forget this instance of the pod: none of its containers waits or backs off."""
        self._reasons.forget(uid)
        self._backoffs.forget(uid)

    @contextmanager
    def _noted(self, pod: Pod, container: Container) -> Iterator[None]:
        """Record a failure in the block as the container's waiting reason; drop the reason after a success."""
        try:
            yield
        except PodSyncError as error:
            self._reasons.note(pod.metadata.uid, container.name, error.reason, error.message)
            raise
        self._reasons.note_gone(pod.metadata.uid, container.name)

    @contextmanager
    def _counted(self, pod: Pod, container: Container) -> Iterator[None]:
        """Count the attempt to start in the block, and its failure; a container that backs off is not counted."""
        kind = container_kind(pod, container.name)
        self._figures.started[kind] += 1
        try:
            yield
        except PodSyncError as error:
            self._figures.start_failures[kind, error.reason] += 1
            raise

    async def _run_hook(self, of: Hooked, attempt: int) -> None:
        """Run the postStart hook; the next container is started after it. If it fails, the container is stopped before
        the PodSyncError is raised."""
        try:
            await self._hooks.post_start(of)
        except PodSyncError:
            running = ContainerStatus(of.id, of.container.name, attempt, ContainerState.RUNNING, 0)
            try:
                # The reason is used as the message here: users know the Killing event by it.
                kill = Kill(running, KillReason.POST_START, "FailedPostStartHook")
                await self._killer.stop_some(of.pod, (kill,), of.ips)
            except RuntimeCallError as error:
                log.warning(
                    "Pod %s: %s runs on after its hook failed: %s", object_ref(of.pod), of.container.name, error
                )
            raise

    async def _image_volumes(self, pod: Pod, container: Container, config: SandboxConfig) -> dict[str, str]:
        """Return the images that the container mounts, by the names of their volumes. Failures keep the container
        waiting, with the same reasons as for its own image. Like upstream, they are pulled before it, and their events
        are the pod's."""
        mounted = {mount.name for mount in container.volume_mounts}
        found = {}
        for volume in pod.spec.volumes:
            if volume.image is not None and volume.name in mounted:
                source = volume.image
                asked = msgspec.structs.replace(container, image=source.reference, image_pull_policy=source.pull_policy)
                self._figures.image_volumes += 1
                try:
                    found[volume.name] = (await self._images.ensure(pod, asked, config, object_ref(pod))).id
                except PodSyncError:
                    self._figures.image_volume_failures += 1
                    raise
        return found

    def _count(self, pod: Pod, container: Container, observed: PodObservation) -> None:
        """Count a restart: the next time it waits longer."""
        if ends := _ends(observed, container.name):
            self._backoffs.count(pod, container, ends[0].finished_at)
        else:
            self._backoffs.started_over(pod, container)

    def _confirm_pace(self, context: StartContext, container: Container) -> None:
        """Delay a container that was recently created again and again without running; it shows the failure of the last
        start as its waiting reason. Raises RetryAt."""
        pod, name = context.pod, container.name
        latest = context.observed.latest(name)
        if latest is not None and latest.state in (ContainerState.RUNNING, ContainerState.EXITED):
            return  # its back-off applies instead
        because = self._reasons.of(pod.metadata.uid).get(name, NOT_THERE)
        self._paces.confirm_container(pod, container, context.sandbox.id, because)

    def _confirm_no_back_off(self, pod: Pod, container: Container, observed: PodObservation) -> None:
        """Delay a container that just ended. Raises RetryAt."""
        if not (ends := _ends(observed, container.name)):
            return
        self._backoffs.recall(pod, container, ends)
        wait = self._backoffs.left(pod, container, ends[0].finished_at)
        if wait is not None:
            name, meta = container.name, pod.metadata
            whose = f"pod={meta.name}_{meta.namespace}({meta.uid})"
            text = f"back-off {format_duration(wait.seconds)} restarting failed container={name} {whose}"
            event = f"Back-off restarting failed container {name} in pod {meta.name}_{meta.namespace}({meta.uid})"
            self._events.record(object_ref(pod, name), "Warning", "BackOff", event)
            self._show_failed_start(pod, name, wait)
            raise RetryAt(CRASH_LOOP_BACK_OFF, text, trio.current_time() + wait.left_seconds, name)

    def _show_failed_start(self, pod: Pod, name: str, wait: Wait) -> None:
        """Show for a while why the last start failed, before the back-off is shown: for as long as upstream's kubelet
        shows it. Raises RetryAt."""
        reason, message = self._reasons.of(pod.metadata.uid).get(name, NOT_THERE)
        shown_for = FAILED_START_SHOWN_SECONDS - (wait.seconds - wait.left_seconds)
        if reason == RUN_CONTAINER_ERROR and shown_for > 0:
            raise RetryAt(reason, message, trio.current_time() + min(shown_for, wait.left_seconds), name)


def _ends(observed: PodObservation, name: str) -> list[ContainerStatus]:
    """Return the container's ends, the newest first. If it was killed in this very sync, for a probe, the end before
    that counts, like upstream."""
    return [one for one in observed.history(name) if one.state is ContainerState.EXITED]
