"""GET /metrics/cadvisor: the metrics of each cgroup that Prometheus stores, under cAdvisor's names, which dashboards
use.

A container has its names in all labels, its pod's cgroup only ``namespace`` and ``pod``. The cgroups of the machine, of
all pods and of a QoS class have none; their ``id`` label, the cgroup's path, distinguishes them. Network metrics belong
to pods. Values that the kernel does not report are left out, so a dashboard shows a gap instead of a zero.
(upstream-behaviour.md §1.21)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from trikubelet.core.stats.summary import pod_used
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.server.exposition import Family, exposed, labels, sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trikubelet.model.stats_snapshot import ContainerUsed, NodeUsed, PodUsed, StatsSnapshot
    from trikubelet.model.usage import Disk, Interface, NodeGauges, Usage

CPU_PERIOD_US: Final = 100_000
_WRITTEN_HELP: Final = "Used bytes of the disk: by a container, without volumes; of the node, in total."


class _Subject(NamedTuple):
    """A cgroup with a usage: its labels, and its container if it has one."""

    named: str
    usage: Usage
    container: ContainerUsed | None = None
    interfaces: Sequence[Interface] = ()


class _Series(NamedTuple):
    """One metric of a usage; ``more``: an additional label."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    of: Callable[[Usage], float | None]
    more: str = ""


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / SECOND_NS


def _stalled(usage: Usage, what: str, kind: str) -> float | None:
    pressure = usage.pressure.get(what)
    return None if pressure is None else getattr(pressure, kind).total_us / 1e6


