"""The CPUs for the system, and the policy's demands on the machine. Faults are ValueErrors with upstream's texts."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from trikubelet.core.cpus.layout import Level
from trikubelet.core.cpus.options import CpuOption
from trikubelet.core.cpus.packed import packed
from trikubelet.core.topology.cpu_list import list_text

if TYPE_CHECKING:
    from fractions import Fraction

    from trikubelet.core.cpus.layout import Layout
    from trikubelet.core.cpus.options import CpuOptions


def reserved_cpus(shown: Layout, listed: frozenset[int], amount: Fraction) -> frozenset[int]:
    """Return the reserved CPUs: the ones that ``reservedSystemCPUs`` lists, or else as many as the reserved ``amount``
    needs, packed from all. Raises ValueError if there would be none, or not enough."""
    if not listed <= shown.cpus:
        raise ValueError(f"reserved-cpus: {list_text(listed)} is not a subset of online-cpus: {list_text(shown.cpus)}")
    if listed:
        return listed
    if not (count := ceil(amount)):
        raise ValueError(
            "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"
        )
    if count > len(shown.cpus):
        raise ValueError(
            "[cpumanager] unable to reserve the required amount of CPUs "
            f"(size of {list_text(shown.cpus)} did not equal {count})"
        )
    return packed(shown, shown.cpus, count)


def check_alignment(shown: Layout, options: CpuOptions, *, is_single_numa_node: bool) -> None:
    """Raise ValueError if align-by-socket fits neither the topology manager's policy nor the machine."""
    if CpuOption.ALIGN_BY_SOCKET not in options:
        return
    if is_single_numa_node:
        raise ValueError("the CPU manager option align-by-socket excludes the topology policy single-numa-node")
    sockets, nodes = len(shown.members[Level.SOCKET]), len(shown.members[Level.NUMA_NODE])
    if sockets > nodes:
        raise ValueError(
            f"the CPU manager option align-by-socket needs at most as many sockets as NUMA nodes: this machine has "
            f"{sockets} sockets and {nodes} NUMA nodes"
        )
