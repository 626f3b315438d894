"""Compares a pod's requests with the free resources of the node.

Requests count, not usage: the requests of the node's pods are taken, whether they use them or not. Extended resources
(devices and the like) that the node does not list are skipped, because their plugin may not have registered yet. So are
those whose devices the node gives out one by one, because those it has given out are not free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.names import all_containers
from trikubelet.core.requests import counted, requests
from trikubelet.model import quantity
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from trikubelet.core.admission.pod_info import PodInfo
    from trikubelet.core.containers import NodeFacts
    from trikubelet.model import k8s

PODS: Final = "pods"
"""The resource of which every pod takes one."""
_FIRST: Final = ("cpu", "memory", "ephemeral-storage")


class Shortage(Frozen):
    """A resource of which too little is left; amounts in millicores, bytes or pieces."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        """The amount that would have to be freed."""
        return self.requested - (self.capacity - self.used)


def shortages(
    pod: k8s.Pod,
    others: Sequence[PodInfo],
    node: k8s.Node | None,
    facts: NodeFacts,
    given_out: Collection[str] = (),
) -> Iterator[Shortage]:
    """Yield every resource of which too little is left for the pod next to the others; nothing if the node's amounts
    are unknown. ``given_out``: the resources whose devices are given out (``core.devices``). Raises ValueError for an
    invalid amount of the pod's own; the machine's amounts replace invalid ones of the node."""
    there = _allocatable(node) or facts.allocatable
    if not there:
        return
    if PODS in there and len(others) + 1 > there[PODS]:
        yield Shortage(PODS, 1, len(others), there[PODS])
    asked = requests(pod)
    for name in sorted(asked, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)):
        taken = sum(other.promised.get(name, 0) for other in others)
        if name in given_out or (name not in there and _is_extended(name)):
            continue
        if asked[name] > there.get(name, 0) - taken:
            yield Shortage(name, asked[name], taken, there.get(name, 0))


def unlisted(pod: k8s.Pod, node: k8s.Node | None) -> frozenset[str]:
    """Return the extended resources among the limits of the pod's containers that the node's object does not have."""
    asked = {name for one in all_containers(pod) if one.resources is not None for name in one.resources.limits}
    return frozenset(name for name in asked - _allocatable(node).keys() if _is_extended(name))


def _allocatable(node: k8s.Node | None) -> Mapping[str, int]:
    """Return the amounts of the node's object; empty if they cannot be read."""
    amounts = node.status.allocatable if node is not None and node.status is not None else {}
    try:
        return {name: counted(name, quantity.parse(amount)) for name, amount in amounts.items()}
    except ValueError:
        return {}


def _is_extended(name: str) -> bool:
    """True if the resource is neither Kubernetes' own nor the node's, such as a vendor's devices."""
    return "/" in name and "kubernetes.io/" not in name
