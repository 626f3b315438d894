"""Containers' usage, from /proc: CPU time, memory and processes of a container's first process and all below it.

CPU time includes that of children that have ended and were waited for. The time of a process that ends between two
readings and is not waited for is lost, so the sum may fall a little; readers of cumulative counters handle that. Memory
is the resident set; pages that several processes share count for each of them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trikubelet.embedded.records import Container, Sandbox

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")


class Process(Frozen):
    """One line of /proc: ``cpu_ns`` is user and system time, own and of children waited for."""

    pid: int
    parent: int
    cpu_ns: int
    rss_bytes: int
    minor_faults: int
    major_faults: int


def parse_stat(text: bytes) -> Process:
    """Parse /proc/PID/stat (proc_pid_stat(5)); the name in it may contain anything. Raises ValueError or IndexError."""
    before, _, after = text.rpartition(b")")
    fields = after.split()  # the third field of the manual is [0]
    return Process(
        pid=int(before.split(b" ", 1)[0]),
        parent=int(fields[1]),
        cpu_ns=sum(int(ticks) for ticks in fields[11:15]) * _TICK_NS,
        rss_bytes=int(fields[21]) * _PAGE_BYTES,
        minor_faults=int(fields[7]),
        major_faults=int(fields[9]),
    )


def process_tree(proc: Path = Path("/proc")) -> dict[int, list[Process]]:
    """Every process of the machine under its parent's pid."""
    tree: dict[int, list[Process]] = {}
    for name in os.listdir(proc):
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):  # it has just ended
                found = parse_stat((proc / name / "stat").read_bytes())
                tree.setdefault(found.parent, []).append(found)
    return tree


def _of(container: Container, tree: Mapping[int, Sequence[Process]]) -> list[Process]:
    if container.command is None:
        return []
    first = container.command.pid
    found = [process for siblings in tree.values() for process in siblings if process.pid == first]
    waiting = [first]
    while waiting:
        children = tree.get(waiting.pop(), ())
        found += children
        waiting += [child.pid for child in children]
    return found


def _value(number: int) -> pb.UInt64Value:
    return pb.UInt64Value(value=number)


def _memory(processes: Sequence[Process], now_ns: int) -> pb.MemoryUsage:
    resident = sum(p.rss_bytes for p in processes)
    return pb.MemoryUsage(
        timestamp=now_ns,
        working_set_bytes=_value(resident),
        usage_bytes=_value(resident),
        rss_bytes=_value(resident),
        page_faults=_value(sum(p.minor_faults + p.major_faults for p in processes)),
        major_page_faults=_value(sum(p.major_faults for p in processes)),
    )


def _cpu(processes: Sequence[Process], now_ns: int) -> pb.CpuUsage:
    return pb.CpuUsage(timestamp=now_ns, usage_core_nano_seconds=_value(sum(p.cpu_ns for p in processes)))


def container_stats(container: Container, tree: Mapping[int, Sequence[Process]], now_ns: int) -> pb.ContainerStats:
    """The stats of one container."""
    processes = _of(container, tree)
    return pb.ContainerStats(
        attributes=pb.ContainerAttributes(
            id=container.id,
            metadata=container.config.metadata,
            labels=container.config.labels,
            annotations=container.config.annotations,
        ),
        cpu=_cpu(processes, now_ns),
        memory=_memory(processes, now_ns),
    )


def sandbox_stats(
    sandbox: Sandbox, running: Sequence[Container], tree: Mapping[int, Sequence[Process]], now_ns: int
) -> pb.PodSandboxStats:
    """The stats of one pod, with its containers."""
    processes = [process for container in running for process in _of(container, tree)]
    return pb.PodSandboxStats(
        attributes=pb.PodSandboxAttributes(
            id=sandbox.id,
            metadata=sandbox.config.metadata,
            labels=sandbox.config.labels,
            annotations=sandbox.config.annotations,
        ),
        linux=pb.LinuxPodSandboxStats(
            cpu=_cpu(processes, now_ns),
            memory=_memory(processes, now_ns),
            process=pb.ProcessUsage(timestamp=now_ns, process_count=_value(len(processes))),
            containers=[container_stats(container, tree, now_ns) for container in running],
        ),
    )
