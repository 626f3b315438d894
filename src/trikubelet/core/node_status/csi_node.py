"""A node's CSI drivers in the API server: the CSINode object, an annotation and topology labels of the node.

Registered drivers are added, and drivers that were unregistered are removed. An earlier agent's drivers stay until one
of both is known: a driver that has not registered yet was not removed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.model import k8s
from trikubelet.model.api import CSI_NODES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from trikubelet.model.csi import DriverInfo

NODE_IDS: Final = "csi.volume.kubernetes.io/nodeid"
"""The annotation with the node's ids by driver."""


def csi_node(
    there: k8s.CSINode | None, node: k8s.Node, drivers: Mapping[str, DriverInfo], gone: Collection[str]
) -> Iterator[k8s.CSINode]:
    """Yield the objects to write, one after another; none if all is published. Only the number of volumes can be
    changed in a driver's entry; for other changes the entry is removed first."""
    before = there.spec.drivers if there is not None else ()
    wanted = {name: _entry(name, info) for name, info in drivers.items()}
    kept = [one for one in before if one.name not in gone and one.name not in wanted]
    after = (*kept, *(wanted[name] for name in sorted(wanted)))
    owner = k8s.OwnerReference(api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid)
    base = there or k8s.CSINode(
        api_version=CSI_NODES.api_version,
        kind=CSI_NODES.kind,
        metadata=k8s.ObjectMeta(name=node.metadata.name),
        spec=k8s.CSINodeSpec(),
    )
    desired = msgspec.structs.replace(
        base,
        metadata=msgspec.structs.replace(base.metadata, owner_references=(owner,)),
        spec=k8s.CSINodeSpec(drivers=after),
    )
    clashes = {one.name for one in before if one.name in wanted and _fixed(one) != _fixed(wanted[one.name])}
    if clashes:
        left = tuple(one for one in before if one.name not in clashes)
        yield msgspec.structs.replace(desired, spec=k8s.CSINodeSpec(drivers=left))
    if there is None or _compared(there) != _compared(desired):
        yield desired


def node_patch(node: k8s.Node, drivers: Mapping[str, DriverInfo], gone: Collection[str]) -> Mapping[str, object] | None:
    """Return the merge patch for the node; None if it needs none. An existing label with another value belongs to
    another driver or to an administrator, and stays (upstream rejects the driver then)."""
    before = _ids(node)
    after = {name: id_ for name, id_ in before.items() if name not in gone}
    after |= {name: info.node_id for name, info in drivers.items()}
    labels = {
        key: value
        for info in drivers.values()
        for key, value in info.topology.items()
        if key not in node.metadata.labels
    }
    metadata: dict[str, object] = {}
    if after != before:
        ids = json.dumps(after, sort_keys=True, separators=(",", ":")) if after else None
        metadata["annotations"] = {NODE_IDS: ids}
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata} if metadata else None


def _ids(node: k8s.Node) -> dict[str, str]:
    """Return the ids in the annotation; empty if it is unreadable."""
    try:
        found = msgspec.json.decode(node.metadata.annotations.get(NODE_IDS, "{}"), type=dict[str, str])
    except msgspec.DecodeError:
        return {}
    return found


def _entry(name: str, info: DriverInfo) -> k8s.CSINodeDriver:
    limit = k8s.VolumeNodeResources(count=info.volumes_max) if info.volumes_max else None
    return k8s.CSINodeDriver(
        name=name, node_id=info.node_id, topology_keys=tuple(sorted(info.topology)), allocatable=limit
    )


def _fixed(entry: k8s.CSINodeDriver) -> tuple[str, tuple[str, ...]]:
    return entry.node_id, tuple(sorted(entry.topology_keys))


def _compared(there: k8s.CSINode) -> tuple[object, object]:
    return there.metadata.owner_references, {one.name: one for one in there.spec.drivers}
