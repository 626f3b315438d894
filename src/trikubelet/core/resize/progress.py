"""The progress of a granted resize: containers whose amounts differ from their allocated ones, and the pod's own.

Containers that ended or were never created need no resize: they get the new amounts when they are created. For a
container without a record of its amounts (created by an older agent) the runtime's report counts, as far as it goes.
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
    """A container that runs with other amounts than it is allocated. ``held`` is None if they are unknown."""

    container: k8s.Container
    status: ContainerStatus
    held: Amounts | None
    wanted: Amounts

    @property
    def needs_restart(self) -> bool:
        """True if the container's policy requires a restart for these changes."""
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
        """The container's amounts, as far as known: the recorded ones, or else those that the runtime reports. An
        unreported amount (the memory request) counts as the desired one."""
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
        """True if no amount grows, so that resources are freed."""
        return self.held is not None and all(new <= old for new, old in zip(self.wanted, self.held, strict=True))

    @property
    def memory_limit_shrinks(self) -> bool:
        """True if the memory limit shrinks, or is set for the first time."""
        new, old = self.wanted.memory_limit, self.held.memory_limit if self.held is not None else 0
        return bool(new) and (not old or new < old)


def held_amounts(status: ContainerStatus, allocation: Allocation) -> Amounts | None:
    """Return the recorded amounts of the container, which it was created with or changed to; None without a record."""
    made = allocation.made.get(status.name)
    return made.amounts if made is not None and made.attempt == status.attempt else None


def resizes(pod: k8s.Pod, observed: PodObservation, allocation: Allocation) -> tuple[Resize, ...]:
    """Return the containers that run with other amounts than the pod, as it is allocated, gives them; in the spec's
    order."""
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
    """Yield the containers without a record whose runtime reports the amounts that the pod, as it is allocated, gives
    them."""
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        status = observed.latest(container.name)
        if status is None or status.state is not ContainerState.RUNNING or _is_replaced(status, allocation):
            continue
        if held_amounts(status, allocation) is None:
            should = wanted(pod, container)
            if is_held_to(should, status.resources):
                yield status, should


def is_under_way(pod: k8s.Pod, observed: PodObservation, allocation: Allocation, *, before: bool) -> bool:
    """True if something of the pod, as it is allocated, does not have its desired amounts. ``before``: a resize was
    reported to be in progress at the last check."""
    if not observed.running:
        return False
    if before and any(_is_replaced(status, allocation) for status in observed.running):
        # observed before it was recreated, for the resize or otherwise; its replacement is not observed yet
        return True
    return bool(resizes(pod, observed, allocation)) or is_pods_own_under_way(allocation)


def _is_replaced(status: ContainerStatus, allocation: Allocation) -> bool:
    """True if a later attempt of the container than this one is recorded."""
    made = allocation.made.get(status.name)
    return made is not None and made.attempt > status.attempt


def is_pods_own_under_way(allocation: Allocation) -> bool:
    """True if the pod's cgroup has other amounts of the pod's own than are allocated."""
    return allocation.pod is not None and not same(allocation.pod, allocation.pod_made)


def as_made(pod: k8s.Pod, under_way: Iterable[Resize], allocation: Allocation) -> k8s.Pod:
    """Return the pod with the actual amounts of its containers in place of the allocated ones, and with its own."""
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
    """Return the resources with these amounts of CPU and memory; 0 is unstated."""
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
