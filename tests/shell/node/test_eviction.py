"""A node that runs short ends one pod at a time, reclaims first where that helps, and says so."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from shell.app.test_translated_settings import settings_of
from shell.pods.shellkit import Bench, phase, until
from trikubelet.app.node import run_pressure
from trikubelet.app.translate import rules_of
from trikubelet.core.eviction import EvictionRules
from trikubelet.core.eviction.thresholds import MEMORY, NODEFS, PIDS, Amount, Threshold
from trikubelet.core.image_garbage import ImageRules
from trikubelet.core.node_status import Pressures
from trikubelet.model import k8s
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_usage import GIB, MemoryUsage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.app.node import Node
    from trikubelet.model.stats_snapshot import NodeUsed

HARD = (Threshold(MEMORY, Amount(GIB)), Threshold(NODEFS, Amount(10 * GIB)), Threshold(PIDS, Amount(100)))
SOFT = (Threshold(MEMORY, Amount(2 * GIB), 30.0),)


class Shrinking(MemoryUsage):
    """A node whose disk has more room for each image that is removed."""

    def __init__(self, bench: Bench, bytes_per_image: int) -> None:
        super().__init__()
        self._bench = bench
        self._bytes_per_image = bytes_per_image

    async def node(self) -> NodeUsed:
        images = await self._bench.images.list_images()
        self.available[NODEFS] = 12 * GIB - self._bytes_per_image * len(images)
        return await super().node()


class Hungry(MemoryUsage):
    """A node on which each container takes so much memory while it runs."""

    def __init__(self, bench: Bench, **sizes: int) -> None:
        super().__init__()
        self._bench = bench
        self._sizes = sizes
        for name, size in sizes.items():
            self.uses(f"uid-{name}", memory=size, container=name)

    async def node(self) -> NodeUsed:
        self.available[MEMORY] = 6 * GIB - sum(self._sizes[name] for name in self._bench.running())
        return await super().node()


class RunningDown(MemoryUsage):
    """A node with so much memory left, by how many containers run."""

    def __init__(self, bench: Bench, left: Mapping[int, int]) -> None:
        super().__init__()
        self._bench = bench
        self._left = left

    async def node(self) -> NodeUsed:
        self.available[MEMORY] = self._left[len(self._bench.running())]
        return await super().node()


def api_pod(name: str, *containers: k8s.Container, **fields: Any) -> k8s.Pod:
    return pod(name, *containers, source="api", **fields)


@asynccontextmanager
async def node_of(bench: Bench, usage: MemoryUsage, *pods: k8s.Pod) -> AsyncIterator[Node]:
    async with bench.agent(*pods, sources=("api", "file")) as node, trio.open_nursery() as nursery:
        nursery.start_soon(run_pressure, node, usage)
        node.slots["file"].put(Snapshot())
        yield node
        nursery.cancel_scope.cancel()


def bench_with(*thresholds: Threshold, **rules: Any) -> Bench:
    bench = Bench()
    bench.eviction = EvictionRules(thresholds or HARD, **rules)
    return bench


def evictions(node: Node) -> dict[str, int]:
    return dict(node.eviction.evicted)


def reasons(node: Node, uid: str) -> list[str]:
    return [event.reason for event in node.events.about(uid)]


async def test_the_pod_furthest_beyond_its_request_ends_first_and_one_at_a_time(autojump_clock: MockClock) -> None:
    bench = bench_with()
    usage = Hungry(bench, hog=3 * GIB, snack=GIB // 2, within=2 * GIB)
    asked = k8s.ResourceRequirements(requests={"memory": "4Gi"})
    hog, snack = api_pod("hog", container("hog", ["stubborn"]), grace=60), api_pod("snack", container("snack"))
    within = api_pod("within", container("within", resources=asked))
    async with node_of(bench, usage, hog, snack, within) as node:
        await until(lambda: ["hog", "snack", "within"] == bench.running())
        await until(lambda: bench.running() == ["snack", "within"], 15)
        await trio.sleep(60)

        assert ["snack", "within"] == bench.running()
        ended = node.statuses.get("uid-hog")
        assert ended is not None
        assert ("Failed", "Evicted") == (ended.phase, ended.reason)
        assert (
            "The node was low on resource: memory. Threshold quantity: 1Gi, available: 512Mi. Container hog was using "
            "3Gi, request is 0, has larger consumption of memory. "
        ) == ended.message
        (target,) = [one for one in ended.conditions if one.type == "DisruptionTarget"]
        assert ("True", "TerminationByKubelet", ended.message) == (target.status, target.reason, target.message)
        assert "Evicted" in reasons(node, "uid-hog")
        assert {"memory.available": 1} == evictions(node)
        assert ["memory.available"] == list(node.eviction.stats_ages)
        assert ("MemoryPressure",) == node.eviction.conditions()  # for five minutes
        await until(lambda: node.eviction.conditions() == (), 300)


async def test_a_shortage_is_over_beyond_the_reclaim_and_its_condition_after_the_period_of_the_configuration(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    settings = settings_of(
        tmp_path,
        enforceNodeAllocatable=[],  # the memory of all pods is no threshold here
        evictionHard={"memory.available": "1Gi"},
        evictionMinimumReclaim={"memory.available": "1Gi"},
        evictionPressureTransitionPeriod="40s",
    )
    bench = Bench()
    bench.eviction = rules_of(settings, bench.bounds).eviction
    usage = RunningDown(bench, {0: 3 * GIB, 1: 3 * GIB // 2, 2: GIB // 2})
    pods = [api_pod(name, container(name)) for name in "ab"]
    async with node_of(bench, usage, *pods) as node:
        await until(lambda: bench.running() == ["a", "b"])
        await until(lambda: bench.running() == [], 60)
        assert {"memory.available": 2} == evictions(node)
        began = trio.current_time()
        await until(lambda: node.eviction.conditions() == (), 60)

        assert 25 < trio.current_time() - began < 55


async def test_while_it_is_still_short_the_next_one_ends_when_the_first_is_over(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(), MemoryUsage()
    pods = [api_pod(name, container(name, ["stubborn"])) for name in ("a", "b", "c")]
    for size, name in enumerate("abc", 1):
        usage.uses(f"uid-{name}", memory=size * GIB, container=name)
    usage.available[MEMORY] = 0
    async with node_of(bench, usage, *pods) as node:
        await until(lambda: node.eviction.evicted["memory.available"] == 1, 15)
        with trio.fail_after(60):
            for left in (["a", "b"], ["a"], []):
                while bench.running() != left:
                    ending = sum(node.workers.is_termination_requested(f"uid-{name}") for name in "abc")
                    assert ending - (3 - len(bench.running())) <= 1
                    await trio.sleep(0.05)
        assert {"memory.available": 3} == evictions(node)


async def test_critical_pods_stay_and_the_operator_is_told(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench, usage = bench_with(), MemoryUsage()
    vital = api_pod("vital", container("vital"), priority=2_000_000_000)
    usage.available[MEMORY] = 0
    with caplog.at_level(logging.WARNING):
        async with node_of(bench, usage, vital) as node:
            node.slots["file"].put(Snapshot((pod("static", container("static")),)))
            await until(lambda: ["static", "vital"] == bench.running())
            await trio.sleep(120)

            assert ["static", "vital"] == bench.running()
            assert {} == evictions(node)
            assert Pressures(memory=True) == Pressures.of(node.eviction.conditions())
    assert 1 == caplog.text.count("No pod can be evicted although memory.available is short")
    assert 1 == caplog.text.count("The node has the condition MemoryPressure: memory.available is 0, the threshold")


async def test_a_soft_threshold_waits_and_leaves_the_pod_its_grace(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(*SOFT, grace_seconds_max=20), MemoryUsage()
    stubborn = api_pod("stubborn", container("main", ["stubborn"]), grace=50)
    async with node_of(bench, usage, stubborn) as node:
        await until(lambda: ["main"] == bench.running())
        usage.available[MEMORY] = GIB
        began = trio.current_time()
        await until(lambda: node.workers.is_termination_requested("uid-stubborn"))
        assert 30 <= trio.current_time() - began <= 42
        began = trio.current_time()
        await until(lambda: bench.running() == [])
        assert 19.9 < trio.current_time() - began < 22


async def test_disk_is_reclaimed_before_a_pod_ends(autojump_clock: MockClock) -> None:
    bench = bench_with()
    bench.image_rules = ImageRules(high_percent=100)
    usage = Shrinking(bench, GIB)
    async with node_of(bench, usage, api_pod("web", container("web"))) as node:
        await until(lambda: ["web"] == bench.running())
        await trio.sleep(60)
        assert 0 == node.image_garbage.removed["space"]
        await bench.images.pull_image("web:2")  # what makes the disk too full
        await until(lambda: node.image_garbage.removed["space"] > 0, 15)
        await trio.sleep(60)

        assert ({}, ["web"]) == (evictions(node), bench.running())
        assert ["app:1", "web:2"] == [one.repo_tags[0] for one in await bench.images.list_images()]
        told = [event.message for event in node.events.all() if event.reason == "EvictionThresholdMet"]
        assert ["Attempting to reclaim ephemeral-storage"] == told


async def test_dead_containers_of_pods_that_have_ended_go_for_disk(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(), MemoryUsage()
    job = api_pod("job", container("job", ["exit", "0", "1"]), policy="Never")
    async with node_of(bench, usage, job) as node:
        await until(lambda: phase(node, "uid-job") == "Succeeded")
        await trio.sleep(120)
        assert ["job"] == [one.name for one in bench.world.all_containers()]
        usage.available[NODEFS] = 0
        await until(lambda: not bench.world.all_containers(), 15)


async def test_before_every_source_has_sent_its_pods_only_dead_containers_are_removed(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench, usage = bench_with(), MemoryUsage()
    volume = k8s.Volume(name="cache", empty_dir=k8s.EmptyDirVolumeSource(size_limit="1Mi"))
    usage.uses("uid-greedy", volumes={"cache": 1 << 30})
    job = api_pod("job", container("job", ["exit", "0", "1"]), policy="Never")
    pods = job, api_pod("greedy", container("greedy"), volumes=(volume,))
    async with bench.agent(*pods, sources=("api", "file")) as node, trio.open_nursery() as nursery:
        nursery.start_soon(run_pressure, node, usage)
        await until(lambda: phase(node, "uid-job") == "Succeeded" and bench.running() == ["greedy"])
        await bench.images.pull_image("web:2")
        await trio.sleep(120)
        usage.available[NODEFS] = 0
        await until(lambda: [one.name for one in bench.world.all_containers()] == ["greedy"], 60)
        await trio.sleep(60)

        assert ({}, ["greedy"]) == (evictions(node), bench.running())
        assert 0 == node.image_garbage.removed["space"]
        nursery.cancel_scope.cancel()
    assert 1 == caplog.text.count("No pod is evicted although ephemeral-storage is short: no pods received yet: file")


async def test_a_pod_beyond_its_own_limit_ends_whatever_the_node_has_left(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(), MemoryUsage()
    volume = k8s.Volume(name="cache", empty_dir=k8s.EmptyDirVolumeSource(size_limit="1Mi"))
    greedy = api_pod("greedy", container("greedy"), volumes=(volume,))
    async with node_of(bench, usage, greedy, api_pod("modest", container("modest"))) as node:
        await until(lambda: ["greedy", "modest"] == bench.running())
        usage.uses("uid-greedy", volumes={"cache": 1 << 20})
        await trio.sleep(30)
        assert ["greedy", "modest"] == bench.running()
        usage.uses("uid-greedy", volumes={"cache": (1 << 20) + 1})
        await until(lambda: bench.running() == ["modest"], 15)

        ended = node.statuses.get("uid-greedy")
        assert ended is not None
        assert 'Usage of EmptyDir volume "cache" exceeds the limit "1Mi". ' == ended.message
        assert {"emptydirfs.limit": 1} == evictions(node)
        assert () == node.eviction.conditions()


async def test_no_storage_limit_applies_without_its_isolation(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(local_limits=False), MemoryUsage()
    volume = k8s.Volume(name="cache", empty_dir=k8s.EmptyDirVolumeSource(size_limit="1Mi"))
    usage.uses("uid-greedy", volumes={"cache": 1 << 30})
    async with node_of(bench, usage, api_pod("greedy", container("greedy"), volumes=(volume,))) as node:
        await until(lambda: ["greedy"] == bench.running())
        await trio.sleep(60)
        assert ({}, ["greedy"]) == (evictions(node), bench.running())


async def test_node_under_pressure_admits_only_allowed_pods(autojump_clock: MockClock) -> None:
    bench, usage = bench_with(), MemoryUsage()
    usage.available[MEMORY] = 0
    async with node_of(bench, usage) as node:
        await until(lambda: node.eviction.conditions() != ())
        usage.available[MEMORY] = 4 * GIB
        asked = container("asked", resources=k8s.ResourceRequirements(requests={"memory": "1Mi"}))
        node.slots["api"].put(Snapshot((api_pod("none", container("none")), api_pod("asked", asked))))
        await until(lambda: bench.running() == ["asked"])
        await until(lambda: phase(node, "uid-none") == "Failed")

        refused = node.statuses.get("uid-none")
        assert refused is not None
        assert ("Evicted", "Pod was rejected: The node had condition: [MemoryPressure]. ") == (
            refused.reason,
            refused.message,
        )


async def test_unmeasured_node_evicts_no_pod_and_is_logged_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench, usage = bench_with(), MemoryUsage()
    usage.available[MEMORY] = 0
    usage.problem = "no /proc"
    with caplog.at_level(logging.WARNING):
        async with node_of(bench, usage, api_pod("web", container("web"))) as node:
            await until(lambda: ["web"] == bench.running())
            await trio.sleep(100)
            assert ({}, ()) == (evictions(node), node.eviction.conditions())
            usage.problem = ""
            await until(lambda: bench.running() == [], 15)
    assert 1 == caplog.text.count("The node cannot be measured, no pod is evicted: no /proc")


async def test_a_bug_in_looking_ends_neither_the_agent_nor_the_next_look(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench, usage = bench_with(), MemoryUsage()
    usage.available[MEMORY] = 0
    monkeypatch.setattr(usage, "snapshot", None)
    async with node_of(bench, usage, api_pod("web", container("web"))) as node:
        await until(lambda: "a bug in looking whether it is short of anything" in caplog.text)
        monkeypatch.undo()
        await until(lambda: bench.running() == [] and bool(evictions(node)), 60)


async def test_an_evicted_pod_that_does_not_end_delays_the_next_look_by_half_a_minute(
    autojump_clock: MockClock,
) -> None:
    bench, usage = bench_with(), MemoryUsage()
    usage.available[MEMORY] = 0
    stuck, other = api_pod("stuck", container("stuck")), api_pod("other", container("other"))
    usage.uses("uid-stuck", memory=2 * GIB)
    usage.uses("uid-other", memory=GIB)
    async with node_of(bench, usage, stuck, other) as node:
        await until(lambda: node.eviction.evicted["memory.available"] == 1, 15)
        began = trio.current_time()
        await until(lambda: node.eviction.evicted["memory.available"] == 2, 60)
        assert trio.current_time() - began <= 31
