"""Unused images go when their disk is full or when they are old, and nothing that may be used does."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Bench, until
from trikubelet.app.node import run_pressure
from trikubelet.core.eviction import EvictionRules
from trikubelet.core.eviction.thresholds import MEMORY, NODEFS, Amount, Threshold
from trikubelet.core.image_garbage import ImageRules
from trikubelet.model import k8s
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.chance import Problems
from trikubelet.testing.memory_images import MemoryImages
from trikubelet.testing.memory_usage import GIB, TOTAL, MemoryUsage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from trio.testing import MockClock

    from trikubelet.app.node import Node
    from trikubelet.model.runtime import ImageInfo

FULL = TOTAL[NODEFS] // 10
"""Of the disk so much is available: 90 % are used."""


class Stubborn(MemoryImages):
    """Images that are in use for the runtime, whatever the agent says."""

    async def remove_image(self, image: str) -> None:
        await super().remove_image("")
        raise RuntimeFailure(f"{image}: in use")


class Failing(Problems):
    """Images that cannot be listed."""

    async def before(self, method: str) -> None:
        await super().before(method)
        if method == "ListImages":
            raise RuntimeFailure("broken")


class Uninspectable(Problems):
    """Containers that run and cannot be inspected."""

    async def before(self, method: str, *, may_hang: bool = True) -> None:
        await super().before(method, may_hang=may_hang)
        if method == "ContainerStatus":
            raise RuntimeFailure("broken")


@asynccontextmanager
async def node_of(bench: Bench, usage: MemoryUsage, *pods: k8s.Pod) -> AsyncIterator[Node]:
    async with bench.agent(*pods) as node, trio.open_nursery() as nursery:
        await until(lambda: len(bench.running()) == len(pods))
        nursery.start_soon(run_pressure, node, usage)
        yield node
        nursery.cancel_scope.cancel()


def bench_of(*images: str, rules: ImageRules | None = None) -> Bench:
    bench = Bench()
    bench.images = MemoryImages(images, ["web:2"])
    bench.image_rules = rules or ImageRules()
    return bench


def full() -> MemoryUsage:
    usage = MemoryUsage()
    usage.available[NODEFS] = FULL
    return usage


async def names(bench: Bench) -> Sequence[str]:
    return [one.repo_tags[0] for one in await bench.images.list_images()]


def node_events(node: Node) -> list[tuple[str, str]]:
    return [(event.reason, event.message) for event in node.events.all() if event.about.kind == "Node"]


async def test_on_a_full_disk_unused_images_go_and_used_ones_stay(autojump_clock: MockClock) -> None:
    bench = bench_of("app:1", "app:2", "k8s.gcr.io/pause:3.9")
    async with node_of(bench, full(), pod("web", container("web", image="app:1"))) as node:
        await until(lambda: node.image_garbage.removed["space"] == 1)
        await trio.sleep(600)

        assert ["app:1", "k8s.gcr.io/pause:3.9"] == await names(bench)
        wanted = TOTAL[NODEFS] * 20 // 100 - FULL
        failed = (
            f"Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, but only found "
        )
        assert [
            ("FreeDiskSpaceFailed", failed + "1000 bytes eligible to free."),
            ("FreeDiskSpaceFailed", failed + "0 bytes eligible to free."),
            ("ImageGCFailed", failed + "0 bytes eligible to free."),
        ] == sorted(node_events(node), key=lambda one: (one[0], -len(one[1])))


async def test_below_the_threshold_nothing_goes(autojump_clock: MockClock) -> None:
    bench = bench_of("app:1", "app:2")
    async with node_of(bench, MemoryUsage(), pod("web")) as node:
        await trio.sleep(1000)
        assert ["app:1", "app:2"] == await names(bench)
        assert [] == node_events(node)


async def test_only_as_many_go_as_are_needed_the_longest_unused_first(autojump_clock: MockClock) -> None:
    bench = bench_of("app:1", "app:2", "app:3", rules=ImageRules(high_percent=90, low_percent=90))
    usage = full()
    usage.available[NODEFS] -= 1
    first = pod("web", container("web", image="app:1"))
    async with node_of(bench, MemoryUsage(), first) as node:
        await trio.sleep(400)  # app:1 was used until now
        node.slots["file"].put(Snapshot())
        await until(lambda: not bench.world.containers and not bench.running())
        async with trio.open_nursery() as nursery:
            await nursery.start(node.image_garbage.run, usage)
            await until(lambda: node.image_garbage.removed["space"] == 1, 700)
            nursery.cancel_scope.cancel()

        assert ["app:1", "app:3"] == await names(bench)


async def test_an_image_that_is_old_goes_from_a_disk_with_room(autojump_clock: MockClock) -> None:
    bench = bench_of("app:1", "app:2", rules=ImageRules(unused_seconds_max=3600))
    async with node_of(bench, MemoryUsage(), pod("web", container("web", image="app:1"))) as node:
        await trio.sleep(3000)
        assert ["app:1", "app:2"] == await names(bench)
        await trio.sleep(1200)
        assert ["app:1"] == await names(bench)
        assert {"age": 1} == node.image_garbage.removed


async def test_an_image_just_pulled_is_kept_until_it_is_old_enough(autojump_clock: MockClock) -> None:
    bench = bench_of("app:1", rules=ImageRules(age_seconds_min=500))
    async with node_of(bench, full()) as node:
        await until(lambda: node.image_garbage.removed["space"] == 1)
        await bench.images.pull_image("web:2")
        await trio.sleep(700)  # seen after 300
        assert ["web:2"] == await names(bench)
        await trio.sleep(300)
        assert [] == await names(bench)


async def test_a_mounted_image_stays(autojump_clock: MockClock) -> None:
    bench = bench_of("app:1", "docker.io/library/model:latest")
    volume = k8s.Volume(name="model", image=k8s.ImageVolumeSource(reference="model", pull_policy="Never"))
    # Its container is not made, so that only the spec tells of the image.
    node_pod = pod("web", container("web", image="app:1"), volumes=(volume,))
    async with node_of(bench, full(), node_pod):
        await trio.sleep(700)
        assert ["app:1", "docker.io/library/model:latest"] == await names(bench)


async def test_before_every_source_has_spoken_nothing_goes(autojump_clock: MockClock) -> None:
    bench = bench_of("app:1")
    async with bench.agent(sources=("api", "file")) as node, trio.open_nursery() as nursery:
        nursery.start_soon(run_pressure, node, full())
        await trio.sleep(1000)
        assert ["app:1"] == await names(bench)
        node.slots["file"].put(Snapshot())
        await until(lambda: node.image_garbage.removed["space"] == 1, 400)
        nursery.cancel_scope.cancel()


async def test_an_image_that_cannot_be_removed_keeps_no_other_and_is_said_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.images = Stubborn(["app:1", "app:2"])
    with caplog.at_level(logging.WARNING):
        async with node_of(bench, full()) as node:
            await trio.sleep(1000)
            assert {} == node.image_garbage.removed
    assert [1, 1] == [caplog.text.count(f"Image app:{n} cannot be removed") for n in (1, 2)]


async def test_a_runtime_that_fails_is_told_from_the_second_time_on(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.images = MemoryImages(["app:1"], problems=Failing())
    async with node_of(bench, full()) as node:
        await trio.sleep(100)
        assert [] == node_events(node)
        await trio.sleep(400)
        assert [("ImageGCFailed", "broken")] == node_events(node)


class Silent(MemoryImages):
    """A runtime that lists no images, for ever."""

    async def list_images(self) -> Sequence[ImageInfo]:
        await trio.sleep_forever()
        raise AssertionError


async def test_a_runtime_that_does_not_answer_is_reported_in_words(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.images = Silent(["app:1"])
    async with node_of(bench, full()) as node:
        await trio.sleep(1500)
        why = f"the runtime did not answer in {bench.bounds.runtime_call_seconds_max:g} s"
        assert {("ImageGCFailed", why)} == set(node_events(node))
    assert f"Image garbage collection failed: {why}" in caplog.text
    assert "TooSlowError" not in caplog.text


async def test_what_is_removed_for_disk_pressure_waits_for_a_collection_under_way(autojump_clock: MockClock) -> None:
    bench = bench_of("app:1", "app:2", "app:3")
    async with node_of(bench, full()) as node:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.image_garbage.remove_unused)
            nursery.start_soon(node.image_garbage.remove_unused)
        assert [] == await names(bench)
        assert {"space": 3} == node.image_garbage.removed


class Slow(MemoryImages):
    """A runtime that takes long to remove one image, or for ever to remove any."""

    seconds = 100.0
    slow = ("sha256:app:1",)

    async def remove_image(self, image: str) -> None:
        if not self.slow or image in self.slow:
            await trio.sleep(self.seconds)
        await super().remove_image(image)


async def test_an_image_taken_into_use_while_others_are_removed_stays(autojump_clock: MockClock) -> None:
    bench, usage = bench_of(), MemoryUsage()
    bench.images = Slow(["app:1", "app:2"])
    async with node_of(bench, usage) as node:
        await trio.sleep(250)
        usage.available[NODEFS] = FULL
        await trio.sleep(60)  # app:1 is being removed
        node.slots["file"].put(Snapshot((pod("web", container("web", image="app:2")),)))
        await until(lambda: bench.running() == ["web"], 20)
        await trio.sleep(200)
        assert ["web"] == bench.running()
        assert ["app:2"] == await names(bench)


async def test_a_runtime_that_removes_no_image_holds_up_no_eviction(autojump_clock: MockClock) -> None:
    bench, usage = bench_of(rules=ImageRules(high_percent=100)), MemoryUsage()
    bench.images = hanging = Slow([f"app:{n}" for n in range(30)])
    hanging.slow, hanging.seconds = (), float("inf")
    bench.eviction = EvictionRules((Threshold(NODEFS, Amount(10 * GIB)), Threshold(MEMORY, Amount(GIB))))
    async with node_of(bench, usage, pod("web", container("web"))) as node:
        await until(lambda: ["web"] == bench.running())
        await trio.sleep(200)
        usage.available[NODEFS] = 9 * GIB
        await trio.sleep(20)
        usage.available[MEMORY] = 0
        with trio.fail_after(60):
            await until(lambda: "MemoryPressure" in node.eviction.conditions(), 60)


async def test_an_image_that_cannot_be_removed_in_time_ends_the_round(autojump_clock: MockClock) -> None:
    bench = bench_of()
    bench.images = hanging = Slow([f"app:{n}" for n in range(30)])
    hanging.slow, hanging.seconds = (), float("inf")
    async with node_of(bench, full()) as node:
        await trio.sleep(200)
        with trio.fail_after(bench.bounds.runtime_call_seconds_max + 1):
            await node.image_garbage.remove_unused()


async def test_a_pod_that_cannot_be_inspected_and_keeps_images_is_named(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = bench_of("app:1", "old:1")
    bench.problems = Uninspectable()
    async with node_of(bench, full(), pod("odd", container("odd"))) as node:
        await until(lambda: ["odd"] == bench.running())
        await trio.sleep(700)
        assert {} == node.image_garbage.removed
    assert 2 == caplog.text.count("No image is removed while pod uid-odd cannot be inspected")


class ByDigest(MemoryImages):
    """The sandbox image was pulled by its digest: it has no tag."""

    async def list_images(self) -> list[ImageInfo]:
        digest = ("registry.k8s.io/pause@sha256:" + "7" * 64,)
        found = await super().list_images()
        return [replace(one, repo_tags=(), repo_digests=digest) if "pause" in one.id else one for one in found]


async def test_a_sandbox_image_without_a_tag_stays(autojump_clock: MockClock) -> None:
    bench = bench_of()
    bench.images = ByDigest(["app:1", "pause"])
    async with node_of(bench, full()):
        await trio.sleep(700)
        assert ["sha256:pause"] == [one.id for one in await bench.images.list_images()]
