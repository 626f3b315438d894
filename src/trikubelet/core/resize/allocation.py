"""What a pod is allocated: the amounts it was admitted with, or those of the last resize that the node granted.

Everything on the node goes by it (sums, cgroups, new containers, the downward API), whatever the spec says by now. It
is kept over restarts of the agent, for only so a resize can be noticed that was asked for while none was running.
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
    """The amounts that the container of that ``attempt`` was made with, or was changed to since."""

    attempt: int
    amounts: Amounts


class Allocation(msgspec.Struct, frozen=True):
    """What a pod is allocated: its containers' resources by name, its own, and of which ``generation`` of its spec they
    are; and what was made of it. ``made`` is by container; ``pod_made`` are the pod's own as its cgroup has them."""

    generation: int
    containers: dict[str, k8s.ResourceRequirements]
    pod: k8s.ResourceRequirements | None = None
    made: dict[str, Made] = {}
    pod_made: k8s.ResourceRequirements | None = None


def allocation_of(pod: k8s.Pod, before: Allocation | None = None) -> Allocation:
    """The pod's own spec as its allocation; ``before``: the one it takes the place of."""
    return Allocation(
        generation=pod.metadata.generation or 0,
        containers={one.name: one.resources or NOTHING for one in (*pod.spec.init_containers, *pod.spec.containers)},
        pod=pod.spec.resources,
        made=before.made if before is not None else {},
        pod_made=before.pod_made if before is not None else pod.spec.resources,
    )


def as_allocated(pod: k8s.Pod, allocation: Allocation) -> k8s.Pod:
    """The pod with what it is allocated in place of what its spec says; the same pod where both say the same."""
    own = pod.spec.resources
    if not same(own, allocation.pod):
        own = allocation.pod
    init = _allocated(pod.spec.init_containers, allocation)
    regular = _allocated(pod.spec.containers, allocation)
    if own is pod.spec.resources and init is pod.spec.init_containers and regular is pod.spec.containers:
        return pod
    return replace(pod, spec=replace(pod.spec, resources=own, init_containers=init, containers=regular))


def same(one: k8s.ResourceRequirements | None, other: k8s.ResourceRequirements | None) -> bool:
    """Whether two say the same, in whatever way amounts are written."""
    one, other = one or NOTHING, other or NOTHING
    return one == other or (
        one.claims == other.claims
        and _exact(one.limits) == _exact(other.limits)
        and _exact(one.requests) == _exact(other.requests)
    )


def asks_for_more(pod: k8s.Pod, allocated: k8s.Pod) -> bool:
    """Whether the pod asks for more processor time or memory than it is allocated."""
    asked, given = promised(pod), promised(allocated)
    return any(asked.get(name, 0) > given.get(name, 0) for name in RESIZABLE)


def written(allocation: Allocation) -> bytes:
    """As it is kept in a file."""
    return msgspec.json.encode(allocation)


def read(content: bytes) -> Allocation:
    """What is kept in a file. Raises ValueError."""
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
