"""The answer of ``/stats/summary`` on the wire: upstream's stats API, ``v1alpha1``.

Field names are the API's in camel case; unknown values are left out. Times are RFC 3339, everything else is as in
``model.usage``. (upstream-behaviour.md §1.23)
"""

from __future__ import annotations

import msgspec


class StallStats(msgspec.Struct, frozen=True):
    """Shares of the last seconds, in percent, and microseconds in all. The API's comment says nanoseconds, but upstream
    writes the kernel's microseconds, and dashboards expect them."""

    avg10: float
    avg60: float
    avg300: float
    total: int


class PressureStats(msgspec.Struct, frozen=True):
    """Stalls of some tasks, and of all at once."""

    full: StallStats
    some: StallStats


class CpuStats(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """CPU usage."""

    time: str
    usage_nano_cores: int | None = None
    usage_core_nano_seconds: int | None = None
    psi: PressureStats | None = None


class MemoryStats(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Memory usage. ``available_bytes``: the limit, or the machine's memory, less the working set."""

    time: str
    available_bytes: int | None = None
    usage_bytes: int | None = None
    working_set_bytes: int | None = None
    rss_bytes: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    psi: PressureStats | None = None


class IoStats(msgspec.Struct, frozen=True, omit_defaults=True):
    """Stalls on disks."""

    time: str
    psi: PressureStats | None = None


class SwapStats(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Swap usage."""

    time: str
    swap_available_bytes: int | None = None
    swap_usage_bytes: int | None = None


class FsStats(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Usage of a file system, or of a directory on one."""

    time: str
    available_bytes: int | None = None
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    inodes_free: int | None = None
    inodes: int | None = None
    inodes_used: int | None = None


class PvcReference(msgspec.Struct, frozen=True):
    """The claim behind a volume."""

    name: str
    namespace: str


class VolumeHealthStats(msgspec.Struct, frozen=True):
    """The health of a volume, as its driver reports it."""

    abnormal: bool


class VolumeStats(FsStats, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Usage of a pod's volume."""

    name: str
    pvc_ref: PvcReference | None = None
    volume_health_stats: VolumeHealthStats | None = None


class InterfaceStats(msgspec.Struct, frozen=True, rename="camel"):
    """Counters of a network interface."""

    name: str
    rx_bytes: int
    rx_errors: int
    tx_bytes: int
    tx_errors: int


class NetworkStats(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Counters of a network namespace: the first interface's own once more, and all of them."""

    time: str
    name: str = ""
    rx_bytes: int | None = None
    rx_errors: int | None = None
    tx_bytes: int | None = None
    tx_errors: int | None = None
    interfaces: tuple[InterfaceStats, ...] = ()


class ContainerStats(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Usage of a container, or of a part of the node that has a cgroup of its own."""

    name: str
    start_time: str
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    io: IoStats | None = None
    rootfs: FsStats | None = None
    logs: FsStats | None = None
    swap: SwapStats | None = None


class PodReference(msgspec.Struct, frozen=True):
    """Which pod."""

    name: str
    namespace: str
    uid: str


class ProcessStats(msgspec.Struct, frozen=True):
    """The number of a pod's processes."""

    process_count: int


class PodStats(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Usage of a pod."""

    pod_ref: PodReference
    start_time: str
    containers: tuple[ContainerStats, ...] = ()
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    io: IoStats | None = None
    network: NetworkStats | None = None
    volume: tuple[VolumeStats, ...] = ()
    ephemeral_storage: FsStats | None = msgspec.field(default=None, name="ephemeral-storage")
    process_stats: ProcessStats | None = msgspec.field(default=None, name="process_stats")
    swap: SwapStats | None = None


class RuntimeStats(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Usage of the runtime's stores."""

    image_fs: FsStats | None = None
    container_fs: FsStats | None = None


class RlimitStats(msgspec.Struct, frozen=True):
    """The number of processes and the kernel's limit."""

    time: str
    maxpid: int
    curproc: int


class NodeStats(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Usage of the node."""

    node_name: str
    start_time: str
    system_containers: tuple[ContainerStats, ...] = ()
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    io: IoStats | None = None
    network: NetworkStats | None = None
    fs: FsStats | None = None
    runtime: RuntimeStats | None = None
    rlimit: RlimitStats | None = None
    swap: SwapStats | None = None


class Summary(msgspec.Struct, frozen=True):
    """Usage of the node and its pods."""

    node: NodeStats
    pods: tuple[PodStats, ...]