_CPU: Final = (
    _Series(
        "container_cpu_usage_seconds_total",
        "counter",
        "Time of processors used, in seconds.",
        lambda u: _seconds(u.cpu_ns),
        ',cpu="total"',
    ),
    _Series(
        "container_cpu_user_seconds_total",
        "counter",
        "The part of it in programs.",
        lambda u: _seconds(u.user_ns),
    ),
    _Series(
        "container_cpu_system_seconds_total",
        "counter",
        "The part of it in the kernel.",
        lambda u: _seconds(u.system_ns),
    ),
    _Series("container_cpu_cfs_periods_total", "counter", "Periods of the quota that passed.", lambda u: u.periods),
    _Series(
        "container_cpu_cfs_throttled_periods_total",
        "counter",
        "Periods in which the quota was used up.",
        lambda u: u.throttled_periods,
    ),
    _Series(
        "container_cpu_cfs_throttled_seconds_total",
        "counter",
        "Time that tasks were throttled until the next period.",
        lambda u: _seconds(u.throttled_ns),
    ),
    _Series(
        "container_cpu_cfs_burst_periods_total",
        "counter",
        "Periods in which more than the quota was used, from saved quota.",
        lambda u: u.burst_periods,
    ),
    _Series(
        "container_cpu_cfs_burst_seconds_total",
        "counter",
        "Time of processors used beyond the quota.",
        lambda u: _seconds(u.burst_ns),
    ),
)
_MEMORY: Final = (
    _Series("container_memory_usage_bytes", "gauge", "Memory used, caches included.", lambda u: u.memory_bytes),
    _Series(
        "container_memory_working_set_bytes",
        "gauge",
        "Memory that cannot be reclaimed without swapping.",
        lambda u: u.working_set_bytes,
    ),
    _Series("container_memory_rss", "gauge", "Memory of no file.", lambda u: u.rss_bytes),
    _Series("container_memory_cache", "gauge", "Memory of files.", lambda u: u.cache_bytes),
    _Series(
        "container_memory_total_active_file_bytes",
        "gauge",
        "Recently used memory of files.",
        lambda u: u.active_file_bytes,
    ),
    _Series(
        "container_memory_total_inactive_file_bytes",
        "gauge",
        "Memory of files that the kernel reclaims first.",
        lambda u: u.inactive_file_bytes,
    ),
    _Series("container_memory_mapped_file", "gauge", "Memory of files that are mapped.", lambda u: u.mapped_bytes),
    _Series("container_memory_swap", "gauge", "Swap used.", lambda u: u.swap_bytes),
    _Series("container_memory_max_usage_bytes", "gauge", "Most memory ever used.", lambda u: u.peak_bytes),
    _Series("container_memory_kernel_usage", "gauge", "Memory of the kernel's.", lambda u: u.kernel_bytes),
    _Series("container_memory_failcnt", "counter", "Times the limit of memory was hit.", lambda u: u.limit_hits),
    _Series("container_oom_events_total", "counter", "Processes killed because memory ran out.", lambda u: u.oom_kills),
)
_FAULTS: Final = "container_memory_failures_total"
_FAULTS_HELP: Final = "Page faults."
_PRESSURE: Final = tuple(
    _Series(
        f"container_pressure_{what}_{word}_seconds_total",
        "counter",
        f"Time for which {who} waited for {what}.",
        lambda u, what=what, kind=kind: _stalled(u, what, kind),  # type: ignore[misc] # defaults bind the loop's names
    )
    for what in ("cpu", "memory", "io")
    for word, kind, who in (("waiting", "some", "some tasks"), ("stalled", "full", "all tasks"))
)
_PROCESSES: Final = (
    *(
        _Series(f"container_{name}", "gauge", "Processes and threads.", lambda u: u.processes)
        for name in ("processes", "threads")
    ),
    _Series("container_threads_max", "gauge", "Most processes and threads allowed.", lambda u: u.threads_max),
)
_SECTOR_BYTES: Final = 512
"""The kernel counts in sectors of this size, whatever the device's own sector size is."""
_DISKS: Final[tuple[tuple[str, str, int, Callable[[Disk], float]], ...]] = (
    ("container_fs_reads_bytes_total", "Bytes read from devices.", 1, lambda d: d.sectors_read * _SECTOR_BYTES),
    ("container_fs_writes_bytes_total", "Bytes written to devices.", 2, lambda d: d.sectors_written * _SECTOR_BYTES),
    ("container_fs_reads_total", "Reads from devices.", 3, lambda d: d.reads),
    ("container_fs_writes_total", "Writes to devices.", 4, lambda d: d.writes),
)
_DISK_WORK: Final[tuple[tuple[str, Literal["counter", "gauge"], str, Callable[[Disk], float]], ...]] = (
    ("container_fs_sector_reads_total", "counter", "Sectors read.", lambda d: d.sectors_read),
    ("container_fs_sector_writes_total", "counter", "Sectors written.", lambda d: d.sectors_written),
    ("container_fs_reads_merged_total", "counter", "Reads merged into others.", lambda d: d.reads_merged),
    ("container_fs_writes_merged_total", "counter", "Writes merged into others.", lambda d: d.writes_merged),
    ("container_fs_read_seconds_total", "counter", "Time of reads.", lambda d: d.read_ms / 1000),
    ("container_fs_write_seconds_total", "counter", "Time of writes.", lambda d: d.write_ms / 1000),
    ("container_fs_io_current", "gauge", "Requests in progress.", lambda d: d.in_flight),
    ("container_fs_io_time_seconds_total", "counter", "Time with requests in progress.", lambda d: d.busy_ms / 1000),
    (
        "container_fs_io_time_weighted_seconds_total",
        "counter",
        "The same, counted for each request.",
        lambda d: d.weighted_ms / 1000,
    ),
)
"""Metrics that the kernel counts by device, not by cgroup."""
_NETWORK: Final = tuple(
    (f"container_network_{way}_{what}_total", f"{said} {heard}.", column)
    for way, heard, first in (("receive", "received", 1), ("transmit", "sent", 5))
    for what, said, column in (
        ("bytes", "Bytes", first),
        ("packets", "Packets", first + 1),
        ("errors", "Errors of packets", first + 2),
        ("packets_dropped", "Packets dropped and not", first + 3),
    )
)


def cadvisor_metrics(snapshot: StatsSnapshot) -> bytes:
    """Return the snapshot in Prometheus' text format."""
    return exposed(_families(snapshot))


def _families(snapshot: StatsSnapshot) -> Iterator[Family]:
    subjects = list(_subjects(snapshot))
    for one in (*_CPU, *_MEMORY, *_PRESSURE, *_PROCESSES):
        yield _family(one, subjects)
    yield _faults(subjects)
    yield from _disks(subjects, snapshot.node.gauges)
    yield from _networks(subjects)
    yield _last_seen(subjects)
    yield from _of_containers(subjects)
    yield from _of_disk(snapshot.node)
    yield from _of_machine(snapshot)


