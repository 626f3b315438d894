"""Looks at a node, and what they are put together of, in a few words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from core.podkit import BOX, STARTED_AT, running
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339
from trikubelet.model.runtime import PodObservation
from trikubelet.model.stats_snapshot import ContainerUsed, NodeUsed, PodUsed, StatsSnapshot, Used, VolumeUsed
from trikubelet.model.usage import DeviceIo, Disk, FsUsage, Interface, NodeGauges, Pressure, Stall, Usage

AT = "2026-11-21T12:00:00Z"
AT_NS = parse_rfc3339(AT)
ETH0 = Interface("eth0", 10, 11, 12, 13, 20, 21, 22, 23)
DISK = FsUsage(AT_NS, 400, 4, 600, 1000, 96, 100)
SDA = Disk("8:0", "sda", 11, 12, 13, 14_000, 21, 22, 23, 24_000, 5, 6_000, 7_000)
PRESSURE = Pressure(Stall(1.0, 2.0, 3.0, 4), Stall(0.5, 0.25, 0.0, 2))


def usage(scale: int = 1, **more: Any) -> Usage:
    """Return a usage of that many seconds of CPU time, and megabytes."""
    fields: dict[str, Any] = {
        "at_ns": AT_NS,
        "cpu_ns": scale * SECOND_NS,
        "memory_bytes": scale << 20,
        "working_set_bytes": scale * 1000,
        "rss_bytes": scale * 100,
        "faults": scale * 10,
        "major_faults": scale,
    }
    return Usage(**fields | more)


def at_first(scale: int, started_ns: int = STARTED_AT) -> Used:
    """Such a usage with the rate of a first look, the mean since the start."""
    return Used(usage(scale), scale * SECOND_NS**2 // (AT_NS - started_ns))


def detailed(scale: int = 1) -> Usage:
    """Return the same with all fields of Depth.METRICS."""
    return usage(
        scale, pressure={"cpu": PRESSURE}, processes=3, user_ns=2, system_ns=1, periods=9, throttled_periods=8,
        throttled_ns=7 * SECOND_NS, cache_bytes=6, mapped_bytes=5, peak_bytes=4, kernel_bytes=14,
        swap_limit_bytes=15, limit_hits=16, oom_kills=17, io=(DeviceIo("8:0", 1, 2, 3, 4),),
        burst_periods=18, burst_ns=19 * SECOND_NS, threads_max=20, active_file_bytes=21, inactive_file_bytes=22,
    )  # fmt: skip


BOOTED_NS = AT_NS - SECOND_NS


def machine(scale: int = 100) -> NodeGauges:
    """A machine of two processors and a gigabyte."""
    return NodeGauges(
        usage(scale, swap_bytes=5, processes=55), 1 << 30, 50, 2, BOOTED_NS, 32768, (ETH0,), "6.1.0", 1, 1
    )


def snapshot(*, of_pod: Usage | None = None, of_container: Usage | None = None, problem: str = "") -> StatsSnapshot:
    """A node with one pod ``web`` of one container ``app``, which are told of by these usages."""
    layer, logs = FsUsage(AT_NS, 7, 1), FsUsage(AT_NS, 30, 3)
    app = ContainerUsed(
        "app", "c1", "app:1", AT_NS - 5 * SECOND_NS, Used(of_container, 250) if of_container else None,
        layer, logs, 500, 64 << 20, 512, FsUsage(AT_NS, 2000, 20),
    )  # fmt: skip
    volumes = (
        VolumeUsed("data", replace(DISK, used_bytes=200), claim="claim"),
        VolumeUsed("scratch", FsUsage(AT_NS, 100, 10, 600, 1000, 96, 100), is_local=True),
    )
    pod = PodUsed(
        "u1", "web", "default", AT_NS - 9 * SECOND_NS, "/kubepods/podu1", Used(of_pod, 300) if of_pod else None,
        (ETH0,), (app,), volumes, own_files=FsUsage(AT_NS, 10_000, 100),
    )  # fmt: skip
    node = NodeUsed(
        "n1", machine(), 1500, DISK, DISK, DISK, {"pods": Used(usage(50), 900)}, {"/kubepods": usage(50)}, "/dev/sda1"
    )
    return StatsSnapshot(AT_NS, node, (pod,), problem)


def observed(*names: str, uid: str = "u1") -> PodObservation:
    """A pod whose containers of these names run; their ids are the names and ``-0``."""
    box = replace(BOX, uid=uid, created_at=AT_NS - SECOND_NS)
    return PodObservation(uid, sandboxes=(box,), containers=tuple(running(name) for name in names))
