"""The allocated resources of a pod: those it was admitted with, or those of the last resize that the node granted.

Everything on the node uses them (sums, cgroups, new containers, the downward API), whatever the present spec. They are
kept over restarts of the agent, because otherwise a resize that was requested while none ran would go unnoticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from trikubelet.core.requests import promised
from trikubelet.core.resize.amounts import RESIZABLE, Amounts
from trikubelet.model import k8s, quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NOTHING = k8s.ResourceRequirements()


class Made(msgspec.Struct, frozen=True):
    """The amounts that the container of that ``attempt`` was created with, or changed to since."""

    attempt: int
    amounts: Amounts


class Allocation(msgspec.Struct, frozen=True):
    """A pod's allocated resources: its containers' by name, its own, and the ``generation`` of the spec they are from.
    ``made``: the actual amounts, by container; ``pod_made``: the pod's own resources in its cgroup."""

    generation: int
    containers: dict[str, k8s.ResourceRequirements]
    pod: k8s.ResourceRequirements | None = None
    made: dict[str, Made] = {}
    pod_made: k8s.ResourceRequirements | None = None


def allocation_of(pod: k8s.Pod, before: Allocation | None = None) -> Allocation:
    """Return the resources of the pod's own spec as its allocation; ``before``: the one it replaces."""
    return Allocation(
        generation=pod.metadata.generation or 0,
        containers={one.name: one.resources or NOTHING for one in (*pod.spec.init_containers, *pod.spec.containers)},
        pod=pod.spec.resources,
        made=before.made if before is not None else {},
        pod_made=before.pod_made if before is not None else pod.spec.resources,
    )


def as_allocated(pod: k8s.Pod, allocation: Allocation) -> k8s.Pod:
    """Return the pod with its allocated resources in place of the spec's; the same pod if both are equal."""
    own = pod.spec.resources
    if not same(own, allocation.pod):
        own = allocation.pod
    init = _allocated(pod.spec.init_containers, allocation)
    regular = _allocated(pod.spec.containers, allocation)
    if own is pod.spec.resources and init is pod.spec.init_containers and regular is pod.spec.containers:
        return pod
    return replace(pod, spec=replace(pod.spec, resources=own, init_containers=init, containers=regular))


def same(one: k8s.ResourceRequirements | None, other: k8s.ResourceRequirements | None) -> bool:
    """True if two are equal, in whatever notation."""
    one, other = one or NOTHING, other or NOTHING
    return one == other or (
        one.claims == other.claims
        and _exact(one.limits) == _exact(other.limits)
        and _exact(one.requests) == _exact(other.requests)
    )


def asks_for_more(pod: k8s.Pod, allocated: k8s.Pod) -> bool:
    """True if the pod requests more CPU or memory than it is allocated."""
    asked, given = promised(pod), promised(allocated)
    return any(asked.get(name, 0) > given.get(name, 0) for name in RESIZABLE)


def written(allocation: Allocation) -> bytes:
    """Return the content of the file that keeps it."""
    return msgspec.json.encode(allocation)


def read(content: bytes) -> Allocation:
    """Return the allocation in a file. Raises ValueError."""
    return msgspec.json.decode(content, type=Allocation)  # whose errors are ValueErrors


def _allocated(containers: tuple[k8s.Container, ...], allocation: Allocation) -> tuple[k8s.Container, ...]:
    found = [(one, allocation.containers.get(one.name, one.resources)) for one in containers]
    if all(same(one.resources, held) for one, held in found):
        return containers
    return tuple(one if same(one.resources, held) else replace(one, resources=held) for one, held in found)


def _exact(amounts: Mapping[str, k8s.Quantity]) -> dict[str, object]:
    return dict(_each(amounts.items()))


def _each(amounts: Iterable[tuple[str, k8s.Quantity]]) -> Iterable[tuple[str, object]]:
    for name, amount in amounts:
        try:
            yield name, quantity.parse(amount)
        except ValueError:
            yield name, amount
