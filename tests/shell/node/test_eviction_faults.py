"""Eviction when something is in its way: what cannot be measured, pods that end anyway, resizes, several disks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import trio

from shell.node.test_eviction import HARD, Hungry, api_pod, bench_with, evictions, node_of
from shell.pods.shellkit import Bench, phase, until
from trikubelet.app.node import run_pressure
from trikubelet.core.eviction import EvictionRules
from trikubelet.core.eviction.thresholds import IMAGEFS, MEMORY, NODEFS, Amount, Threshold
from trikubelet.core.lifecycle import StopReason
from trikubelet.model import k8s
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container
from trikubelet.testing.memory_usage import GIB, MemoryUsage

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from trio.testing import MockClock

    from trikubelet.model.stats_snapshot import NodeUsed, StatsSnapshot
    from trikubelet.model.usage import Depth


def asking(memory: str) -> k8s.ResourceRequirements:
    return k8s.ResourceRequirements(requests={"memory": memory})


CACHE = k8s.Volume(name="cache", empty_dir=k8s.EmptyDirVolumeSource(size_limit="1Mi"))


class NoPods(MemoryUsage):
    """The machine can be measured, its pods cannot."""

    async def snapshot(self, depth: Depth) -> StatsSnapshot:
        await trio.lowlevel.checkpoint()
        raise OSError("cgroups cannot be read")


class NoLayers(MemoryUsage):
    """The runtime does not report what layers take, and the snapshot says so."""

    async def snapshot(self, depth: Depth) -> StatsSnapshot:
        found = await super().snapshot(depth)
        pods = (replace(one, containers=tuple(replace(c, layer=None) for c in one.containers)) for one in found.pods)
        return replace(found, pods=tuple(pods), problem="the runtime does not report what containers use")


class TwoDisks(MemoryUsage):
    """Images on a disk of their own, which the runtime does not report while it is silent."""

    silent = False

    async def node(self) -> NodeUsed:
        node = await super().node()
        return replace(node, images=None) if self.silent else node


async def test_no_pod_is_evicted_while_pods_cannot_be_measured(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(), NoPods()
    within = api_pod("within", container("within", resources=asking("4Gi")), priority=-1)
    async with node_of(bench, usage, within, api_pod("hog", container("hog"))) as node:
        await until(lambda: ["hog", "within"] == bench.running())
        usage.available[MEMORY] = 0
        await trio.sleep(20)
        assert ({}, ["hog", "within"]) == (evictions(node), bench.running())


async def test_no_pod_is_evicted_for_disk_while_layers_cannot_be_measured(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(), NoLayers()
    usage.uses("uid-hog", layer=90 * GIB, container="hog")
    usage.uses("uid-small", logs=1024, container="small")
    async with node_of(bench, usage, api_pod("hog", container("hog")), api_pod("small", container("small"))) as node:
        await until(lambda: ["hog", "small"] == bench.running())
        usage.available[NODEFS] = 0
        await trio.sleep(15)
        assert ({}, ["hog", "small"]) == (evictions(node), bench.running())


class Counting(MemoryUsage):
    """Pods whose directories are counted for the first time: until that was waited for, the largest is unknown."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0
        self.takes_seconds = 5.0

    async def disks_measured(self) -> None:
        self.waits += 1
        await trio.sleep(self.takes_seconds)
        self.uses("uid-hog", logs=90 * GIB, container="hog")


