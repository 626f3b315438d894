"""Carries out a granted resize: changes running containers to their allocated amounts.

    under_way: find the changes ─► the cgroup suffices for old and new amounts ─► carry_out ─► end: only for the new

The pod's syncs (``pods.pod_syncer``) call this, and do other work of the pod in between. Containers that only shrink
are changed first. Before a memory limit shrinks, the current usage is checked to be below it: the kernel would kill
what does not fit. A failure leaves the rest for the next sync, which starts from the recorded amounts. (upstream:
doPodResizeAction)
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from trikubelet.core.containers.amounts import of_pod
from trikubelet.core.containers.resources import container_resources
from trikubelet.core.names import object_ref
from trikubelet.core.resize.progress import as_made, is_pods_own_under_way, resizes
from trikubelet.kit.settle import settled
from trikubelet.model.errors import ResizeFailed
from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime import HeldResources
from trikubelet.model.runtime_errors import RuntimeCallError
from trikubelet.pods.in_time import in_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.actions import PodActions
    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.resize.progress import Resize
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime import ContainerStatus, PodObservation
    from trikubelet.model.runtime_config import LinuxResources
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.preparation import Preparation
    from trikubelet.pods.resize_notes import ResizeNotes
    from trikubelet.ports import Relister, Runtime

log = logging.getLogger(__name__)


class UnderWay(Frozen):
    """A pod's unfinished resizes. ``containers``: those to be changed while they run; ``before``: the pod with its
    actual amounts, None if there is nothing to do: its cgroup must suffice for that, too, until all is done."""

    containers: tuple[Resize, ...]
    before: Pod | None


class Resizing:
    """Carries resizes out. Owns no state."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        allocations: Allocations,
        notes: ResizeNotes,
        preparation: Preparation,
        relister: Relister,
        facts: NodeFacts,
        bounds: Bounds,
        figures: PodFigures,
    ) -> None:
        self._runtime = runtime
        self._allocations = allocations
        self._notes = notes
        self._preparation = preparation
        self._relister = relister
        self._facts = facts
        self._bounds = bounds
        self._figures = figures

    def as_allocated(self, pod: Pod) -> Pod:
        """Return the pod with its allocated resources in place of the spec's."""
        return self._allocations.as_allocated(pod)

    def under_way(self, pod: Pod, observed: PodObservation) -> UnderWay:
        """Return the changes that were granted to the pod, which has its allocated resources, and are not done yet."""
        held = self._allocations.learned(pod, observed)
        found = resizes(pod, observed, held)
        return UnderWay(found, as_made(pod, found, held) if found or is_pods_own_under_way(held) else None)

    async def carry_out(
        self, pod: Pod, before: Pod, observed: PodObservation, actions: PodActions
    ) -> tuple[PodObservation, ResizeFailed | None]:
        """Change the containers that are changed while they run. Returns the resulting observation and the error, which
        does not keep the rest of the pod from being synced."""
        uid, began = pod.metadata.uid, trio.current_time()
        is_done = False
        try:
            await self._check(pod, before, actions.staying(observed), actions.to_resize)
            observed = await self._change(pod, observed, actions.to_resize)
            is_done = True
        except ResizeFailed as error:
            self._notes.note_error(uid, error.message)
            return observed, error
        finally:
            self._figures.resizes[str(is_done).lower()].add((trio.current_time() - began) * 1000)
            self._relister.request_inspection(uid)
        return observed, None

    async def end(self, pod: Pod) -> None:
        """Reduce the pod to its allocated resources, which all its containers have now. Raises ResizeFailed and
        CgroupFailed."""
        await self._preparation.ensure_cgroup(pod)
        try:
            self._allocations.pods_own_changed(pod)
        except OSError as error:
            raise ResizeFailed("ResizeError", f"cannot write the new amounts: {error}") from error
        self._notes.note_carried_out(pod.metadata.uid)

    def forget(self, uid: str) -> None:
        """Forget this instance of the pod: another one is allocated anew."""
        self._allocations.forget(uid)
        self._notes.forget(uid)

    async def _check(
        self, pod: Pod, before: Pod, staying: Sequence[ContainerStatus], to_resize: Sequence[Resize]
    ) -> None:
        """Raise ResizeFailed if the pod, as it was ``before``, uses more memory than it is allocated now, or one of its
        containers that will be changed does. ``staying``: the containers that run on; recreated ones release all
        memory."""
        limits = {one.status.id: one for one in to_resize if one.memory_limit_shrinks}
        new, old = of_pod(pod, "limits", "memory"), of_pod(before, "limits", "memory")
        pods_own = new if new and (not old or new < old) else 0
        if not limits and not pods_own:
            return
        try:
            with in_time(self._bounds.runtime_call_seconds_max):
                used = {one.id: one.usage.memory_bytes for one in await self._runtime.container_stats()}
        except RuntimeCallError as error:
            raise _failed(f'unable to read memory usage for pod "{object_ref(pod)}": {error}') from error
        problems = [
            _problem(f'container "{one.container.name}"', one.wanted.memory_limit, used.get(id_))
            for id_, one in limits.items()
        ]
        if pods_own:
            whole = sum(used.get(one.id) or 0 for one in staying)
            problems.insert(0, _problem("pod", pods_own, whole))
        if found := [one for one in problems if one]:
            raise _failed(f"cannot decrease memory limits: {', '.join(found)}")

    async def _change(self, pod: Pod, observed: PodObservation, to_resize: Sequence[Resize]) -> PodObservation:
        """Change these containers of the pod, which has its allocated resources; return the resulting observation.
        Raises ResizeFailed at the first that cannot be changed."""
        for one in sorted(to_resize, key=lambda one: not one.shrinks):
            resources = container_resources(pod, one.container, self._facts)
            try:
                async with settled(self._bounds.settle_seconds_max):
                    with in_time(self._bounds.runtime_call_seconds_max):
                        await self._runtime.update_resources(one.status.id, resources)
                self._allocations.changed(pod, one.container.name, one.status.attempt, one.wanted)
            except (OSError, RuntimeCallError) as error:
                raise _failed(f'container "{one.container.name}" cannot be resized: {error}') from error
            log.info("Pod %s: resized container %s", object_ref(pod), one.container.name)
            observed = _seen(observed, one, resources)
        return observed


def _failed(message: str) -> ResizeFailed:
    return ResizeFailed("ResizeError", message)


def _problem(what: str, limit: int, used: int | None) -> str:
    if used is None:
        return f"missing {what} memory usage"
    return f"attempting to set {what} memory limit ({limit}) below current usage ({used})" if used >= limit else ""


def _seen(observed: PodObservation, one: Resize, resources: LinuxResources) -> PodObservation:
    """Return the observation with the accepted amounts in place of the reported ones; it is updated soon."""
    if one.status.resources is None:
        return observed
    held = HeldResources(
        resources.cpu_period_us, resources.cpu_quota_us, resources.cpu_shares, resources.memory_limit_bytes
    )
    changed = tuple(replace(c, resources=held) if c.id == one.status.id else c for c in observed.containers)
    return replace(observed, containers=changed)
