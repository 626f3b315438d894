"""The usage of resources, as it was read: processor, memory, disks, networks. Plain data between the readers (``host``,
a container runtime) and the parts that show it (``core.stats``, the metrics endpoints).

Amounts are bytes unless they say otherwise, times of processors nanoseconds, moments nanoseconds since the Unix epoch.
None is "not reported", which is not zero: of two runtimes one reports page faults and the other does not.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import field

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Set


class Depth(Enum):
    """How much is measured: ``LOAD`` is CPU, memory and swap, which autoscalers read often; ``CPU_AND_MEMORY`` adds
    their pressure; ``SUMMARY`` also networks, disks and the pressure on those; ``METRICS`` the metrics of each cgroup
    for Prometheus, and the node's disks."""

    LOAD = "load"
    CPU_AND_MEMORY = "cpu and memory"
    SUMMARY = "summary"
    METRICS = "metrics"

    @property
    def is_load_alone(self) -> bool:
        """True if neither networks nor disks are looked at."""
        return self in (Depth.LOAD, Depth.CPU_AND_MEMORY)


class Stall(NamedTuple):
    """How long tasks waited for something: shares of the last 10, 60 and 300 seconds in percent, and microseconds in
    all (the kernel's PSI)."""

    avg10: float
    avg60: float
    avg300: float
    total_us: int


class Pressure(NamedTuple):
    """``some``: at least one task waited; ``full``: all did at once."""

    some: Stall
    full: Stall


class DeviceIo(NamedTuple):
    """The bytes and operations of one block device, which has a number such as ``8:0``."""

    device: str
    read_bytes: int
    written_bytes: int
    reads: int
    writes: int


class Disk(NamedTuple):
    """The work of one block device since it came up. ``number`` is as `DeviceIo` has it; ``in_flight`` are
    requests under way, ``busy_ms`` the time with any, and ``weighted_ms`` that time for each of them."""

    number: str
    name: str
    reads: int
    reads_merged: int
    sectors_read: int
    read_ms: int
    writes: int
    writes_merged: int
    sectors_written: int
    write_ms: int
    in_flight: int
    busy_ms: int
    weighted_ms: int


class Usage(Frozen):
    """The usage of one cgroup, container or machine at one moment. The working set is the memory that cannot be
    reclaimed without swapping: usage less the file pages that were not used lately. From ``user_ns`` on only with
    Depth.METRICS: ``kernel_bytes``: the kernel's part of the usage; ``limit_hits``: how often it hit its memory limit;
    ``oom_kills``: the processes that were killed for it. ``swap_limit_bytes`` limits memory and swap together, with v2
    swap alone. ``pressure`` (by ``cpu``, ``memory``, ``io``) is not reported with Depth.LOAD, and with cgroups v1 for
    the machine as a whole only."""

    at_ns: int
    cpu_ns: int | None = None
    memory_bytes: int | None = None
    working_set_bytes: int | None = None
    rss_bytes: int | None = None
    faults: int | None = None
    major_faults: int | None = None
    swap_bytes: int | None = None
    limit_bytes: int | None = None
    swap_limit_bytes: int | None = None
    pressure: Mapping[str, Pressure] = field(default_factory=dict)
    processes: int | None = None
    user_ns: int | None = None
    system_ns: int | None = None
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_ns: int | None = None
    burst_periods: int | None = None
    burst_ns: int | None = None
    threads_max: int | None = None
    active_file_bytes: int | None = None
    inactive_file_bytes: int | None = None
    cache_bytes: int | None = None
    mapped_bytes: int | None = None
    peak_bytes: int | None = None
    kernel_bytes: int | None = None
    limit_hits: int | None = None
    oom_kills: int | None = None
    io: tuple[DeviceIo, ...] = ()


class Interface(NamedTuple):
    """One network interface since it came up, as seen from inside."""

    name: str
    received_bytes: int
    received_packets: int
    received_errors: int
    received_dropped: int
    sent_bytes: int
    sent_packets: int
    sent_errors: int
    sent_dropped: int


class FsUsage(Frozen):
    """A file system, or a directory on one: then ``used_bytes`` and ``inodes_used`` are the directory's, and the rest
    its file system's. ``file_system``: the number by which the kernel distinguishes it from others, where that was
    asked."""

    at_ns: int
    used_bytes: int | None = None
    inodes_used: int | None = None
    available_bytes: int | None = None
    capacity_bytes: int | None = None
    inodes_free: int | None = None
    inodes: int | None = None
    file_system: int | None = None


class ContainerStats(Frozen):
    """A runtime's report of one of its containers. ``layer``: the files it wrote outside of its volumes."""

    id: str
    usage: Usage
    layer: FsUsage | None = None


class ImageStore(Frozen):
    """A place where a runtime keeps something, and how much of it."""

    mount_point: str
    usage: FsUsage


class ImageStores(NamedTuple):
    """Where a runtime keeps images, and where the files that containers write; often one place."""

    images: tuple[ImageStore, ...]
    layers: tuple[ImageStore, ...]


class PodPlace(NamedTuple):
    """Where a pod's cgroups are: the pod's own, as path components, and ids of its sandbox and containers, whose
    cgroups lie in it. ``limited``: which of ``cpu`` and ``memory`` any of them may have a limit of."""

    cgroup: tuple[str, ...]
    sandbox: str
    containers: tuple[str, ...]
    limited: Set[str] = frozenset({"cpu", "memory"})


class PodGauges(NamedTuple):
    """The usage found at a pod's place, without parts that have no cgroup there."""

    pod: Usage | None
    containers: Mapping[str, Usage]
    interfaces: tuple[Interface, ...] = ()


class NodeGauges(NamedTuple):
    """The machine. ``booted_ns``: when it started; ``processes_max``: of the kernel; swap: what there is in all;
    ``kernel``: its release; ``cores`` in ``sockets`` run the processors, 0 where unknown; ``disks``: with
    Depth.METRICS."""

    usage: Usage
    memory_total_bytes: int
    swap_total_bytes: int
    processors: int
    booted_ns: int
    processes_max: int
    interfaces: tuple[Interface, ...] = ()
    kernel: str = ""
    cores: int = 0
    sockets: int = 0
    disks: tuple[Disk, ...] = ()


class MachineIds(NamedTuple):
    """By what the machine is known: as installed, as built, and since it started; empty where it does not tell."""

    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
