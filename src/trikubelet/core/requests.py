"""The requests of a pod as a whole, resource by resource, for admission and for its status."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from trikubelet.core.manifest.pod_requests import is_pod_level, together
from trikubelet.core.names import all_containers
from trikubelet.model import quantity

if TYPE_CHECKING:
    from trikubelet.model.k8s import Pod


def requests(pod: Pod) -> dict[str, int]:
    """Return the pod's requests including its overhead, in millicores, bytes or pieces; only resources with a request.
    Raises ValueError for an invalid amount."""
    spec = pod.spec
    own = spec.resources.requests if spec.resources is not None else {}
    names = {name for c in all_containers(pod) if c.resources is not None for name in c.resources.requests}
    found = {}
    for name in {*names, *own, *spec.overhead}:
        exact = quantity.parse(own[name]) if name in own and is_pod_level(name) else together(spec, name)
        exact += quantity.parse(spec.overhead[name]) if name in spec.overhead else Fraction(0)
        found[name] = counted(name, exact)
    return {name: amount for name, amount in found.items() if amount}


def promised(pod: Pod) -> dict[str, int]:
    """Return the requests of a pod that is already on the node; none if they are invalid, so that it blocks no other
    pod."""
    try:
        return requests(pod)
    except ValueError:
        return {}


def counted(resource: str, amount: Fraction) -> int:
    """Return an exact amount in millicores, bytes or pieces, rounded up."""
    return ceil(amount * 1000) if resource == "cpu" else ceil(amount)


def resource_level(pod: Pod) -> str:
    """Return where the pod states its resources, in the words of upstream's metric: ``pod_level``, ``container_level``,
    ``pod_and_container_level``; "" for a pod without any."""
    own = pod.spec.resources
    at_pod = own is not None and any(map(is_pod_level, (*own.requests, *own.limits)))
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    at_container = any(one.resources and (one.resources.requests or one.resources.limits) for one in containers)
    if at_pod:
        return "pod_and_container_level" if at_container else "pod_level"
    return "container_level" if at_container else ""