def _subjects(snapshot: StatsSnapshot) -> Iterator[_Subject]:
    gauges = snapshot.node.gauges
    yield _Subject(_named("/"), gauges.usage, None, gauges.interfaces)
    for path, usage in snapshot.node.groups.items():
        yield _Subject(_named(path), usage)
    for pod in snapshot.pods:
        used = pod_used(pod)
        if used is not None:
            yield _Subject(_named(pod.cgroup, pod), used.usage, None, pod.interfaces)
        for one in pod.containers:
            if one.used is not None:
                yield _Subject(_named(f"{pod.cgroup}/{one.id}", pod, one), one.used.usage, one)


def _named(cgroup: str, pod: PodUsed | None = None, one: ContainerUsed | None = None) -> str:
    return labels(
        container=one.name if one else "",
        id=cgroup,
        image=one.image if one else "",
        name=one.id if one else "",
        namespace=pod.namespace if pod else "",
        pod=pod.name if pod else "",
    )


def _family(series: _Series, subjects: Sequence[_Subject]) -> Family:
    name, more, of = series.name, series.more, series.of
    samples = [
        sample(name, s.named + more, value, s.usage.at_ns) for s in subjects if (value := of(s.usage)) is not None
    ]
    return Family(name, series.kind, series.help, samples)


def _faults(subjects: Sequence[_Subject]) -> Family:
    samples = []
    for subject in subjects:
        usage = subject.usage
        for kind, count in (("pgfault", usage.faults), ("pgmajfault", usage.major_faults)):
            if count is not None:
                more = f',failure_type="{kind}",scope="hierarchy"'
                samples.append(sample(_FAULTS, subject.named + more, count, usage.at_ns))
    return Family(_FAULTS, "counter", _FAULTS_HELP, samples)


def _disks(subjects: Sequence[_Subject], machine: NodeGauges) -> Iterator[Family]:
    """Yield disk metrics by device and cgroup, the machine's at ``/``. Dashboards select devices by names such as
    ``/dev/sda``."""
    at_ns = machine.usage.at_ns
    paths = {one.number: f"/dev/{one.name}" for one in machine.disks}
    of_machine = [(f"{_named('/')},{labels(device=paths[one.number])}", one) for one in machine.disks]
    of_subjects = [
        (f"{s.named},{labels(device=paths.get(one.device, one.device))}", one, s.usage.at_ns)
        for s in subjects
        for one in s.usage.io
    ]
    for name, help_, column, of in _DISKS:
        samples = [sample(name, named, of(one), at_ns) for named, one in of_machine]
        samples += [sample(name, named, int(one[column]), taken_ns) for named, one, taken_ns in of_subjects]
        yield Family(name, "counter", help_, samples)
    for name, kind, help_, of in _DISK_WORK:
        yield Family(name, kind, help_, [sample(name, named, of(one), at_ns) for named, one in of_machine])
    name = "container_blkio_device_usage_total"
    samples = [
        sample(name, f"{named},{_numbered(one.device)},{labels(operation=operation)}", amount, taken_ns)
        for named, one, taken_ns in of_subjects
        for operation, amount in (("Read", one.read_bytes), ("Write", one.written_bytes))
    ]
    yield Family(name, "counter", "Bytes read and written, by device.", samples)


def _numbered(device: str) -> str:
    major, _, minor = device.partition(":")
    return labels(major=major, minor=minor)


def _networks(subjects: Sequence[_Subject]) -> Iterator[Family]:
    for name, help_, column in _NETWORK:
        samples = [
            sample(name, f"{s.named},{labels(interface=one.name)}", int(one[column]), s.usage.at_ns)
            for s in subjects
            for one in s.interfaces
        ]
        yield Family(name, "counter", help_, samples)


