"""The resources of containers as the pod resources API reports them, without the transport."""

from __future__ import annotations

from trikubelet.model.frozen import Frozen


class DeviceGroup(Frozen):
    """Devices of one resource, by id, that are close to the same NUMA nodes; ``numa_nodes`` is empty if their plugin
    named none."""

    resource: str
    ids: tuple[str, ...]
    numa_nodes: tuple[int, ...] = ()


class ContainerResources(Frozen):
    """The devices of one container."""

    name: str
    devices: tuple[DeviceGroup, ...] = ()


class PodResources(Frozen):
    """The devices of a pod's containers."""

    name: str
    namespace: str
    containers: tuple[ContainerResources, ...] = ()
