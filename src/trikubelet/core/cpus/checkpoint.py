"""Upstream's file of the CPUs that containers have, cpu_manager_state, as its kubelet writes and reads it.

    {"policyName", "defaultCpuSet", "entries": {pod UID: {container: list}}, "checksum",
     "data": the same and "podEntries" as JSON in a text, "dataChecksum"}

This is the form of v1.37. v1.36 reads the first four fields; from v1.37 on, ``data`` counts if it is there. Checksums
are FNV-1a (32 bits) over Go's print of the fields, or of the text. Go reads the names of fields in any case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from trikubelet.core.cpus.state import CpuState
from trikubelet.core.fnv import fnv1a_32
from trikubelet.core.go_json import go_text
from trikubelet.core.go_print import go_map
from trikubelet.core.topology.cpu_list import list_text, parse_list

NONE: Final = "none"
STATIC: Final = "static"
Entries = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class CpuCheckpoint:
    """The content of a file: the policy that wrote it, and its state."""

    policy: str
    state: CpuState


class _PodEntry(msgspec.Struct, frozen=True):
    cpu_set: str = msgspec.field(name="cpuset", default="")


class _Fields(msgspec.Struct, frozen=True):
    policy: str = msgspec.field(name="policyname", default="")
    default: str = msgspec.field(name="defaultcpuset", default="")
    entries: Entries = {}
    pod_entries: dict[str, _PodEntry] = msgspec.field(name="podentries", default={})
    checksum: int = 0
    data: str = ""
    data_checksum: int = msgspec.field(name="datachecksum", default=0)


def written(checkpoint: CpuCheckpoint) -> bytes:
    """Return the file."""
    state = checkpoint.state
    entries = {
        uid: {name: list_text(cpus) for name, cpus in sorted(containers.items())}
        for uid, containers in sorted(state.assigned.items())
    }
    fields: dict[str, Any] = {"policyName": checkpoint.policy, "defaultCpuSet": list_text(state.shared)}
    if entries:
        fields["entries"] = entries
    pods = {uid: {"cpuSet": list_text(cpus)} for uid, cpus in sorted(state.pods.items())}
    data = go_text(fields | ({"podEntries": pods} if pods else {}))
    checksum = _checksum(_Fields(checkpoint.policy, fields["defaultCpuSet"], entries))
    everything = fields | {"checksum": checksum, "data": data, "dataChecksum": _text_checksum(data)}
    return go_text(everything).encode()


def read(content: bytes) -> CpuCheckpoint:
    """Return the content of a file. Raises ValueError for one that is damaged."""
    fields = _decoded(content)
    if fields.data:
        if fields.data_checksum != _text_checksum(fields.data):
            raise ValueError("checkpoint is corrupted: the checksum of its data is wrong")
        fields = _decoded(fields.data.encode())
    elif fields.checksum and fields.checksum != _checksum(fields):  # 0: written before there were checksums
        raise ValueError("checkpoint is corrupted: its checksum is wrong")
    assigned = {
        uid: {name: parse_list(cpus) for name, cpus in containers.items()}
        for uid, containers in fields.entries.items()
        if containers
    }
    pods = {uid: parse_list(entry.cpu_set) for uid, entry in fields.pod_entries.items()}
    return CpuCheckpoint(fields.policy, CpuState(parse_list(fields.default), assigned, pods))


def _decoded(content: bytes) -> _Fields:
    """Return the fields. Raises ValueError, also for entries by container id, which upstream wrote before v1.18."""
    found = msgspec.json.decode(content, type=dict[str, Any])  # whose errors are ValueErrors
    lowered = {name.lower(): value for name, value in found.items() if value is not None}
    pods = lowered.get("podentries")
    if isinstance(pods, dict):
        lowered["podentries"] = {
            uid: {name.lower(): value for name, value in entry.items()} if isinstance(entry, dict) else entry
            for uid, entry in pods.items()
        }
    return msgspec.convert(lowered, _Fields)


def _text_checksum(data: str) -> int:
    return fnv1a_32(f"(string){data}".encode())


def _checksum(fields: _Fields) -> int:
    entries = go_map({uid: go_map(containers) for uid, containers in fields.entries.items()})
    pods = ""
    if fields.pod_entries:  # v1.36 writes them only with the gate PodLevelResourceManagers
        printed = go_map({uid: _printed_set(entry.cpu_set) for uid, entry in fields.pod_entries.items()})
        pods = f"PodEntries:(state.PodCPUAssignments){printed} "
    return fnv1a_32(
        (
            f"(*state.CPUManagerCheckpoint){{PolicyName:(string){fields.policy} DefaultCPUSet:(string){fields.default} "
            f"Entries:(map[string]map[string]string){entries} {pods}Checksum:(checksum.Checksum)0}}"
        ).encode()
    )


def _printed_set(cpus: str) -> str:
    return f"{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}}){go_map(dict.fromkeys(parse_list(cpus), '{}'))}}}}}"
