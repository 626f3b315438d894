"""A snapshot, put together of what was found out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.podkit import STARTED_AT, container, pod
from core.statskit import AT_NS, BOOTED_NS, DISK, ETH0, at_first, machine, observed, usage
from trikubelet.core.stats.assembly import Disk, Found, PodFound, assembled
from trikubelet.core.stats.summary import total
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.model import k8s
from trikubelet.model.stats_snapshot import ContainerUsed, PodUsed, Used, VolumeUsed
from trikubelet.model.usage import ContainerStats, FsUsage, PodGauges

LIMITS = k8s.ResourceRequirements(limits={"cpu": "250m", "memory": "1Mi"})
POD = pod(container("a", resources=LIMITS), container("b"), meta={"uid": "u1"})
LAYER = FsUsage(AT_NS, 5, 1)
LOGS = FsUsage(AT_NS, 6, 2)


def found(gauges: PodGauges, **more: object) -> Found:
    """One pod whose containers ``a`` and ``b`` run."""
    disk = Disk({"a": LOGS}, (VolumeUsed("v", DISK),))
    fields = {"parts": {"pods": usage(7), "gone": None}, "runtime_stats": {}, "disk": DISK} | more
    return Found("n1", machine(), [PodFound(POD, observed("a", "b"), "/kubepods/podu1", gauges, disk)], **fields)


def test_a_container_is_what_its_cgroup_says_and_what_the_runtime_says_of_its_files() -> None:
    told = {"a-0": ContainerStats("a-0", usage(99), LAYER)}
    snapshot, _ = assembled(
        found(PodGauges(usage(3), {"a-0": usage(1), "b-0": usage(2)}, (ETH0,)), runtime_stats=told), {}
    )

    a = ContainerUsed("a", "a-0", "image:1", STARTED_AT, at_first(1), LAYER, LOGS, 250, 1 << 20, 256)
    b = ContainerUsed("b", "b-0", "image:1", STARTED_AT, at_first(2), cpu_shares=2)
    rate = total(one.used and one.used.nanocores for one in (a, b))
    wanted = PodUsed(
        "u1", "pod", "default", AT_NS - SECOND_NS, "/kubepods/podu1", Used(usage(3), rate), (ETH0,), (a, b),
        (VolumeUsed("v", DISK),),
    )  # fmt: skip
    assert (wanted,) == snapshot.pods


@pytest.mark.parametrize("is_measured", [True, False])
def test_it_says_where_a_pods_disk_could_not_be_measured(is_measured: bool) -> None:
    (it,) = found(PodGauges(None, {})).pods
    snapshot, _ = assembled(
        replace(found(PodGauges(None, {})), pods=[it._replace(disk=Disk({}, (), is_measured=is_measured))]), {}
    )

    assert [is_measured] == [one.is_disk_measured for one in snapshot.pods]


def test_without_a_cgroup_a_container_is_what_the_runtime_says_and_its_pod_the_sum() -> None:
    told = {"a-0": ContainerStats("a-0", usage(99), LAYER)}
    snapshot, _ = assembled(found(PodGauges(usage(3), {}), runtime_stats=told), {})

    (it,) = snapshot.pods
    assert (None, [at_first(99), None]) == (it.used, [one.used for one in it.containers])


def test_the_node_and_its_parts_are_reported_and_a_part_that_is_not_there_is_not() -> None:
    snapshot, _ = assembled(found(PodGauges(None, {}), problem="why"), {})

    assert ("n1", machine(), DISK, {"pods": at_first(7, BOOTED_NS)}) == (
        snapshot.node.name, snapshot.node.gauges, snapshot.node.disk, snapshot.node.parts
    )  # fmt: skip
    assert "why" == snapshot.problem


def test_rates_go_on_from_the_snapshot_before_and_of_what_has_gone_nothing_is_kept() -> None:
    gauges = PodGauges(usage(3), {"a-0": usage(1), "b-0": usage(2)})
    _, first = assembled(found(gauges), {})
    assert {"node", "part pods", "u1", "a-0", "b-0"} == first.keys()

    later = replace(usage(2), at_ns=AT_NS + 10 * SECOND_NS)
    snapshot, second = assembled(found(PodGauges(None, {"a-0": later}), parts={}), first)
    assert [100_000_000, None] == [one.used and one.used.nanocores for one in snapshot.pods[0].containers]
    assert {"node", "a-0"} == second.keys()


@pytest.mark.parametrize("spec", [None, k8s.ResourceRequirements(), k8s.ResourceRequirements(requests={"cpu": "1"})])
def test_a_container_without_limits_has_none(spec: k8s.ResourceRequirements | None) -> None:
    it = pod(container("a", resources=spec), meta={"uid": "u1"})
    alone = PodFound(it, observed("a"), "", PodGauges(None, {}))
    snapshot, _ = assembled(replace(found(PodGauges(None, {})), pods=[alone]), {})

    (one,) = snapshot.pods[0].containers
    assert (None, None, None) == (one.cpu_millis, one.memory_limit_bytes, one.used)
