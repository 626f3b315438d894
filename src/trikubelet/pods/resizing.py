"""Carries out a resize that was granted: changes containers that run to what they are allocated.

The caller has made the pod's cgroup large enough for what was and what shall be, and makes it small enough after this.
In between containers are changed, first those that only shrink. Before a limit of memory shrinks it is looked whether
less than that is in use: the kernel would kill what does not fit. What fails leaves the rest for the next attempt,
which begins by what was noted. (upstream: doPodResizeAction)
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from trikubelet.core.containers.amounts import of_pod
from trikubelet.core.containers.resources import container_resources
from trikubelet.core.names import object_ref
from trikubelet.kit.settle import settle
from trikubelet.model.errors import ResizeFailed
from trikubelet.model.runtime import HeldResources
from trikubelet.model.runtime_errors import RuntimeCallError
from trikubelet.pods.in_time import in_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.resize.progress import Resize
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime import ContainerStatus, PodObservation
    from trikubelet.model.runtime_config import LinuxResources
    from trikubelet.pods.allocations import Allocations
    from trikubelet.ports import Runtime

log = logging.getLogger(__name__)


class Resizing:
    """Changes containers as they run. Owns no state."""

    def __init__(self, runtime: Runtime, allocations: Allocations, facts: NodeFacts, bounds: Bounds) -> None:
        self._runtime = runtime
        self._allocations = allocations
        self._facts = facts
        self._bounds = bounds

    async def check(
        self, pod: Pod, before: Pod, staying: Sequence[ContainerStatus], to_resize: Sequence[Resize]
    ) -> None:
        """Raise ResizeFailed where the pod, as it was ``before``, uses more memory than it is allocated now, or one of
        its containers that are to be changed does. ``staying``: those that run on; what is made anew gives all back."""
        limits = {one.status.id: one for one in to_resize if one.memory_limit_shrinks}
        new, old = of_pod(pod, "limits", "memory"), of_pod(before, "limits", "memory")
        pods_own = new if new and (not old or new < old) else 0
        if not limits and not pods_own:
            return
        try:
            call = partial(in_time, self._bounds.runtime_call_seconds_max, self._runtime.container_stats)
            used = {one.id: one.usage.memory_bytes for one in await call()}
        except RuntimeCallError as error:
            raise _failed(f'unable to read memory usage for pod "{object_ref(pod)}": {error}') from error
        troubles = [
            _trouble(f'container "{one.container.name}"', one.wanted.memory_limit, used.get(id_))
            for id_, one in limits.items()
        ]
        if pods_own:
            whole = sum(used.get(one.id) or 0 for one in staying)
            troubles.insert(0, _trouble("pod", pods_own, whole))
        if told := [one for one in troubles if one]:
            raise _failed(f"cannot decrease memory limits: {', '.join(told)}")

    async def perform(self, pod: Pod, observed: PodObservation, to_resize: Sequence[Resize]) -> PodObservation:
        """Change these containers of the pod, which is as it is allocated; the observation as it is then. Raises
        ResizeFailed at the first that cannot be changed."""
        for one in sorted(to_resize, key=lambda one: not one.shrinks):
            resources = container_resources(pod, one.container, self._facts)
            call = partial(self._runtime.update_resources, one.status.id, resources)
            try:
                await settle(
                    self._bounds.settle_seconds_max, partial(in_time, self._bounds.runtime_call_seconds_max, call)
                )
                self._allocations.changed(pod, one.container.name, one.status.attempt, one.wanted)
            except (OSError, RuntimeCallError) as error:
                raise _failed(f'container "{one.container.name}" cannot be resized: {error}') from error
            log.info("Pod %s: resized container %s", object_ref(pod), one.container.name)
            observed = _seen(observed, one, resources)
        return observed


def _failed(message: str) -> ResizeFailed:
    return ResizeFailed("ResizeError", message)


def _trouble(what: str, limit: int, used: int | None) -> str:
    if used is None:
        return f"missing {what} memory usage"
    return f"attempting to set {what} memory limit ({limit}) below current usage ({used})" if used >= limit else ""


def _seen(observed: PodObservation, one: Resize, resources: LinuxResources) -> PodObservation:
    """With what the runtime has just taken in place of what it told before; it is asked again soon."""
    if one.status.resources is None:
        return observed
    held = HeldResources(
        resources.cpu_period_us, resources.cpu_quota_us, resources.cpu_shares, resources.memory_limit_bytes
    )
    changed = tuple(replace(c, resources=held) if c.id == one.status.id else c for c in observed.containers)
    return replace(observed, containers=changed)
