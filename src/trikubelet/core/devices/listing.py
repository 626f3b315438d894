"""The devices of pods and of the node, as the pod resources API lists them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trikubelet.core.restarts import is_sidecar
from trikubelet.model.devices import Holder
from trikubelet.model.pod_resources import ContainerResources, DeviceGroup, PodResources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from trikubelet.model import k8s
    from trikubelet.model.devices import Held, Resource


def pod_resources(pods: Iterable[k8s.Pod], holdings: Mapping[Holder, Held]) -> list[PodResources]:
    """Return the devices of each pod: of its sidecars, then of its regular containers. Other init containers are left
    out, like upstream: they have ended when the pod runs."""
    resources = sorted({holder.resource for holder in holdings})

    def of(uid: str, container: str) -> Iterator[DeviceGroup]:
        for resource in resources:
            if (held := holdings.get(Holder(uid, container, resource))) is not None:
                yield from _groups(resource, held.devices)

    found = []
    for pod in pods:
        meta = pod.metadata
        lasting = (*(one for one in pod.spec.init_containers if is_sidecar(one)), *pod.spec.containers)
        containers = (ContainerResources(one.name, tuple(of(meta.uid, one.name))) for one in lasting)
        found.append(PodResources(meta.name, meta.namespace, tuple(containers)))
    return found


def allocatable_devices(inventory: Mapping[str, Resource]) -> list[DeviceGroup]:
    """Return the healthy devices of the node, used ones as well."""
    return [
        group
        for name, resource in sorted(inventory.items())
        for group in _groups(name, {one.id: one.numa_nodes for one in resource.devices.values() if one.is_healthy})
    ]


def _groups(resource: str, devices: Mapping[str, AbstractSet[int]]) -> Iterator[DeviceGroup]:
    by_nodes: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for name, nodes in sorted(devices.items()):
        by_nodes[tuple(sorted(nodes))].append(name)
    for key, ids in sorted(by_nodes.items()):
        yield DeviceGroup(resource, tuple(ids), key)