def _of_containers(subjects: Sequence[_Subject]) -> Iterator[Family]:
    """Yield metrics that only containers have: start time, limits, and their own files."""
    found = [(s.named, s.container, s.usage.at_ns) for s in subjects if s.container is not None]
    series: tuple[tuple[str, str, Callable[[ContainerUsed], float | None]], ...] = (
        ("container_start_time_seconds", "When it started, since the epoch.", lambda c: c.started_ns / SECOND_NS),
        ("container_spec_memory_limit_bytes", "Its limit of memory, 0 for none.", _memory_limit_bytes),
        ("container_spec_memory_swap_limit_bytes", "Its limit of memory and swap, 0 for none.", _swap_limit_bytes),
        ("container_spec_memory_reservation_limit_bytes", "Its soft limit of memory; none is ever set.", lambda _: 0),
        ("container_spec_cpu_shares", "Its share of contended processors.", lambda c: c.cpu_shares),
        ("container_spec_cpu_period", "The period of its quota, in microseconds.", lambda _: CPU_PERIOD_US),
        ("container_spec_cpu_quota", "Its quota of a period, in microseconds.", _quota_us),
        ("container_fs_usage_bytes", _WRITTEN_HELP, _written_bytes),
    )
    for name, help_, of in series:
        values = ((named, of(one), at_ns) for named, one, at_ns in found)
        samples = [sample(name, named, value, at_ns) for named, value, at_ns in values if value is not None]
        yield Family(name, "gauge", help_, samples)


def _last_seen(subjects: Sequence[_Subject]) -> Family:
    name = "container_last_seen"
    samples = [sample(name, s.named, s.usage.at_ns / SECOND_NS, s.usage.at_ns) for s in subjects]
    return Family(name, "gauge", "When it was measured last, since the epoch.", samples)


def _quota_us(one: ContainerUsed) -> float | None:
    return None if one.cpu_millis is None else one.cpu_millis * CPU_PERIOD_US // 1000


def _memory_limit_bytes(one: ContainerUsed) -> float:
    """Return the limit that the cgroup has, in whole pages; the spec's limit if the cgroup could not be read."""
    kept = one.used.usage.limit_bytes if one.used is not None else None
    return kept or one.memory_limit_bytes or 0


def _swap_limit_bytes(one: ContainerUsed) -> float:
    return one.used.usage.swap_limit_bytes or 0 if one.used is not None else 0


def _written_bytes(one: ContainerUsed) -> float | None:
    return None if one.layer is None else one.layer.used_bytes


def _of_disk(node: NodeUsed) -> Iterator[Family]:
    """Yield the metrics of the node's disk, which cAdvisor reports for the machine's cgroup: more samples of the
    metrics above."""
    disk = node.disk
    if disk is None:
        return
    named = f"{_named('/')},{labels(device=node.device)}"
    for name, help_, value in (
        ("usage_bytes", _WRITTEN_HELP, disk.used_bytes),
        ("limit_bytes", "Bytes of the disk.", disk.capacity_bytes),
        ("inodes_free", "Free inodes.", disk.inodes_free),
        ("inodes_total", "Number of inodes.", disk.inodes),
    ):
        samples = [] if value is None else [sample(f"container_fs_{name}", named, value, disk.at_ns)]
        yield Family(f"container_fs_{name}", "gauge", help_, samples)


def _of_machine(snapshot: StatsSnapshot) -> Iterator[Family]:
    gauges, ids = snapshot.node.gauges, snapshot.node.ids
    named = labels(boot_id=ids.boot_id, machine_id=ids.machine_id, system_uuid=ids.system_uuid)
    for name, help_, value in (
        ("machine_cpu_physical_cores", "Cores of them, without threads.", gauges.cores or None),
        ("machine_cpu_sockets", "Packages they are in.", gauges.sockets or None),
        ("machine_cpu_cores", "Processors of the machine.", gauges.processors),
        ("machine_memory_bytes", "Memory of the machine.", gauges.memory_total_bytes),
        ("machine_swap_bytes", "Swap of the machine.", gauges.swap_total_bytes),
    ):
        yield Family(name, "gauge", help_, [] if value is None else [sample(name, named, value)])
    for name, help_, failed in (
        ("machine_scrape_error", "1 if the machine could not be measured, else 0.", False),
        ("container_scrape_error", "1 if something could not be measured, else 0.", bool(snapshot.problem)),
    ):
        yield Family(name, "gauge", help_, [sample(name, "", int(failed))])
    name, said = "cadvisor_version_info", labels(cadvisorRevision="", cadvisorVersion="", dockerVersion="")
    about = f"{said},{labels(kernelVersion=gauges.kernel, osVersion='')}"
    yield Family(name, "gauge", "The kernel that was read; the value is always 1.", [sample(name, about, 1)])
