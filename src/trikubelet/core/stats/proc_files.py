"""Parses files of /proc (proc(5)): the machine as a whole, and a namespace's network.

The kernel has kept their form for decades; values that are missing in one are not reported, never invented.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Final

from trikubelet.core.stats.cgroup_files import PRESSED, TICK_NS, pressures
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.model.usage import Disk, Interface, NodeGauges, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

FILES: Final = ("stat", "meminfo", "vmstat", "loadavg", "sys/kernel/pid_max", "sys/kernel/threads-max")
"""The files below /proc for ``machine``."""
PRESSURE_FILES: Final = tuple(f"pressure/{name}" for name in PRESSED)
"""The files below /proc of kernels that count pressure, for any version of cgroups."""
DISKSTATS: Final = "diskstats"
_DISK_FIGURES: Final = 11
"""Newer kernels write more of them, about discards and flushes."""
_NO_DISK: Final = re.compile(r"^(?:loop|ram|zram)\d")
_IDLE: Final = (3, 4)
"""The idle times in the first line of ``stat``: idle, and waiting for a disk."""
_TIMES: Final = 8
"""The number of separate times; the two that follow, for guests, are included in the first."""
_OF_PODS: Final = re.compile(r"^(?:lo|veth|docker|nerdctl|cali|lxc)")
"""Interfaces of the machine that upstream leaves out, and those of Calico and Cilium that lead to one pod each. The
pods report these themselves; there are hundreds, and each pod on the node's network would repeat them."""
_VIRTUAL: Final = re.compile(r"^(?:veth|cni|cbr|br-|virbr|flannel|tunl|vxlan|cilium|kube-|nodelocaldns|dummy|ifb)")
"""Interfaces whose traffic is counted by another one, or that have none: they do not represent the machine."""


def machine(texts: Mapping[str, bytes], at_ns: int, interfaces: tuple[Interface, ...] = ()) -> NodeGauges:
    """Return the machine's gauges. Raises KeyError and ValueError for incomplete files."""
    stat = dict(line.split(None, 1) for line in texts["stat"].decode("ascii").splitlines() if " " in line)
    times = [int(ticks) for ticks in stat["cpu"].split()[:_TIMES]]
    memory = {
        name.rstrip(":"): int(kib) * 1024
        for name, kib, *_ in (line.split() for line in texts["meminfo"].decode("ascii").splitlines())
    }
    faults = dict(line.split() for line in texts["vmstat"].decode("ascii").splitlines())
    used = memory["MemTotal"] - memory["MemFree"]
    usage = Usage(
        at_ns=at_ns,
        cpu_ns=sum(ticks for kind, ticks in enumerate(times) if kind not in _IDLE) * TICK_NS,
        memory_bytes=used,
        working_set_bytes=max(0, used - memory["Inactive(file)"]),
        rss_bytes=memory["AnonPages"],
        faults=int(faults["pgfault"]),
        major_faults=int(faults["pgmajfault"]),
        swap_bytes=memory["SwapTotal"] - memory["SwapFree"],
        processes=int(texts["loadavg"].split()[3].partition(b"/")[2]),
        pressure=pressures({name: texts.get(file, b"") for name, file in zip(PRESSED, PRESSURE_FILES, strict=True)}),
    )
    return NodeGauges(
        usage=usage,
        memory_total_bytes=memory["MemTotal"],
        swap_total_bytes=memory["SwapTotal"],
        processors=sum(1 for name in stat if name.startswith("cpu")) - 1,
        booted_ns=int(stat["btime"]) * SECOND_NS,
        processes_max=min(int(texts["sys/kernel/pid_max"]), int(texts["sys/kernel/threads-max"])),
        interfaces=interfaces,
    )


def disks(diskstats: bytes) -> tuple[Disk, ...]:
    """Parse ``/proc/diskstats``: the block devices that were used, without those in memory and in files."""
    found = []
    for line in diskstats.decode("ascii", "replace").splitlines():
        major, minor, name, *fields = line.split()
        figures = [int(field) for field in fields[:_DISK_FIGURES]]
        if len(figures) == _DISK_FIGURES and any(figures) and not _NO_DISK.match(name):
            found.append(Disk(f"{major}:{minor}", name, *figures))
    return tuple(found)


def interfaces(net_dev: bytes) -> tuple[Interface, ...]:
    """Parse ``net/dev`` of a namespace, without its loopback."""
    found = []
    for line in net_dev.decode("ascii", "replace").splitlines()[2:]:
        name, _, rest = line.partition(":")
        fields = rest.split()
        if name.strip() != "lo" and len(fields) >= 12:
            numbers = [int(fields[column]) for column in (0, 1, 2, 3, 8, 9, 10, 11)]
            found.append(Interface(name.strip(), *numbers))
    return tuple(found)


def of_machine(found: tuple[Interface, ...]) -> tuple[Interface, ...]:
    """Return the interfaces of a machine, bridges included, without those that lead to one pod each."""
    return tuple(one for one in found if not _OF_PODS.match(one.name))


def primary(found: tuple[Interface, ...], preferred: str = "eth0") -> Interface | None:
    """Return the one interface that represents all: upstream's ``eth0``, or the first, preferably a physical one."""
    named = (one for one in found if one.name == preferred)
    real = (one for one in found if not _VIRTUAL.match(one.name))
    return next(chain(named, real, found), None)
