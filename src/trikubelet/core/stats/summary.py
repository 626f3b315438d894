"""Converts one snapshot of the node into the form of ``/stats/summary``.

A pod's figures are its cgroup's, which include its sandbox; if it has no readable one, they are the sums of its
containers'. Ephemeral storage is the usage that counts against the limit of that name: containers' writes outside of
volumes, their logs, the files of the pod's own directory that they can write, and ephemeral volumes on the node's disk.
With Depth.CPU_AND_MEMORY, CPU, memory and swap are reported, like upstream for ``only_cpu_and_memory``.
(upstream-behaviour.md §1.23)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.stats.proc_files import primary
from trikubelet.core.timestamps import rfc3339
from trikubelet.model import summary as api
from trikubelet.model.stats_snapshot import Used
from trikubelet.model.usage import FsUsage, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trikubelet.model.stats_snapshot import ContainerUsed, NodeUsed, PodUsed, StatsSnapshot, VolumeUsed
    from trikubelet.model.usage import Depth, Interface, Pressure, Stall


def summary(snapshot: StatsSnapshot, depth: Depth) -> api.Summary:
    """Return the snapshot in the API's form."""
    return api.Summary(_node(snapshot.node, depth), tuple(_pod(pod, snapshot.node, depth) for pod in snapshot.pods))


def pod_used(pod: PodUsed) -> Used | None:
    """Return the total usage of a pod; None if it is unknown."""
    if pod.used is not None:
        return pod.used
    parts = [one.used for one in pod.containers if one.used is not None]
    if not parts:
        return None
    usages = [part.usage for part in parts]
    return Used(
        Usage(
            at_ns=max(one.at_ns for one in usages),
            cpu_ns=total(one.cpu_ns for one in usages),
            memory_bytes=total(one.memory_bytes for one in usages),
            working_set_bytes=total(one.working_set_bytes for one in usages),
            rss_bytes=total(one.rss_bytes for one in usages),
            faults=total(one.faults for one in usages),
            major_faults=total(one.major_faults for one in usages),
            swap_bytes=total(one.swap_bytes for one in usages),
            processes=total(one.processes for one in usages),
        ),
        total(part.nanocores for part in parts),
    )


def total(values: Iterable[int | None]) -> int | None:
    """Return the sum of the known values; None if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def files_total(found: Sequence[FsUsage]) -> FsUsage | None:
    """Return the sum of bytes and inodes; None if there are none."""
    if not found:
        return None
    return FsUsage(
        max(one.at_ns for one in found),
        total(one.used_bytes for one in found),
        total(one.inodes_used for one in found),
    )


def _node(node: NodeUsed, depth: Depth) -> api.NodeStats:
    gauges = node.gauges
    used, booted = Used(gauges.usage, node.nanocores), rfc3339(gauges.booted_ns)
    available = gauges.memory_total_bytes - (gauges.usage.working_set_bytes or 0)
    time = rfc3339(gauges.usage.at_ns)
    swapped = gauges.usage.swap_bytes or 0
    parts = tuple(_part(name, part, booted, depth) for name, part in (node.parts or {}).items())
    load = api.NodeStats(
        node.name,
        booted,
        parts,
        _cpu(used),
        _memory(used.usage, available),
        swap=api.SwapStats(time, gauges.swap_total_bytes - swapped, swapped),
    )
    if depth.is_load_alone:
        return load
    return api.NodeStats(
        load.node_name,
        load.start_time,
        parts,
        load.cpu,
        load.memory,
        io=_io(gauges.usage),
        network=_network(gauges.interfaces, gauges.usage.at_ns),
        fs=_fs(node.disk),
        runtime=api.RuntimeStats(_fs(node.images), _fs(node.layers)),
        rlimit=api.RlimitStats(time, gauges.processes_max, gauges.usage.processes or 0),
        swap=load.swap,
    )


def _part(name: str, used: Used, booted: str, depth: Depth) -> api.ContainerStats:
    io = None if depth.is_load_alone else _io(used.usage)
    return api.ContainerStats(name, booted, _cpu(used), _memory(used.usage), io, swap=_swap(used.usage))


def _pod(pod: PodUsed, node: NodeUsed, depth: Depth) -> api.PodStats:
    used = pod_used(pod)
    load = api.PodStats(
        api.PodReference(pod.name, pod.namespace, pod.uid),
        rfc3339(pod.started_ns),
        tuple(_container(one, node, depth) for one in pod.containers),
        _cpu(used),
        _memory(used.usage) if used else None,
        swap=_swap(used.usage) if used else None,
    )
    if depth.is_load_alone:
        return load
    processes = used.usage.processes if used else None
    return api.PodStats(
        load.pod_ref,
        load.start_time,
        load.containers,
        load.cpu,
        load.memory,
        io=_io(used.usage) if used else None,
        network=_network(pod.interfaces, used.usage.at_ns) if used else None,
        volume=tuple(_volume(one, pod.namespace) for one in pod.volumes),
        ephemeral_storage=_ephemeral(pod, node.disk),
        process_stats=None if processes is None else api.ProcessStats(processes),
        swap=load.swap,
    )


def _container(one: ContainerUsed, node: NodeUsed, depth: Depth) -> api.ContainerStats:
    usage = one.used.usage if one.used is not None else None
    load = api.ContainerStats(
        one.name,
        rfc3339(one.started_ns),
        _cpu(one.used),
        _memory(usage) if usage is not None else None,
        swap=_swap(usage) if usage is not None else None,
    )
    if depth.is_load_alone:
        return load
    return api.ContainerStats(
        load.name,
        load.start_time,
        load.cpu,
        load.memory,
        io=_io(usage) if usage is not None else None,
        rootfs=_fs(_on(one.layer, node.layers or node.images)),
        logs=_fs(_on(one.logs, node.disk)),
        swap=load.swap,
    )


def _on(directory: FsUsage | None, disk: FsUsage | None) -> FsUsage | None:
    """Return a directory's usage, with the figures of the disk that it is on."""
    if directory is None or disk is None or directory.capacity_bytes is not None:
        return directory
    return FsUsage(
        directory.at_ns,
        directory.used_bytes,
        directory.inodes_used,
        disk.available_bytes,
        disk.capacity_bytes,
        disk.inodes_free,
        disk.inodes,
    )


