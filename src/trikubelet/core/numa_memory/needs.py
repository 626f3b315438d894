"""The memory and huge pages that a container or a pod gets from NUMA nodes, by its spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.cpus.needs import has_pod_level_resources
from trikubelet.core.names import all_containers
from trikubelet.core.node_status.amounts import HUGE_PAGES, MEMORY
from trikubelet.core.qos import GUARANTEED, qos_class
from trikubelet.core.topology.pod_sum import pod_sum
from trikubelet.model import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trikubelet.model import k8s

Needs = dict[str, int]
"""Bytes by resource, in the order of the resources' names."""


def container_needs(pod: k8s.Pod, container: k8s.Container) -> Needs:
    """Return the needs of a container: none if its pod is not Guaranteed or has resources as a whole. Raises ValueError
    for an amount that is none."""
    resources = container.resources
    if resources is None or has_pod_level_resources(pod) or qos_class(pod) != GUARANTEED:
        return {}
    asked = {**resources.limits, **resources.requests}
    found = {name: quantity.whole(asked[name]) for name in sorted(asked) if name.startswith((MEMORY, HUGE_PAGES))}
    return {name: size for name, size in found.items() if size}


def pod_needs(pod: k8s.Pod) -> Needs:
    """Return the needs of all containers of the pod, at the time when they are largest."""
    needs = {container.name: container_needs(pod, container) for container in all_containers(pod)}
    names = sorted({name for one in needs.values() for name in one})
    return {name: pod_sum(pod, _amount_of(needs, name)) for name in names}


def _amount_of(needs: Mapping[str, Needs], resource: str) -> Callable[[k8s.Container], int]:
    return lambda container: needs[container.name].get(resource, 0)
