"""Decides about a resize: granted, deferred or infeasible, and in which order.

A shortage of the node may end, so nearly everything is *Deferred*, like upstream; the API server rejects a resize above
the capacity of the whole node. *Infeasible* are changes that never work: of the memory of a container that may swap,
because its share of the swap cannot be changed while it runs; and of the pod's class and of resources other than CPU
and memory. The API server rejects the latter; a manifest that gives its UID may have been edited so while no agent ran.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from trikubelet.core.containers.memory import swap_bytes
from trikubelet.core.qos import GUARANTEED, qos_class
from trikubelet.core.resize.allocation import asks_for_more, same
from trikubelet.core.resize.amounts import RESIZABLE, wanted
from trikubelet.core.resize.progress import RESTART

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.core.containers import NodeFacts
    from trikubelet.model.k8s import Container, Pod, ResourceRequirements

DEFERRED: Final = "Deferred"
INFEASIBLE: Final = "Infeasible"


class Infeasible(NamedTuple):
    """Why a resize is infeasible: one word for metrics (upstream's, if it has one), and a message."""

    detail: str
    message: str


SWAPS: Final = Infeasible("swap_limitation", "In-place resize of containers with swap is not supported.")


class Pending(NamedTuple):
    """A resize that the node has not granted: the condition's reason and message, and the generation of its spec."""

    reason: str
    message: str
    generation: int


class Waiting(NamedTuple):
    """A pod whose resize waits: with its spec, as it is allocated, and since when (RFC 3339), "" for a new one."""

    pod: Pod
    allocated: Pod
    since: str = ""


def infeasible_reason(pod: Pod, allocated: Pod, facts: NodeFacts) -> Infeasible | None:
    """Return why the node will never grant the resize; None if it may."""
    old, new = qos_class(allocated), qos_class(pod)
    if old != new:
        return Infeasible("qos_class", f"A pod that is {old} cannot be made {new} in place: it must be recreated.")
    if name := _unresizable(pod, allocated):
        return Infeasible("unresizable_resource", f"Only cpu and memory can be resized in place, and {name} differs.")
    return SWAPS if facts.memory.swap_controlled and _may_not_for_swap(pod, allocated, facts) else None


def _unresizable(pod: Pod, allocated: Pod) -> str:
    """Return the resource that differs from the allocated one although no resize can change it; "" if there is none."""
    if not _same_beside(pod.spec.resources, allocated.spec.resources):
        return "another resource of the pod's own"
    for one, old in _pairs(pod, allocated):
        if not _same_beside(one.resources, old.resources):
            return f'another resource of container "{one.name}"'
    return ""


def _same_beside(one: ResourceRequirements | None, other: ResourceRequirements | None) -> bool:
    return same(_beside(one), _beside(other))


def _beside(stated: ResourceRequirements | None) -> ResourceRequirements | None:
    """Return the resources without those that a resize may change."""
    if stated is None:
        return None
    limits, requests = (
        {name: amount for name, amount in of.items() if name not in RESIZABLE}
        for of in (stated.limits, stated.requests)
    )
    return replace(stated, limits=limits, requests=requests)


def _may_not_for_swap(pod: Pod, allocated: Pod, facts: NodeFacts) -> bool:
    return any(
        wanted(pod, one).memory_request != wanted(allocated, old).memory_request
        and not _restarts_for_memory(old)
        and (swap_bytes(pod, one, facts) or swap_bytes(allocated, old, facts))
        for one, old in _pairs(pod, allocated)
    )


def _pairs(pod: Pod, allocated: Pod) -> Iterator[tuple[Container, Container]]:
    """Yield the pod's containers, each with itself as it is allocated."""
    before = {one.name: one for one in (*allocated.spec.init_containers, *allocated.spec.containers)}
    for one in (*pod.spec.init_containers, *pod.spec.containers):
        if one.name in before:
            yield one, before[one.name]


def turn(one: Waiting) -> tuple[bool, int, bool, bool, str]:
    """Return the sort key for waiting resizes: those that free resources come first, then the pods of higher priority,
    then Guaranteed ones, then the longest waiting."""
    return (
        asks_for_more(one.pod, one.allocated),
        -(one.pod.spec.priority or 0),
        qos_class(one.pod) != GUARANTEED,
        one.since == "",
        one.since,
    )


def _restarts_for_memory(container: Container) -> bool:
    return any(one.resource_name == "memory" and one.restart_policy == RESTART for one in container.resize_policy)
