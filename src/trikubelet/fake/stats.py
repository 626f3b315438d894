"""The usage that the fake runtime reports: a steady load that depends only on the container's id and age.

Counters only rise, gauges stay, and two requests at the same time have the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.fake.records import Container, Sandbox


def container_stats(container: Container, now_ns: int) -> pb.ContainerStats:
    """The stats of one container."""
    return pb.ContainerStats(
        attributes=pb.ContainerAttributes(
            id=container.id,
            metadata=container.metadata,
            labels=container.labels,
            annotations=container.annotations,
        ),
        cpu=_cpu([container], now_ns),
        memory=_memory([container], now_ns),
        writable_layer=pb.FilesystemUsage(
            timestamp=now_ns,
            fs_id=pb.FilesystemIdentifier(mountpoint="/"),
            used_bytes=_value(4096 * _load(container)),
            inodes_used=_value(_load(container)),
        ),
    )


def sandbox_stats(sandbox: Sandbox, now_ns: int) -> pb.PodSandboxStats:
    """The stats of one pod, with its running containers."""
    running = [c for c in sandbox.containers.values() if c.state == pb.CONTAINER_RUNNING]
    return pb.PodSandboxStats(
        attributes=pb.PodSandboxAttributes(
            id=sandbox.id,
            metadata=sandbox.metadata,
            labels=sandbox.labels,
            annotations=sandbox.annotations,
        ),
        linux=pb.LinuxPodSandboxStats(
            cpu=_cpu(running, now_ns),
            memory=_memory(running, now_ns),
            process=pb.ProcessUsage(timestamp=now_ns, process_count=_value(len(running))),
            containers=[container_stats(container, now_ns) for container in running],
        ),
    )


def _load(container: Container) -> int:
    """From 1 to 256: tenths of a percent of a CPU, and half megabytes."""
    return int(container.id[:2], 16) + 1


def _cpu(containers: Sequence[Container], now_ns: int) -> pb.CpuUsage:
    used = sum((now_ns - c.started_at) * _load(c) // 1000 for c in containers)
    return pb.CpuUsage(timestamp=now_ns, usage_core_nano_seconds=_value(used))


def _memory(containers: Sequence[Container], now_ns: int) -> pb.MemoryUsage:
    used = _value(sum(_load(c) for c in containers) << 19)
    return pb.MemoryUsage(timestamp=now_ns, working_set_bytes=used, usage_bytes=used, rss_bytes=used)


def _value(number: int) -> pb.UInt64Value:
    return pb.UInt64Value(value=number)