def _ephemeral(pod: PodUsed, disk: FsUsage | None) -> api.FsStats | None:
    found = [one for one in (*(container.layer for container in pod.containers), pod.own_files) if one is not None]
    found += [one for container in pod.containers for one in container.local_files()]
    found += [volume.usage for volume in pod.volumes if volume.is_local]
    return _fs(_on(files_total(found), disk))


def _cpu(used: Used | None) -> api.CpuStats | None:
    if used is None or used.usage.cpu_ns is None:
        return None
    usage = used.usage
    return api.CpuStats(rfc3339(usage.at_ns), used.nanocores, usage.cpu_ns, _psi(usage.pressure.get("cpu")))


def _memory(usage: Usage, available_bytes: int | None = None) -> api.MemoryStats:
    if available_bytes is None and usage.limit_bytes is not None:
        available_bytes = max(0, usage.limit_bytes - (usage.working_set_bytes or 0))
    return api.MemoryStats(
        rfc3339(usage.at_ns),
        available_bytes,
        usage.memory_bytes,
        usage.working_set_bytes,
        usage.rss_bytes,
        usage.faults,
        usage.major_faults,
        _psi(usage.pressure.get("memory")),
    )


def _io(usage: Usage) -> api.IoStats | None:
    psi = _psi(usage.pressure.get("io"))
    return None if psi is None else api.IoStats(rfc3339(usage.at_ns), psi)


def _swap(usage: Usage) -> api.SwapStats | None:
    used, limit = usage.swap_bytes, usage.swap_limit_bytes
    if used is None:
        return None
    return api.SwapStats(rfc3339(usage.at_ns), None if limit is None else max(0, limit - used), used)


def _psi(pressure: Pressure | None) -> api.PressureStats | None:
    return None if pressure is None else api.PressureStats(_stall(pressure.full), _stall(pressure.some))


def _stall(stall: Stall) -> api.StallStats:
    return api.StallStats(stall.avg10, stall.avg60, stall.avg300, stall.total_us)


def _network(found: Sequence[Interface], at_ns: int) -> api.NetworkStats | None:
    first = primary(tuple(found))
    if first is None:
        return None
    numbers = (first.received_bytes, first.received_errors, first.sent_bytes, first.sent_errors)
    each = tuple(
        api.InterfaceStats(one.name, one.received_bytes, one.received_errors, one.sent_bytes, one.sent_errors)
        for one in found
    )
    return api.NetworkStats(rfc3339(at_ns), first.name, *numbers, each)


def _volume(one: VolumeUsed, namespace: str) -> api.VolumeStats:
    usage = one.usage
    return api.VolumeStats(
        time=rfc3339(usage.at_ns),
        available_bytes=usage.available_bytes,
        capacity_bytes=usage.capacity_bytes,
        used_bytes=usage.used_bytes,
        inodes_free=usage.inodes_free,
        inodes=usage.inodes,
        inodes_used=usage.inodes_used,
        name=one.name,
        pvc_ref=api.PvcReference(one.claim, namespace) if one.claim else None,
        volume_health_stats=api.VolumeHealthStats(one.is_abnormal) if one.is_abnormal is not None else None,
    )


def _fs(usage: FsUsage | None) -> api.FsStats | None:
    if usage is None:
        return None
    return api.FsStats(
        rfc3339(usage.at_ns),
        usage.available_bytes,
        usage.capacity_bytes,
        usage.used_bytes,
        usage.inodes_free,
        usage.inodes,
        usage.inodes_used,
    )
