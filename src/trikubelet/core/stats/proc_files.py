"""The machine as a whole, and a namespace's network, out of files of /proc (proc(5)).

All of these are the kernel's, in the form it has had for decades; what is missing in one is not reported, never
invented.
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
"""Below /proc, what ``machine`` wants."""
PRESSURE_FILES: Final = tuple(f"pressure/{name}" for name in PRESSED)
"""Below /proc, of kernels that count pressure, whatever version cgroups have."""
DISKSTATS: Final = "diskstats"
_DISK_FIGURES: Final = 11
"""Newer kernels write more of them, on discards and flushes."""
_NO_DISK: Final = re.compile(r"^(?:loop|ram|zram)\d")
_IDLE: Final = (3, 4)
"""Of the times in the first line of ``stat``: doing nothing, and doing nothing until a disk answers."""
_TIMES: Final = 8
"""So many of them there are; the two that follow, of guests, are counted in the first."""
_OF_PODS: Final = re.compile(r"^(?:lo|veth|docker|nerdctl|cali|lxc)")
"""Interfaces of the machine that upstream leaves out, and those of Calico and Cilium that lead to one pod each. The
pods have the figures of these themselves; there are hundreds, and each pod on the node's network would repeat them."""
_VIRTUAL: Final = re.compile(r"^(?:veth|cni|cbr|br-|virbr|flannel|tunl|vxlan|cilium|kube-|nodelocaldns|dummy|ifb)")
"""Interfaces that carry what another one has counted, or nothing: they do not stand for the whole machine."""


def machine(texts: Mapping[str, bytes], at_ns: int, interfaces: tuple[Interface, ...] = ()) -> NodeGauges:
    """The machine. Raises KeyError and ValueError where /proc is none."""
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
    """``/proc/diskstats``: the block devices that have done anything, without those in memory and those of files."""
    found = []
    for line in diskstats.decode("ascii", "replace").splitlines():
        major, minor, name, *fields = line.split()
        figures = [int(field) for field in fields[:_DISK_FIGURES]]
        if len(figures) == _DISK_FIGURES and any(figures) and not _NO_DISK.match(name):
            found.append(Disk(f"{major}:{minor}", name, *figures))
    return tuple(found)


def interfaces(net_dev: bytes) -> tuple[Interface, ...]:
    """``net/dev`` of a namespace, without its loopback."""
    found = []
    for line in net_dev.decode("ascii", "replace").splitlines()[2:]:
        name, _, rest = line.partition(":")
        fields = rest.split()
        if name.strip() != "lo" and len(fields) >= 12:
            numbers = [int(fields[column]) for column in (0, 1, 2, 3, 8, 9, 10, 11)]
            found.append(Interface(name.strip(), *numbers))
    return tuple(found)


def of_machine(found: tuple[Interface, ...]) -> tuple[Interface, ...]:
    """The interfaces of a machine, bridges included, without those that lead to one pod each."""
    return tuple(one for one in found if not _OF_PODS.match(one.name))


def primary(found: tuple[Interface, ...], preferred: str = "eth0") -> Interface | None:
    """The one interface that is shown for all: upstream's ``eth0``, or the first, a real one where there is one."""
    named = (one for one in found if one.name == preferred)
    real = (one for one in found if not _VIRTUAL.match(one.name))
    return next(chain(named, real, found), None)
