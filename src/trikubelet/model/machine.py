"""The topology of a machine: its CPUs and its NUMA nodes. ``host/machine.py`` reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Cpu:
    """The place of one CPU (hardware thread). ``core`` and ``uncore``: the lowest CPU of its core and of its last-level
    cache, because the kernel's own ids of both repeat across sockets. Without such a cache the socket counts as one."""

    core: int
    socket: int
    numa_node: int
    uncore: int


@dataclass(frozen=True, slots=True)
class NumaNode:
    """The memory of a NUMA node. ``huge_pages``: number of pages by their size in bytes, which ``memory_bytes``
    includes. ``distances``: to each node, by its id, also to itself."""

    memory_bytes: int = 0
    huge_pages: Mapping[int, int] = field(default_factory=dict)
    distances: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Machine:
    """The CPUs that can be used, and the NUMA nodes that have CPUs or memory; both by id, in ascending order."""

    cpus: Mapping[int, Cpu]
    numa_nodes: Mapping[int, NumaNode]
