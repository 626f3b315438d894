"""Upstream's file of the memory that containers have, memory_manager_state, as its kubelet writes and reads it.

    {"policyName", "machineState": {NUMA node: {"numberOfAssignments", "memoryMap": {resource: {"total",
     "systemReserved", "allocatable", "reserved", "free"}}, "cells": [nodes]}},
     "entries": {pod UID: {container: [{"numaAffinity": [nodes], "type", "size"}]}}, "checksum",
     "data": the same as JSON in a text, "dataChecksum"}

This is the form of v1.37; v1.36 reads the first four fields. ``machineState`` follows from the machine and the entries:
it is written for upstream, and not read. Checksums are FNV-1a (32 bits) over Go's print of the fields, or of the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trikubelet.core.fnv import fnv1a_32
from trikubelet.core.go_json import go_text
from trikubelet.core.go_print import go_list, go_map
from trikubelet.core.numa_memory.state import Block, MemoryState, usage

if TYPE_CHECKING:
    from trikubelet.core.numa_memory.supply import Supply

NONE: Final = "None"
STATIC: Final = "Static"


@dataclass(frozen=True, slots=True)
class MemoryCheckpoint:
    """The content of a file: the policy that wrote it, and its state."""

    policy: str
    state: MemoryState


class _Table(msgspec.Struct, frozen=True):
    total: int
    system_reserved: int = msgspec.field(name="systemReserved")
    allocatable: int
    reserved: int
    free: int


class _Node(msgspec.Struct, frozen=True):
    assignments: int = msgspec.field(name="numberOfAssignments")
    tables: dict[str, _Table] = msgspec.field(name="memoryMap")
    cells: list[int] | None = None


class _Entry(msgspec.Struct, frozen=True):
    nodes: list[int] = msgspec.field(name="numaAffinity")
    resource: str = msgspec.field(name="type")
    size: int


class _Content(msgspec.Struct, frozen=True, omit_defaults=True):
    policy: str = msgspec.field(name="policyName")
    machine: dict[int, _Node] | None = msgspec.field(name="machineState", default=None)
    entries: dict[str, dict[str, list[_Entry]]] | None = None


class _File(_Content, frozen=True, omit_defaults=True):
    checksum: int = 0
    data: str = ""
    data_checksum: int = msgspec.field(name="dataChecksum", default=0)


def written(policy: str, supplied: Supply, state: MemoryState) -> bytes:
    """Return the file."""
    content = _Content(policy, _machine(supplied, state) or None, _entries(state) or None)
    fields: dict[str, Any] = msgspec.to_builtins(content, str_keys=True)
    data = go_text(fields)
    checksums = {"checksum": _checksum(content), "data": data, "dataChecksum": _text_checksum(data)}
    return go_text(fields | checksums).encode()


def read(content: bytes) -> MemoryCheckpoint:
    """Return the content of a file. Raises ValueError for one that is damaged."""
    file = msgspec.json.decode(content, type=_File)  # whose errors are ValueErrors
    found: _Content = file
    if file.data:
        if file.data_checksum != _text_checksum(file.data):
            raise ValueError("checkpoint is corrupted: the checksum of its data is wrong")
        found = msgspec.json.decode(file.data, type=_Content)
    elif file.checksum and file.checksum != _checksum(file):  # 0: written before there were checksums
        raise ValueError("checkpoint is corrupted: its checksum is wrong")
    blocks = {
        uid: {name: tuple(map(_block, entries)) for name, entries in containers.items()}
        for uid, containers in (found.entries or {}).items()
        if containers
    }
    return MemoryCheckpoint(found.policy, MemoryState(blocks))


def _block(entry: _Entry) -> Block:
    if not entry.nodes or entry.size < 0:
        raise ValueError(f"checkpoint is corrupted: a block of {entry.resource} has no NUMA node or a negative size")
    return Block(tuple(sorted(entry.nodes)), entry.resource, entry.size)


def _entries(state: MemoryState) -> dict[str, dict[str, list[_Entry]]]:
    return {
        uid: {
            name: [_Entry(list(one.nodes), one.resource, one.size_bytes) for one in blocks]
            for name, blocks in sorted(containers.items())
        }
        for uid, containers in sorted(state.blocks.items())
    }


def _machine(supplied: Supply, state: MemoryState) -> dict[int, _Node]:
    found = {}
    for node, used in usage(supplied, state).items():
        tables = {}
        for name, amount in supplied[node].items():
            free = max(used.free_bytes[name], 0)  # upstream reads no negative number
            reserved = amount.allocatable_bytes - free
            tables[name] = _Table(amount.total_bytes, amount.reserved_bytes, amount.allocatable_bytes, reserved, free)
        found[node] = _Node(used.assignments, tables, list(used.group))
    return found


def _text_checksum(data: str) -> int:
    return fnv1a_32(f"(string){data}".encode())


def _checksum(content: _Content) -> int:
    machine = go_map({node: f"<*>{_printed_node(one)}" for node, one in (content.machine or {}).items()})
    entries = {
        uid: go_map({name: go_list(map(_printed_entry, blocks)) for name, blocks in containers.items()})
        for uid, containers in (content.entries or {}).items()
    }
    return fnv1a_32(
        (
            f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){content.policy} "
            f"MachineState:(state.NUMANodeMap){machine} "
            f"Entries:(state.ContainerMemoryAssignments){go_map(entries)} Checksum:(checksum.Checksum)0}}"
        ).encode()
    )


def _printed_node(node: _Node) -> str:
    tables = {
        name: (
            f"<*>{{TotalMemSize:(uint64){one.total} SystemReserved:(uint64){one.system_reserved} "
            f"Allocatable:(uint64){one.allocatable} Reserved:(uint64){one.reserved} Free:(uint64){one.free}}}"
        )
        for name, one in node.tables.items()
    }
    cells = "<nil>" if node.cells is None else go_list(node.cells)
    return (
        f"{{NumberOfAssignments:(int){node.assignments} "
        f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable){go_map(tables)} Cells:([]int){cells}}}"
    )


def _printed_entry(entry: _Entry) -> str:
    return (
        f"{{NUMAAffinity:([]int){go_list(entry.nodes)} Type:(v1.ResourceName){entry.resource} "
        f"Size:(uint64){entry.size}}}"
    )
