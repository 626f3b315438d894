"""Upstream's file of the devices that containers hold, kubelet_internal_checkpoint, as its kubelet writes and reads it.

    {"Data": {"PodDeviceEntries": [{"PodUID", "ContainerName", "ResourceName", "DeviceIDs": {NUMA node or -1: [ids]},
     "AllocResp": base64}], "RegisteredDevices": {resource: [ids]}}, "Checksum": N}

The checksum is FNV-1a (32 bits) over Go's print of the data. Missing values are null there, and ``<nil>`` in the
print.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from trikubelet.core.fnv import fnv1a_32
from trikubelet.core.go_print import go_list, go_map
from trikubelet.model.devices import Held, Holder

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.model.devices import Holdings, Resource

Key = TypeVar("Key", str, int)
Value = TypeVar("Value")

NO_NODE: Final = -1
"""The NUMA node under which a device is listed that is close to none."""


class Checkpoint(NamedTuple):
    """The content of a file: the holdings, and the names of the resources that had a plugin."""

    holdings: Holdings
    resources: frozenset[str]


class _Entry(msgspec.Struct, frozen=True, rename="pascal"):
    pod_uid: str = msgspec.field(name="PodUID")
    container_name: str
    resource_name: str
    device_ids: Mapping[int, Sequence[str] | None] | None = msgspec.field(name="DeviceIDs")
    alloc_resp: bytes | None = None


class _Data(msgspec.Struct, frozen=True, rename="pascal"):
    pod_device_entries: list[_Entry] | None = None
    registered_devices: Mapping[str, Sequence[str] | None] | None = None


class _File(msgspec.Struct, frozen=True, rename="pascal"):
    data: _Data
    checksum: int


def written(holdings: Mapping[Holder, Held], inventory: Mapping[str, Resource]) -> bytes:
    """Return the file of these holdings, and of the healthy devices of each resource."""
    healthy = {
        name: sorted(device.id for device in resource.devices.values() if device.is_healthy)
        for name, resource in sorted(inventory.items())
    }
    data = _Data([_entry(holder, held) for holder, held in sorted(holdings.items(), key=_by_holder)] or None, healthy)
    return msgspec.json.encode(_File(data, _checksum(data)))


def read(content: bytes) -> Checkpoint:
    """Return the content of a file. Raises ValueError for one that is damaged."""
    file = msgspec.json.decode(content, type=_File)  # whose errors are ValueErrors
    if file.checksum != _checksum(file.data):
        raise ValueError("checkpoint is corrupted: its checksum is wrong")
    holdings = {
        Holder(entry.pod_uid, entry.container_name, entry.resource_name): _held(entry)
        for entry in file.data.pod_device_entries or ()
    }
    return Checkpoint(holdings, frozenset(file.data.registered_devices or ()))


def _by_holder(item: tuple[Holder, Held]) -> Holder:
    return item[0]


def _entry(holder: Holder, held: Held) -> _Entry:
    of_nodes: defaultdict[int, list[str]] = defaultdict(list)
    for name in sorted(held.devices):
        for node in sorted(held.devices[name]) or [NO_NODE]:
            of_nodes[node].append(name)
    in_order = dict(sorted(of_nodes.items()))
    return _Entry(holder.pod_uid, holder.container, holder.resource, in_order, held.answer or None)


def _held(entry: _Entry) -> Held:
    nodes: defaultdict[str, set[int]] = defaultdict(set)
    for node, names in (entry.device_ids or {}).items():
        for name in names or ():
            nodes[name] |= {node} - {NO_NODE}
    return Held({name: frozenset(found) for name, found in nodes.items()}, entry.alloc_resp or b"")


def _checksum(data: _Data) -> int:
    entries = _nil(data.pod_device_entries, lambda found: go_list(map(_printed, found)))
    registered = _nil(data.registered_devices, _map)
    return fnv1a_32(
        (
            f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){entries} "
            f"RegisteredDevices:(map[string][]string){registered}}}"
        ).encode()
    )


def _printed(entry: _Entry) -> str:
    answer = _nil(entry.alloc_resp, go_list)
    return (
        f"{{PodUID:(string){entry.pod_uid} ContainerName:(string){entry.container_name} "
        f"ResourceName:(string){entry.resource_name} "
        f"DeviceIDs:(checkpoint.DevicesPerNUMA){_nil(entry.device_ids, _map)} AllocResp:([]uint8){answer}}}"
    )


def _map(found: Mapping[Key, Sequence[str] | None]) -> str:
    return go_map({key: _nil(names, go_list) for key, names in found.items()})


def _nil(value: Value | None, printed: Callable[[Value], str]) -> str:
    return "<nil>" if value is None else printed(value)