async def test_uncounted_pod_is_counted_before_an_eviction_for_disk(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(), Counting()
    usage.uses("uid-small", logs=1024, container="small")
    async with node_of(bench, usage, api_pod("hog", container("hog")), api_pod("small", container("small"))):
        await until(lambda: ["hog", "small"] == bench.running())
        usage.available[NODEFS] = 0
        await until(lambda: len(bench.running()) < 2)
        assert (["small"], 1) == (bench.running(), usage.waits)


async def test_counting_is_not_waited_for_without_end(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(), Counting()
    usage.takes_seconds = math.inf
    usage.uses("uid-small", logs=1024, container="small")
    async with node_of(bench, usage, api_pod("small", container("small"))):
        await until(lambda: ["small"] == bench.running())
        usage.available[NODEFS] = 0
        begun = trio.current_time()
        await until(lambda: [] == bench.running())
        bounds = bench.bounds
        assert trio.current_time() - begun < bounds.eviction_period_seconds + bounds.eviction_measure_seconds_max + 1


async def test_for_memory_no_directory_is_waited_for(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(), Counting()
    usage.uses("uid-hog", memory=GIB, container="hog")
    async with node_of(bench, usage, api_pod("hog", container("hog"))) as node:
        await until(lambda: ["hog"] == bench.running())
        usage.available[MEMORY] = 0
        await until(lambda: bool(evictions(node)))
        assert 0 == usage.waits


async def test_for_the_disk_of_images_alone_no_directory_is_waited_for(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(Threshold(IMAGEFS, Amount(10 * GIB))), Counting()
    usage.image_disk = True
    usage.uses("uid-hog", layer=90 * GIB, container="hog")
    async with node_of(bench, usage, api_pod("hog", container("hog"))) as node:
        await until(lambda: ["hog"] == bench.running())
        usage.available[IMAGEFS] = 0
        await until(lambda: bool(evictions(node)))
        assert 0 == usage.waits


async def test_unmeasured_pods_are_logged_once(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with node_of(bench_with(), NoPods(), api_pod("web", container("web"), volumes=(CACHE,))):
        await trio.sleep(590)
    assert 1 == caplog.text.count("Cannot measure the usage of pods")


async def test_one_message_hides_no_other(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    usage = MemoryUsage()
    usage.available[MEMORY] = 0
    usage.problem = "no /proc"
    async with node_of(bench_with(), usage, api_pod("vital", container("vital"), priority=2_000_000_000)):
        await trio.sleep(30)
        usage.problem = ""
        await trio.sleep(30)
    assert "The node cannot be measured" in caplog.text
    assert "No pod can be evicted" in caplog.text


async def test_a_pod_that_ends_slowly_is_evicted_before_an_innocent_one(autojump_clock: MockClock) -> None:
    bench = bench_with()
    usage = Hungry(bench, hog=0, within=2 * GIB)
    usage.uses("uid-hog", memory=5 * GIB, container="hog")
    hog = api_pod("hog", container("hog", ["stubborn"]), grace=3600)
    within = api_pod("within", container("within", resources=asking("4Gi")))
    async with node_of(bench, usage, hog, within) as node:
        await until(lambda: ["hog", "within"] == bench.running())
        node.slots["api"].put(Snapshot((within,)))  # the hog is removed, and has an hour to end
        await until(lambda: node.workers.is_termination_requested("uid-hog"))
        await trio.sleep(1)
        usage._sizes["hog"] = 5 * GIB
        await until(lambda: bench.running() != ["hog", "within"], 60)
        assert (["within"], False) == (bench.running(), node.workers.is_termination_requested("uid-within"))


class Ending(MemoryUsage):
    """A pod is removed in the midst of being measured."""

    end: Callable[[], None] | None = None

    async def snapshot(self, depth: Depth) -> StatsSnapshot:
        if self.end is not None:
            self.end()
        return await super().snapshot(depth)


async def test_a_pod_removed_while_it_is_measured_keeps_no_look_waiting(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(), Ending()
    greedy = api_pod("greedy", container("greedy", ["stubborn"]), volumes=(CACHE,), grace=600)
    async with node_of(bench, usage, greedy) as node:
        await until(lambda: ["greedy"] == bench.running())
        await trio.sleep(15)
        usage.uses("uid-greedy", volumes={"cache": 1 << 21})
        usage.end = lambda: node.workers.stop("uid-greedy", StopReason.REMOVED)
        await until(lambda: node.workers.is_termination_requested("uid-greedy"))
        began = trio.current_time()
        usage.available[MEMORY] = 0
        await until(lambda: node.eviction.conditions() != (), 60)
        assert trio.current_time() - began <= 15


async def test_a_pod_beyond_its_own_limit_is_no_disruption(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(), MemoryUsage()
    usage.uses("uid-greedy", volumes={"cache": 1 << 21})
    async with node_of(bench, usage, api_pod("greedy", container("greedy"), volumes=(CACHE,))) as node:
        await until(lambda: phase(node, "uid-greedy") == "Failed")
        ended = node.statuses.get("uid-greedy")
        assert ended is not None
        assert "Evicted" == ended.reason
        assert [] == [one.type for one in ended.conditions if one.type == "DisruptionTarget"]


async def test_image_disk_missing_once_evicts_no_pod(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(), TwoDisks()
    usage.image_disk = True
    usage.uses("uid-two", layer=1 << 21)  # on the images' disk: no matter of the container's limit
    main = k8s.ResourceRequirements(limits={"ephemeral-storage": "1Mi"})
    much = k8s.ResourceRequirements(limits={"ephemeral-storage": "1Gi"})
    two = api_pod("two", container("main", resources=main), container("much", resources=much))
    async with node_of(bench, usage, two) as node:
        await until(lambda: ["main", "much"] == bench.running())
        await trio.sleep(60)
        usage.silent = True
        await trio.sleep(11)
        usage.silent = False
        await trio.sleep(30)
        assert ({}, ["main", "much"]) == (evictions(node), bench.running())


async def test_an_agent_that_starts_under_pressure_takes_no_best_effort_pod(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(), MemoryUsage()
    usage.available[MEMORY] = 0
    async with bench.agent(sources=("api", "file")) as node, trio.open_nursery() as nursery:
        nursery.start_soon(run_pressure, node, usage)
        await trio.sleep(0.5)  # until the API server answers
        node.slots["file"].put(Snapshot())
        node.slots["api"].put(Snapshot((api_pod("none", container("none")),)))
        await until(lambda: phase(node, "uid-none") == "Failed")
        assert [] == bench.running()
        nursery.cancel_scope.cancel()


async def test_resize_that_was_not_granted_protects_no_pod(autojump_clock: MockClock) -> None:
    bench = Bench(allocatable={"memory": 8 * GIB, "cpu": 4000, "pods": 110})
    bench.eviction = EvictionRules(HARD)
    usage = Hungry(bench, hog=4 * GIB, small=GIB + GIB // 2)
    hog = api_pod("hog", container("hog", resources=asking("1Gi")))
    small = api_pod("small", container("small", resources=asking("512Mi")))
    async with node_of(bench, usage, hog, small) as node:
        usage._sizes["hog"] = 0
        await until(lambda: ["hog", "small"] == bench.running())
        wants = msgspec.structs.replace(hog.spec.containers[0], resources=asking("900Gi"))
        spec = msgspec.structs.replace(hog.spec, containers=(wants,))
        node.slots["api"].put(Snapshot((msgspec.structs.replace(hog, spec=spec), small)))
        await trio.sleep(5)
        usage._sizes["hog"] = 4 * GIB
        await until(lambda: len(bench.running()) < 2, 30)
        assert ["small"] == bench.running()


async def test_no_more_than_one_pod_a_second_is_evicted(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(), MemoryUsage()
    async with node_of(bench, usage, *(api_pod(f"p{n}", container("main")) for n in range(60))) as node:
        await until(lambda: len(bench.running()) == 60)
        usage.available[MEMORY] = GIB - 1
        await until(lambda: bool(evictions(node)), 15)
        await trio.sleep(10)
        assert evictions(node)["memory.available"] <= 11
