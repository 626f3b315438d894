"""Topologies of machines for tests: those of upstream's cases (A to U8), and known machines.

The known machines are written from what their vendors publish (sockets, cores, threads, shared caches, NUMA nodes) and
from the usual numbering of their CPUs by Linux; they are no recordings. The exceptions are EPYC_7451, METEOR_LAKE,
PIONEER and POWER7, whose CPUs are placed as in the output of lscpu on such machines that util-linux publishes with its
tests. Amounts of memory and distances are examples throughout.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.model.machine import Cpu, Machine, NumaNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

GIB: Final = 1024**3


class Numbers(Enum):
    """The order in which Linux numbers the CPUs of a machine. That is the firmware's choice."""

    SIBLINGS_LAST = "the first threads of all cores, then the second ones"
    SIBLINGS_ADJACENT = "all threads of a core, then the next core"
    SOCKETS_IN_TURN = "a core of each socket in turn; the second threads last"


class Core(NamedTuple):
    """A core: its threads, and its place. ``uncore``: any name of its last-level cache; None without one."""

    threads: tuple[int, ...]
    socket: int = 0
    node: int = 0
    uncore: int | None = None


def of_cores(cores: Iterable[Core], *, memory_gib: Mapping[int, int] | None = None) -> Machine:
    """Return the machine with these cores, and with other NUMA nodes if ``memory_gib`` names them."""
    found = list(cores)
    in_uncore: dict[tuple[int, int | None], int] = {}
    for core in found:
        key = (core.socket, core.uncore)
        in_uncore[key] = min(in_uncore.get(key, core.threads[0]), *core.threads, core.threads[0])
    sockets = {one.socket: min(min(c.threads) for c in found if c.socket == one.socket) for one in found}
    cpus = {
        thread: Cpu(
            min(core.threads),
            core.socket,
            core.node,
            sockets[core.socket] if core.uncore is None else in_uncore[core.socket, core.uncore],
        )
        for core in found
        for thread in core.threads
    }
    memory = {core.node: 16 for core in found} | dict(memory_gib or {})
    socket_of = {core.node: core.socket for core in found}
    nodes = {
        node: NumaNode(
            memory[node] * GIB,
            {2 * 1024**2: 0, GIB: 0},
            {other: _distance(node, other, socket_of) for other in sorted(memory)},
        )
        for node in sorted(memory)
    }
    return Machine(dict(sorted(cpus.items())), nodes)


def _distance(one: int, other: int, socket_of: Mapping[int, int]) -> int:
    if one == other:
        return 10
    return 12 if one in socket_of and socket_of[one] == socket_of.get(other) else 32


