"""A snapshot of a node: what is asked of whom, and what is told where somebody does not answer."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from core.podkit import container, pod
from core.statskit import AT_NS, BOOTED_NS, DISK, at_first, observed, usage
from shell.csikit import NoThreads
from shell.stats.statskit import FakeGauges
from trikubelet.core.containers import NodeFacts
from trikubelet.model import k8s
from trikubelet.model.runtime import PodObservation
from trikubelet.model.runtime_errors import NotImplementedByRuntime, RuntimeUnavailable
from trikubelet.model.stats_snapshot import Used
from trikubelet.model.usage import ContainerStats, Depth, FsUsage, ImageStore, ImageStores, MachineIds
from trikubelet.stats.disks import WAIT_SECONDS_MAX, Disks
from trikubelet.stats.file_systems import FileSystems
from trikubelet.stats.provider import RUNTIME_SECONDS_MAX, SNAPSHOT_SECONDS, StatsProvider
from trikubelet.testing.memory_host import MemoryVolumes, VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

PATH = "kubepods/besteffort/podu1"
LAYER = FsUsage(AT_NS, 5, 1)
LOGS = "/logs/default_pod_u1/app"
IDS = MachineIds("m", "s", "b")
STORE = ImageStore("/images", FsUsage(AT_NS, 70, 7))


@dataclass
class FakeRuntime:
    """A runtime that tells of ``app-0``, or fails, or hangs."""

    failure: Exception | None = None
    hangs: bool = False
    calls: int = 0

    async def container_stats(self) -> list[ContainerStats]:
        await self._answer()
        return [ContainerStats("app-0", usage(9), LAYER)]

    async def stores(self) -> ImageStores:
        await self._answer()
        return ImageStores((STORE,), ())

    async def _answer(self) -> None:
        self.calls += 1
        if self.hangs:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        if self.failure is not None:
            raise self.failure


@dataclass
class Bench:
    """One pod ``u1`` whose container ``app`` runs, and what looks at it."""

    runtime: FakeRuntime = field(default_factory=FakeRuntime)
    gauges: FakeGauges = field(default_factory=FakeGauges)
    facts: NodeFacts = field(default_factory=lambda: NodeFacts("n1"))
    seen: dict[str, PodObservation] = field(default_factory=lambda: {"u1": observed("app")})
    pods: list[k8s.Pod] = field(default_factory=lambda: [pod("app", meta={"uid": uid}) for uid in ("u1", "u2", "../x")])

    named_parts: dict[str, str] = field(default_factory=dict)

    def get(self, uid: str) -> PodObservation:
        return self.seen.get(uid, PodObservation(uid))

    @asynccontextmanager
    async def provider(self) -> AsyncIterator[StatsProvider]:
        disks = Disks(
            gauges=self.gauges,
            volumes=MemoryVolumes(),
            pods=Path("/pods"),
            pod_logs=Path("/logs"),
            clock=VirtualClock(),
            believed_seconds=60.0,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(disks.run)
            file_systems = FileSystems(self.gauges, Path("/root"))
            yield StatsProvider(
                self.runtime,
                self.runtime,
                self.gauges,
                disks,
                file_systems,
                self,
                lambda: self.pods,
                self.facts,
                self.named_parts,
                IDS,
            )
            nursery.cancel_scope.cancel()


def with_cgroups() -> Bench:
    return Bench(gauges=FakeGauges({PATH: usage(3), f"{PATH}/app-0": usage(2), "kubepods": usage(7)}))


async def test_where_cgroups_tell_everything_the_runtime_is_not_asked_for_the_load() -> None:
    bench = with_cgroups()
    async with bench.provider() as provider:
        snapshot = await provider.snapshot(Depth.LOAD)

    (it,) = snapshot.pods
    mean = at_first(2).nanocores
    assert ("u1", f"/{PATH}", Used(usage(3), mean), at_first(2)) == (it.uid, it.cgroup, it.used, it.containers[0].used)
    assert {"pods": at_first(7, BOOTED_NS)} == snapshot.node.parts
    assert IDS == snapshot.node.ids
    assert (0, "") == (bench.runtime.calls, snapshot.problem)


@pytest.mark.parametrize(
    ("limited", "whole", "wanted"),
    [
        ({}, {}, set()),
        ({"memory": "1Gi"}, {}, {"memory"}),
        ({"cpu": "1"}, {"memory": "1Gi"}, {"cpu", "memory"}),
        ({}, {"cpu": "1"}, {"cpu"}),
    ],
)
async def test_what_limits_led_to_is_read_where_the_pod_or_a_container_has_one(
    limited: dict[str, str], whole: dict[str, str], wanted: set[str]
) -> None:
    app = container("app", resources=k8s.ResourceRequirements(limits=limited))
    bench = with_cgroups()
    bench.pods = [pod(app, "b", meta={"uid": "u1"}, resources=k8s.ResourceRequirements(limits=whole))]
    async with bench.provider() as provider:
        await provider.snapshot(Depth.METRICS)

    assert [wanted] == bench.gauges.limited


@pytest.mark.parametrize("depth", Depth)
@pytest.mark.parametrize("facts", [NodeFacts("n1", cgroups_managed=False), NodeFacts("n1")])
async def test_what_has_no_cgroup_of_ours_is_what_the_runtime_says(depth: Depth, facts: NodeFacts) -> None:
    bench = Bench(facts=facts)
    async with bench.provider() as provider:
        (it,) = (await provider.snapshot(depth)).pods

    assert (None, at_first(9)) == (it.used, it.containers[0].used)


async def test_a_deeper_snapshot_has_layers_and_a_summary_disks_and_stores_too() -> None:
    bench = with_cgroups()
    async with bench.provider() as provider:
        metrics, summary = [await provider.snapshot(depth) for depth in (Depth.METRICS, Depth.SUMMARY)]

    assert ({"/kubepods": usage(7)}, {}) == (metrics.node.groups, summary.node.groups)
    for snapshot in (metrics, summary):
        assert (LAYER, at_first(2)) == ((one := snapshot.pods[0].containers[0]).layer, one.used)
    wanted = FsUsage(AT_NS, 70, 7, 600, 1000, 96, 100)
    assert (DISK, wanted, wanted) == (summary.node.disk, summary.node.images, summary.node.layers)
    assert (DISK, None, None) == (metrics.node.disk, metrics.node.images, metrics.node.layers)
    assert ("/dev/sda1", "") == (metrics.node.device, summary.node.device)
    assert 3 == bench.runtime.calls, "the stores are not asked after where nobody shows them"


@pytest.mark.parametrize("failure", [NotImplementedByRuntime("no"), RuntimeUnavailable("away")])
async def test_a_runtime_that_reports_nothing_costs_its_part_and_that_is_said(failure: Exception) -> None:
    bench = with_cgroups()
    bench.runtime.failure = failure
    async with bench.provider() as provider:
        snapshot = await provider.snapshot(Depth.SUMMARY)

    assert (None, at_first(2)) == ((one := snapshot.pods[0].containers[0]).layer, one.used)
    assert (None, True) == (snapshot.node.images, snapshot.problem.startswith("the runtime does not report"))


@pytest.mark.parametrize("depth", list(Depth))
async def test_a_runtime_that_hangs_is_waited_for_once_and_not_for_ever(
    autojump_clock: MockClock, depth: Depth
) -> None:
    bench = Bench()
    bench.runtime.hangs = True
    async with bench.provider() as provider:
        disks = provider._disks
        disks._local = disks._own_files._threads = NoThreads()  # type: ignore[assignment]  # virtual time
        provider._file_systems._threads = NoThreads()  # type: ignore[assignment]
        begun = trio.current_time()
        snapshot = await provider.snapshot(depth)

    assert (RUNTIME_SECONDS_MAX, None) == (trio.current_time() - begun, snapshot.pods[0].containers[0].used)


async def test_disks_that_were_waited_for_are_in_the_next_snapshot(mock_clock: MockClock) -> None:
    bench, gate = with_cgroups(), threading.Event()
    bench.gauges.disks[LOGS] = FsUsage(AT_NS, 5, 5)
    bench.gauges.held[LOGS] = gate
    async with bench.provider() as provider, trio.open_nursery() as nursery:
        nursery.start_soon(provider.snapshot, Depth.SUMMARY)
        while not bench.gauges.asked[LOGS]:
            await trio.lowlevel.checkpoint()
        mock_clock.jump(WAIT_SECONDS_MAX)
        assert not (await provider.snapshot(Depth.SUMMARY)).pods[0].is_disk_measured

        gate.set()
        await provider.disks_measured()
        assert (await provider.snapshot(Depth.SUMMARY)).pods[0].is_disk_measured, "time stands still"


async def test_concurrent_requests_share_one_snapshot_a_second(autojump_clock: MockClock) -> None:
    bench = with_cgroups()
    async with bench.provider() as provider:
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(provider.snapshot, Depth.LOAD)
        assert {"load": 1} == bench.gauges.asked
        await trio.sleep(SNAPSHOT_SECONDS)
        await provider.snapshot(Depth.LOAD)
    assert {"load": 2} == bench.gauges.asked


async def test_a_snapshot_is_spelled_out_in_a_thread() -> None:
    bench = with_cgroups()
    async with bench.provider() as provider:
        name, thread = await provider.shown(Depth.LOAD, lambda snapshot: (snapshot.node.name, threading.get_ident()))

    assert ("n1", False) == (name, thread == threading.get_ident())


async def test_the_agents_own_cgroup_is_a_part_of_the_node() -> None:
    bench = with_cgroups()
    bench.gauges.own = "/system.slice/agent"
    bench.gauges.cgroups["system.slice/agent"] = usage(4)
    async with bench.provider() as provider:
        snapshot = await provider.snapshot(Depth.LOAD)

    assert {"kubelet": at_first(4, BOOTED_NS), "pods": at_first(7, BOOTED_NS)} == snapshot.node.parts


async def test_named_cgroups_of_parts_are_reported_where_they_exist() -> None:
    bench = with_cgroups()
    bench.gauges.own = "/system.slice/agent"
    bench.named_parts = {"kubelet": "/kubelet", "runtime": "/system.slice/containerd.service", "misc": "/missing"}
    bench.gauges.cgroups |= {"kubelet": usage(4), "system.slice/containerd.service": usage(5)}
    async with bench.provider() as provider:
        snapshot = await provider.snapshot(Depth.LOAD)

    wanted = {"kubelet": 4, "runtime": 5, "pods": 7}
    assert {name: at_first(scale, BOOTED_NS) for name, scale in wanted.items()} == snapshot.node.parts


async def test_orphan_with_an_invalid_uid_affects_no_others() -> None:
    bench = with_cgroups()
    bench.seen["../x"] = bench.seen["u1"]
    async with bench.provider() as provider:
        assert ["u1"] == [one.uid for one in (await provider.snapshot(Depth.SUMMARY)).pods]


async def test_a_pod_of_which_nothing_runs_is_not_reported() -> None:
    bench = with_cgroups()
    bench.seen.clear()
    async with bench.provider() as provider:
        assert () == (await provider.snapshot(Depth.LOAD)).pods
