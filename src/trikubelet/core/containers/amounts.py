"""Sums of a pod's requests and limits, for its cgroup, its OOM scores and its fit on a node.

If a pod states its own resources, they count. Otherwise regular containers and sidecars count together, and each init
container, which runs with the sidecars begun before it, counts alone if it needs more (upstream: resource.PodRequests).
The pod's overhead is added. A container's limit without a request is its request too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from trikubelet.core.names import all_containers
from trikubelet.core.restarts import is_sidecar
from trikubelet.model import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from trikubelet.model.k8s import Container, Pod, ResourceRequirements

Kind = Literal["requests", "limits"]


def amount(amounts: Mapping[str, str | int | float], resource: str) -> int:
    """Return one amount in millicores (``cpu``) or whole units, rounded up; 0 if it is not stated."""
    if resource not in amounts:
        return 0
    return quantity.milli(amounts[resource]) if resource == "cpu" else quantity.whole(amounts[resource])


def of(resources: ResourceRequirements | None, kind: Kind, resource: str) -> int:
    """Return a request or a limit of a container or of a pod's own resources; the limit for an unstated request."""
    if resources is None:
        return 0
    if kind == "requests" and resource in resources.requests:
        return amount(resources.requests, resource)
    return amount(resources.limits, resource)


def of_container(container: Container, kind: Kind, resource: str) -> int:
    """Return a container's request or limit."""
    return of(container.resources, kind, resource)


def limit_of(pod: Pod, container: Container, resource: str) -> int:
    """Return the limit in force for a container: its own, or else the whole pod's; 0 if neither is stated."""
    return of_container(container, "limits", resource) or of(pod.spec.resources, "limits", resource)


def of_pod(pod: Pod, kind: Kind, resource: str) -> int:
    """Return the pod's request or limit with its overhead. A limit of 0 means that nothing limits the whole pod: a
    container without a limit leaves the pod without one."""
    stated = of(pod.spec.resources, kind, resource)
    if stated == 0 and kind == "limits" and not all_limited(pod, resource):
        return 0
    together = stated or of_containers(pod, kind, resource)
    return together + amount(pod.spec.overhead, resource) if together or kind == "requests" else 0


def all_limited(pod: Pod, resource: str) -> bool:
    """True if every container of the pod, init containers too, has a limit of that resource."""
    return all(of_container(container, "limits", resource) for container in all_containers(pod))


def limited(pod: Pod) -> Set[str]:
    """Return the resources for which the pod, or any container of it, states a limit."""
    stated = (pod.spec.resources, *(container.resources for container in all_containers(pod)))
    return {resource for one in stated if one is not None for resource in one.limits}


def of_containers(pod: Pod, kind: Kind, resource: str) -> int:
    """Return the sum of the containers' requests or limits, or the peak during initialisation if that is more."""
    sidecars = peak = 0
    for container in pod.spec.init_containers:
        own = of_container(container, kind, resource)
        if is_sidecar(container):
            sidecars += own
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + own)
    return max(peak, sidecars + sum(of_container(c, kind, resource) for c in pod.spec.containers))