def machine(
    *,
    cores: int,
    sockets: int = 1,
    nodes: int = 1,
    threads: int = 1,
    uncore: int = 0,
    numbers: Numbers = Numbers.SIBLINGS_LAST,
    memory_gib: Mapping[int, int] | None = None,
) -> Machine:
    """Return a regular machine: ``cores`` in each NUMA node, ``nodes`` in each socket, ``uncore`` cores at each
    last-level cache (0: no such cache)."""
    per_socket = cores * nodes
    total = per_socket * sockets
    found = []
    for place in range(total):
        socket, inside = divmod(place, per_socket)
        match numbers:
            case Numbers.SIBLINGS_LAST:
                ids = tuple(place + total * thread for thread in range(threads))
            case Numbers.SIBLINGS_ADJACENT:
                ids = tuple(place * threads + thread for thread in range(threads))
            case Numbers.SOCKETS_IN_TURN:
                ids = tuple(inside * sockets + socket + total * thread for thread in range(threads))
        node = place // cores
        found.append(Core(ids, socket, node, place // uncore if uncore else None))
    return of_cores(found, memory_gib=memory_gib)


A: Final = machine(cores=4, threads=2)
B: Final = machine(sockets=2, cores=3, threads=2, numbers=Numbers.SOCKETS_IN_TURN)
C: Final = machine(sockets=2, cores=4)
D: Final = machine(sockets=2, nodes=2, cores=10, threads=2)
E: Final = machine(sockets=2, nodes=4, cores=16, threads=2)
U1: Final = machine(cores=16, uncore=4)
U2: Final = machine(sockets=2, cores=8, uncore=4)
U3: Final = machine(nodes=2, cores=8, uncore=4)
U4: Final = machine(cores=8, threads=2, uncore=4)
U5: Final = machine(cores=64, threads=2, uncore=4)
U6: Final = machine(cores=32, uncore=8)
U7: Final = machine(cores=128, threads=2, uncore=8)
U8: Final = machine(sockets=2, nodes=2, cores=30, threads=2, uncore=60)
OF_UPSTREAM: Final = {
    "A": A,
    "B": B,
    "C": C,
    "D": D,
    "E": E,
    "U1": U1,
    "U2": U2,
    "U3": U3,
    "U4": U4,
    "U5": U5,
    "U6": U6,
    "U7": U7,
    "U8": U8,
}

EPYC_7451: Final = machine(sockets=2, nodes=4, cores=6, threads=2, uncore=3)
METEOR_LAKE: Final = of_cores(
    [
        *(Core(threads, uncore=0) for threads in ((0, 5), (1, 2), (3, 4), (6, 7), (8, 9), (10, 11))),
        *(Core((cpu,), uncore=0) for cpu in range(12, 20)),
        Core((20,)),  # two cores of low power, which the last-level cache does not serve
        Core((21,)),
    ]
)
PIONEER: Final = of_cores(Core((cpu,), 0, cpu // 32 * 2 + cpu // 8 % 2) for cpu in range(64))
POWER7: Final = of_cores(
    (Core(tuple(range(4 * place, 4 * place + 4)), place) for place in range(16)), memory_gib={0: 8, 1: 8}
)
POWER9: Final = of_cores(
    (Core(tuple(range(4 * place, 4 * place + 4)), place // 20, place // 20 * 8, place // 2) for place in range(40)),
    memory_gib={0: 256, 8: 256, 252: 16, 253: 16, 254: 16, 255: 16},  # the last four: the memory of graphics cards
)
KNOWN: Final = {
    "Raspberry Pi 5": machine(cores=4, uncore=4),
    "virtual machine with two threads of a core": machine(cores=1, threads=2, uncore=1),
    "virtual machine of QEMU with four sockets": of_cores(Core((cpu,), cpu) for cpu in range(4)),
    "Ampere Altra Q80-30": machine(cores=80),
    "AWS Graviton3": machine(cores=64, uncore=64),
    "AWS Graviton4, two sockets": machine(sockets=2, cores=96, uncore=96),
    "NVIDIA Grace, two sockets": machine(sockets=2, cores=72, uncore=72),
    "NVIDIA Grace Hopper": machine(cores=72, uncore=72, memory_gib={0: 480, 1: 96}),
    "AMD Ryzen 9 7950X": machine(cores=16, threads=2, uncore=8),
    "AMD EPYC 7451, two sockets": EPYC_7451,
    "AMD EPYC 7742, two sockets, one node each": machine(sockets=2, cores=64, threads=2, uncore=4),
    "AMD EPYC 7742, two sockets, four nodes each": machine(sockets=2, nodes=4, cores=16, threads=2, uncore=4),
    "AMD EPYC 7763, two sockets, four nodes each": machine(sockets=2, nodes=4, cores=16, threads=2, uncore=8),
    "AMD EPYC 7763, two sockets, a node for each cache": machine(sockets=2, nodes=8, cores=8, threads=2, uncore=8),
    "AMD EPYC 9654, two sockets, one node each": machine(sockets=2, cores=96, threads=2, uncore=8),
    "AMD EPYC 9654, two sockets, four nodes each": machine(sockets=2, nodes=4, cores=24, threads=2, uncore=8),
    "AMD EPYC 9754": machine(cores=128, threads=2, uncore=8),
    "Intel Core i9-12900K": of_cores(
        [
            *(Core((2 * place, 2 * place + 1), uncore=0) for place in range(8)),
            *(Core((cpu,), uncore=0) for cpu in range(16, 24)),
        ]
    ),
    "Intel Core Ultra 9 185H": METEOR_LAKE,
    "Intel Xeon Gold 6130, two sockets in turn": machine(
        sockets=2, cores=16, threads=2, uncore=16, numbers=Numbers.SOCKETS_IN_TURN
    ),
    "Intel Xeon Gold 6248, two nodes for each socket": machine(sockets=2, nodes=2, cores=10, threads=2, uncore=20),
    "Intel Xeon Platinum 8480+, four nodes for each socket": machine(
        sockets=2, nodes=4, cores=14, threads=2, uncore=56
    ),
    "Intel Xeon Platinum 8480+ with memory on CXL": machine(
        sockets=2, cores=56, threads=2, uncore=56, memory_gib={0: 512, 1: 512, 2: 256}
    ),
    "eight sockets of Intel Xeon Platinum 8280": machine(sockets=8, cores=28, threads=2, uncore=28),
    "Huawei Kunpeng 920, two sockets": machine(sockets=2, nodes=2, cores=32, uncore=32),
    "IBM POWER7, a logical partition": POWER7,
    "IBM POWER9 with graphics cards": POWER9,
    "Milk-V Pioneer": PIONEER,
}
ALL: Final = OF_UPSTREAM | KNOWN


def write_sysfs(root: Path, shown: Machine) -> None:
    """Write the files of sysfs that describe the machine. As in the kernel, ids of cores repeat in each socket."""
    cpus = root / "sys/devices/system/cpu"
    _write(cpus / "online", _listed(shown.cpus))
    cores, sockets, uncores = (_groups(shown, kind) for kind in ("core", "socket", "uncore"))
    core_ids: dict[int, dict[int, int]] = {}
    for cpu, place in shown.cpus.items():
        topology = cpus / f"cpu{cpu}/topology"
        inside = core_ids.setdefault(place.socket, {})
        _write(topology / "core_id", str(inside.setdefault(place.core, len(inside))))
        _write(topology / "physical_package_id", str(place.socket))
        _write(topology / "core_siblings_list", sockets[place.socket])
        _write(topology / "thread_siblings_list", cores[place.core])
        for index, (level, sharers) in enumerate((("2", cores[place.core]), ("3", uncores[place.uncore])), 1):
            cache = cpus / f"cpu{cpu}/cache/index{index}"
            _write(cache / "level", level)
            _write(cache / "shared_cpu_list", sharers)
    nodes = root / "sys/devices/system/node"
    _write(nodes / "online", _listed(shown.numa_nodes))
    for node, memory in shown.numa_nodes.items():
        directory = nodes / f"node{node}"
        _write(directory / "cpulist", _listed(n for n, cpu in shown.cpus.items() if cpu.numa_node == node))
        _write(directory / "meminfo", f"\nNode {node} MemTotal:       {memory.memory_bytes // 1024} kB\n")
        _write(directory / "distance", " ".join(map(str, memory.distances.values())))
        for size_bytes, count in memory.huge_pages.items():
            _write(directory / f"hugepages/hugepages-{size_bytes // 1024}kB/nr_hugepages", str(count))


def _groups(shown: Machine, kind: str) -> dict[int, str]:
    found: dict[int, list[int]] = {}
    for cpu, place in shown.cpus.items():
        found.setdefault(getattr(place, kind), []).append(cpu)
    return {name: _listed(ids) for name, ids in found.items()}


def _listed(ids: Iterable[int]) -> str:
    return ",".join(map(str, sorted(ids)))


def _write(path: Path, text: str) -> None:
    if not path.parent.exists():
        path.parent.mkdir(parents=True)
    path.write_text(f"{text}\n")
