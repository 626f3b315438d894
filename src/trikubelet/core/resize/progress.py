"""How far a resize is that was granted: which containers have other amounts than they are allocated, and the pod.

What ended or was never made has nothing to be resized: it gets its new amounts when it is made. Of a container that was
made before anybody noted with what (by an older agent) the runtime is asked, as far as it reports that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from trikubelet.core.resize.allocation import same
from trikubelet.core.resize.amounts import RESIZABLE, Amounts, is_held_to, reported_amounts, wanted
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trikubelet.core.resize.allocation import Allocation
    from trikubelet.model.runtime import ContainerStatus, PodObservation

RESTART = "RestartContainer"


class Resize(NamedTuple):
    """A container that runs with other amounts than it is allocated. ``held`` is None where nobody knows them."""

    container: k8s.Container
    status: ContainerStatus
    held: Amounts | None
    wanted: Amounts

    @property
    def needs_restart(self) -> bool:
        """Whether the container's policy wants it to be recreated for what changes."""
        if self.held is None:
            return False
        policies = {one.resource_name: one.restart_policy for one in self.container.resize_policy}
        return any(policies.get(name) == RESTART for name in self.changed)

    @property
    def changed(self) -> tuple[str, ...]:
        """The resources that change."""
        if self.held is None:
            return RESIZABLE
        old, new = self.held, self.wanted
        cpu = (old.cpu_request, old.cpu_limit) != (new.cpu_request, new.cpu_limit)
        memory = (old.memory_request, old.memory_limit) != (new.memory_request, new.memory_limit)
        return tuple(name for name, is_changed in zip(RESIZABLE, (cpu, memory), strict=True) if is_changed)

    @property
    def has(self) -> Amounts:
        """What it has, as far as anybody knows: where nobody noted it, what the runtime reports. What neither says
        (a request of memory) counts as it shall be."""
        if self.held is not None:
            return self.held
        reported = self.status.resources
        return (
            self.wanted
            if reported is None
            else reported_amounts(reported)._replace(memory_request=self.wanted.memory_request)
        )

    @property
    def shrinks(self) -> bool:
        """Whether nothing grows, so that others may have what it gives up."""
        return self.held is not None and all(new <= old for new, old in zip(self.wanted, self.held, strict=True))

    @property
    def memory_limit_shrinks(self) -> bool:
        """Whether it may have less memory than before, or is limited for the first time."""
        new, old = self.wanted.memory_limit, self.held.memory_limit if self.held is not None else 0
        return bool(new) and (not old or new < old)


def held_amounts(status: ContainerStatus, allocation: Allocation) -> Amounts | None:
    """What the container was made with, or was changed to since; None where nobody noted it."""
    made = allocation.made.get(status.name)
    return made.amounts if made is not None and made.attempt == status.attempt else None


def resizes(pod: k8s.Pod, observed: PodObservation, allocation: Allocation) -> tuple[Resize, ...]:
    """The containers that run with other amounts than the pod, as it is allocated, gives them; in the spec's order."""
    found = []
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        status = observed.latest(container.name)
        if status is None or status.state is not ContainerState.RUNNING:
            continue
        should, held = wanted(pod, container), held_amounts(status, allocation)
        if held != should and (held is not None or not is_held_to(should, status.resources)):
            found.append(Resize(container, status, held, should))
    return tuple(found)


def unnoted(
    pod: k8s.Pod, observed: PodObservation, allocation: Allocation
) -> Iterator[tuple[ContainerStatus, Amounts]]:
    """The containers that run with what the pod, as it is allocated, gives them, as far as their runtime reports, and
    of which nobody noted it."""
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        status = observed.latest(container.name)
        if status is None or status.state is not ContainerState.RUNNING or _is_replaced(status, allocation):
            continue
        if held_amounts(status, allocation) is None:
            should = wanted(pod, container)
            if is_held_to(should, status.resources):
                yield status, should


def is_under_way(pod: k8s.Pod, observed: PodObservation, allocation: Allocation, *, before: bool) -> bool:
    """Whether something of the pod, as it is allocated, has other amounts than it should have. ``before``: whether a
    resize was reported to be under way when it was last looked at."""
    if not observed.running:
        return False
    if before and any(_is_replaced(status, allocation) for status in observed.running):
        return True  # seen before it was recreated, for the resize or otherwise: what took its place is not seen yet
    return bool(resizes(pod, observed, allocation)) or is_pods_own_under_way(allocation)


def _is_replaced(status: ContainerStatus, allocation: Allocation) -> bool:
    """Whether a later attempt of the container than this one was noted."""
    made = allocation.made.get(status.name)
    return made is not None and made.attempt > status.attempt


def is_pods_own_under_way(allocation: Allocation) -> bool:
    """Whether the pod's cgroup has other amounts of the pod's own than are allocated."""
    return allocation.pod is not None and not same(allocation.pod, allocation.pod_made)


def as_made(pod: k8s.Pod, under_way: Iterable[Resize], allocation: Allocation) -> k8s.Pod:
    """The pod with the amounts its containers have in place of those they are allocated, and with its own."""
    held = {one.container.name: one.has for one in under_way}

    def made(containers: Iterable[k8s.Container]) -> tuple[k8s.Container, ...]:
        return tuple(
            replace(one, resources=with_amounts(one.resources, held[one.name])) if one.name in held else one
            for one in containers
        )

    spec = replace(
        pod.spec,
        containers=made(pod.spec.containers),
        init_containers=made(pod.spec.init_containers),
        resources=allocation.pod_made if allocation.pod is not None else pod.spec.resources,
    )
    return replace(pod, spec=spec)


def with_amounts(resources: k8s.ResourceRequirements | None, amounts: Amounts) -> k8s.ResourceRequirements:
    """The resources with these amounts of processor time and memory; 0 is not stated."""
    stated = resources or k8s.ResourceRequirements()
    numbers = {
        "requests": {"cpu": f"{amounts.cpu_request}m", "memory": str(amounts.memory_request)},
        "limits": {"cpu": f"{amounts.cpu_limit}m", "memory": str(amounts.memory_limit)},
    }
    kept = {
        kind: {name: amount for name, amount in getattr(stated, kind).items() if name not in RESIZABLE}
        for kind in numbers
    }
    return replace(
        stated,
        requests={**kept["requests"], **{n: a for n, a in numbers["requests"].items() if a not in ("0", "0m")}},
        limits={**kept["limits"], **{n: a for n, a in numbers["limits"].items() if a not in ("0", "0m")}},
    )
