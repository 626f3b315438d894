"""The topology of this machine, as sysfs shows it: CPUs with their cores, sockets, NUMA nodes and caches, and memory.

Only CPUs count that are online and that the root of the cgroups may use. So an agent inside a container sees the CPUs
of its container, and CPUs of an isolated partition belong to no pod. A test points ``root`` at a directory of its own.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.core.topology.cpu_list import parse_list
from trikubelet.model.errors import StartFailed
from trikubelet.model.machine import Cpu, Machine, NumaNode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

_CPUS: Final = "sys/devices/system/cpu"
_NODES: Final = "sys/devices/system/node"
# The controller's file in cgroup v2 and v1. The hybrid layout has the tree of v1.
_ALLOWED: Final = ("sys/fs/cgroup/cpuset.cpus.effective", "sys/fs/cgroup/cpuset/cpuset.effective_cpus")
_UNCORE_LEVEL_MIN: Final = 3
"""The least level of a cache that several cores share, as upstream counts: a second-level cache is a core's own."""
_MEM_TOTAL: Final = re.compile(r"MemTotal:\s+(\d+) kB")


def read_machine(root: Path = Path("/")) -> Machine:
    """Return the topology. Raises StartFailed, with the file that cannot be read or that has no meaning."""
    cpus = _usable_cpus(root)
    if not cpus:
        raise StartFailed(f"cannot read the topology of the machine: {root / _CPUS / 'online'} lists no CPU")
    nodes = _numa_nodes(root)
    node_of = {cpu: node for node, (found, _) in nodes.items() for cpu in found}
    return Machine(
        {cpu: _cpu(root / _CPUS / f"cpu{cpu}", cpu, cpus, node_of.get(cpu, min(nodes))) for cpu in sorted(cpus)},
        {node: memory for node, (found, memory) in nodes.items() if found & cpus or memory.memory_bytes},
    )


def _usable_cpus(root: Path) -> frozenset[int]:
    online = _list(root / _CPUS / "online")
    for name in _ALLOWED:
        if (root / name).exists() and (allowed := _list(root / name)):
            return online & allowed
    return online


def _cpu(directory: Path, cpu: int, usable: AbstractSet[int], node: int) -> Cpu:
    topology = directory / "topology"
    socket = _number(topology / "physical_package_id")
    return Cpu(
        # The kernel renamed the files in v5.3, and keeps the old ones.
        core=min((_list(topology / "thread_siblings_list") & usable) | {cpu}),
        socket=max(socket, 0),  # -1: firmware of some ARM machines describes no sockets
        numa_node=node,
        uncore=min((_uncore(directory) or _list(topology / "core_siblings_list")) & usable | {cpu}),
    )


def _uncore(directory: Path) -> frozenset[int]:
    """Return the CPUs that share the last-level cache; none where the kernel shows no such cache."""
    caches = {}
    for cache in (directory / "cache").glob("index[0-9]*"):
        # Virtual machines may show a level without the CPUs that share it.
        if (level := _number(cache / "level")) >= _UNCORE_LEVEL_MIN and (cache / "shared_cpu_list").exists():
            caches[level] = _list(cache / "shared_cpu_list")
    return caches[max(caches)] if caches else frozenset()


def _numa_nodes(root: Path) -> Mapping[int, tuple[frozenset[int], NumaNode]]:
    """Return each node's CPUs and memory. A kernel without NUMA support has one node."""
    directory = root / _NODES
    if not (directory / "online").exists():
        memory = NumaNode(_memory_bytes(root / "proc/meminfo"), _huge_pages(root / "sys/kernel/mm/hugepages"), {0: 10})
        return {0: (_list(root / _CPUS / "online"), memory)}
    ids = sorted(_list(directory / "online"))
    found = {}
    for node in ids:
        place = directory / f"node{node}"
        distances = dict(zip(ids, _numbers(place / "distance"), strict=False))
        memory = NumaNode(_memory_bytes(place / "meminfo"), _huge_pages(place / "hugepages"), distances)
        found[node] = (_list(place / "cpulist"), memory)
    return found


def _memory_bytes(meminfo: Path) -> int:
    if (found := _MEM_TOTAL.search(_text(meminfo))) is None:
        raise StartFailed(f"cannot read the topology of the machine: {meminfo} has no MemTotal")
    return int(found[1]) * 1024


def _huge_pages(directory: Path) -> dict[int, int]:
    found = {}
    for pages in directory.glob("hugepages-*kB"):
        size_bytes = int(pages.name.removeprefix("hugepages-").removesuffix("kB")) * 1024
        found[size_bytes] = _number(pages / "nr_hugepages")
    return dict(sorted(found.items()))


def _number(path: Path) -> int:
    return next(iter(_numbers(path)), 0)


def _numbers(path: Path) -> list[int]:
    try:
        return [int(part) for part in _text(path).split()]
    except ValueError as error:
        raise StartFailed(f"cannot read the topology of the machine: {path}: {error}") from error


def _list(path: Path) -> frozenset[int]:
    try:
        return parse_list(_text(path))
    except ValueError as error:
        raise StartFailed(f"cannot read the topology of the machine: {path}: {error}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError as error:
        raise StartFailed(f"cannot read the topology of the machine: {path}: {error.strerror}") from error
