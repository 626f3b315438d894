"""/stats/summary as the API has it: names, what stands where, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from core.statskit import AT, snapshot, usage
from trikubelet.core.stats.summary import pod_used, summary, total
from trikubelet.model.stats_snapshot import StatsSnapshot, Used
from trikubelet.model.usage import Depth, Pressure, Stall, Usage

PRESSED = {name: Pressure(Stall(1.0, 2.0, 3.0, 4), Stall(0.5, 0.25, 0.0, 2)) for name in ("cpu", "memory", "io")}
PSI = {
    "full": {"avg10": 0.5, "avg60": 0.25, "avg300": 0.0, "total": 2},  # microseconds, like the kernel
    "some": {"avg10": 1.0, "avg60": 2.0, "avg300": 3.0, "total": 4},
}
DISK = {
    "time": AT,
    "availableBytes": 600,
    "capacityBytes": 1000,
    "usedBytes": 400,
    "inodesFree": 96,
    "inodes": 100,
    "inodesUsed": 4,
}
ETH0 = {"name": "eth0", "rxBytes": 10, "rxErrors": 12, "txBytes": 20, "txErrors": 22}
NETWORK = {"time": AT, **ETH0, "interfaces": [ETH0]}


def cpu(scale: int, nanocores: int) -> dict[str, Any]:
    return {"time": AT, "usageNanoCores": nanocores, "usageCoreNanoSeconds": scale * 10**9}


def memory(scale: int, available: int | None = None) -> dict[str, Any]:
    told = {
        "time": AT,
        "usageBytes": scale << 20,
        "workingSetBytes": scale * 1000,
        "rssBytes": scale * 100,
        "pageFaults": scale * 10,
        "majorPageFaults": scale,
    }
    return told if available is None else {**told, "availableBytes": available}


def spelled(it: StatsSnapshot, depth: Depth) -> Any:
    return msgspec.json.decode(msgspec.json.encode(summary(it, depth)))


def test_the_node_is_spelled_out() -> None:
    wanted = {
        "nodeName": "n1",
        "startTime": "2026-11-21T11:59:59Z",
        "systemContainers": [
            {"name": "pods", "startTime": "2026-11-21T11:59:59Z", "cpu": cpu(50, 900), "memory": memory(50)}
        ],
        "cpu": cpu(100, 1500),
        "memory": memory(100, (1 << 30) - 100_000),
        "network": NETWORK,
        "fs": DISK,
        "runtime": {"imageFs": DISK, "containerFs": DISK},
        "rlimit": {"time": AT, "maxpid": 32768, "curproc": 55},
        "swap": {"time": AT, "swapAvailableBytes": 45, "swapUsageBytes": 5},
    }
    assert wanted == spelled(snapshot(), Depth.SUMMARY)["node"]


def test_a_pod_is_spelled_out_with_its_volumes_and_what_it_takes_of_the_disk() -> None:
    limited = usage(2, limit_bytes=5000, swap_bytes=1, swap_limit_bytes=8, pressure=PRESSED)
    (pod,) = spelled(snapshot(of_pod=usage(3, processes=9), of_container=limited), Depth.SUMMARY)["pods"]

    on_disk = {"availableBytes": 600, "capacityBytes": 1000, "inodesFree": 96, "inodes": 100, "time": AT}
    wanted = {
        "podRef": {"name": "web", "namespace": "default", "uid": "u1"},
        "startTime": "2026-11-21T11:59:51Z",
        "containers": [
            {
                "name": "app",
                "startTime": "2026-11-21T11:59:55Z",
                "cpu": {**cpu(2, 250), "psi": PSI},
                "memory": {**memory(2, 3000), "psi": PSI},
                "io": {"time": AT, "psi": PSI},
                "rootfs": {**on_disk, "usedBytes": 7, "inodesUsed": 1},
                "logs": {**on_disk, "usedBytes": 30, "inodesUsed": 3},
                "swap": {"time": AT, "swapAvailableBytes": 7, "swapUsageBytes": 1},
            }
        ],
        "cpu": cpu(3, 300),
        "memory": memory(3),
        "network": NETWORK,
        "volume": [
            {**DISK, "usedBytes": 200, "name": "data", "pvcRef": {"name": "claim", "namespace": "default"}},
            {**on_disk, "usedBytes": 100, "inodesUsed": 10, "name": "scratch"},
        ],
        # the layer, the logs, the messages, the hosts file and the volume that is the pod's own; not the one of a claim
        "ephemeral-storage": {**on_disk, "usedBytes": 12137, "inodesUsed": 134},
        "process_stats": {"process_count": 9},
    }
    assert wanted == pod


def pressed(scale: int) -> Usage:
    return usage(scale, swap_bytes=1, pressure=PRESSED)


def with_pressure() -> StatsSnapshot:
    """A snapshot in which everything has pressure and swap, and swap has no limit."""
    it = snapshot(of_pod=pressed(3), of_container=pressed(2))
    node = replace(it.node, parts={"pods": Used(pressed(50))}, gauges=it.node.gauges._replace(usage=pressed(100)))
    return replace(it, node=node)


def test_pressure_is_reported_of_the_node_its_parts_pods_and_containers() -> None:
    told = spelled(with_pressure(), Depth.SUMMARY)

    node, pod = told["node"], told["pods"][0]
    for one in (node, *node["systemContainers"], pod, *pod["containers"]):
        assert (PSI, PSI, {"time": AT, "psi": PSI}) == (one["cpu"]["psi"], one["memory"]["psi"], one["io"])


def test_without_disks_and_networks_cpu_memory_and_swap_are_reported_with_their_pressure() -> None:
    told = spelled(with_pressure(), Depth.CPU_AND_MEMORY)

    node, pod = told["node"], told["pods"][0]
    assert {"nodeName", "startTime", "systemContainers", "cpu", "memory", "swap"} == node.keys()
    assert {"podRef", "startTime", "containers", "cpu", "memory", "swap"} == pod.keys()
    for one in (*node["systemContainers"], *pod["containers"]):
        assert {"name", "startTime", "cpu", "memory", "swap"} == one.keys()
    for one in (node, *node["systemContainers"], pod, *pod["containers"]):
        assert (PSI, PSI) == (one["cpu"]["psi"], one["memory"]["psi"])
    assert {"time": AT, "swapUsageBytes": 1} == pod["swap"], "a limit that is none leaves nothing available"
    assert 49 == node["swap"]["swapAvailableBytes"]


def test_swap_above_its_limit_leaves_nothing_available() -> None:
    (pod,) = spelled(snapshot(of_container=usage(2, swap_bytes=9, swap_limit_bytes=8)), Depth.SUMMARY)["pods"]

    assert {"time": AT, "swapAvailableBytes": 0, "swapUsageBytes": 9} == pod["containers"][0]["swap"]


@pytest.mark.parametrize("depth", Depth)
def test_a_pod_without_a_cgroup_of_its_own_is_the_sum_of_its_containers(depth: Depth) -> None:
    (pod,) = spelled(snapshot(of_container=usage(2)), depth)["pods"]

    assert (cpu(2, 250), memory(2)) == (pod["cpu"], pod["memory"])


@pytest.mark.parametrize("depth", Depth)
def test_unknown_usage_is_not_reported(depth: Depth) -> None:
    (pod,) = spelled(snapshot(), depth)["pods"]

    assert set() == {"cpu", "memory", "network", "swap", "process_stats"} & pod.keys()
    assert set() == {"cpu", "memory", "swap"} & pod["containers"][0].keys()
    assert pod_used(snapshot().pods[0]) is None


@pytest.mark.parametrize(("wanted", "values"), [(None, []), (None, [None]), (0, [0, None]), (3, [1, None, 2])])
def test_a_sum_is_of_what_is_reported(wanted: int | None, values: list[int | None]) -> None:
    assert wanted == total(values)
