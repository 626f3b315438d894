"""A bug planted in each task that serves many: it is said by the name of what provokes it, and the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import pytest
import trio

from shell.csikit import DRIVER, CsiNodeBench, claiming
from shell.pods.shellkit import Bench, until
from shell.pods.test_probed_pods import command, is_ready, probed
from shell.sources import test_http_source, test_manifest_directory
from shell.sources.sourcekit import manifest
from shell.stats import test_disks
from shell.volumes.test_csi_expansion import enlarge_claim, sync
from trikubelet.app.node import run_node
from trikubelet.core import manifest as manifests
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState
from trikubelet.pods.workers import PodWorkers
from trikubelet.probes.pod import PodProbes
from trikubelet.sources import reading
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_plugins import MemoryDriver
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.model.csi import Expand, VolumeStats
    from trikubelet.model.runtime import ContainerStatus, Undecoded

T = TypeVar("T")

BUG = TypeError("a bug")
TWO = ("web", "other")


def pods(*names: str) -> list[k8s.Pod]:
    return [pod(name, container("main", ("run",)), uid=f"uid-{name}") for name in names]


def breaking(call: Callable[..., T], provokes: Callable[..., bool]) -> Callable[..., T]:
    """Return a function that does the same, except for a bug that some arguments provoke."""

    def broken(*arguments: Any, **keywords: Any) -> T:
        if provokes(*arguments):
            raise BUG
        return call(*arguments, **keywords)

    return broken


def said(caplog: pytest.LogCaptureFixture, who: str) -> bool:
    """True if the bug was logged about that object, and about no other."""
    told = [record.getMessage() for record in caplog.records if record.exc_info]
    return bool(told) and all(who in line and "a bug" in line for line in told)


def is_main(one: ContainerStatus) -> bool:
    return one.name == "main" and one.state is ContainerState.RUNNING


# ---- manifests ----


async def test_in_reading_a_file(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = test_manifest_directory.Bench()
    bench.directory.write("bad.yaml", manifest("bad"))
    async with bench.running():
        assert {"bad": "app:1"} == await bench.snapshots.next()
        read = manifests.load_manifest
        with monkeypatch.context() as patch:
            patch.setattr(reading, "load_manifest", breaking(read, lambda _, path, *rest: "bad" in path))
            bench.directory.write("bad.yaml", manifest("bad", "app:2"))
            bench.directory.write("good.yaml", manifest("good"))
            assert {"bad": "app:1", "good": "app:1"} == await bench.snapshots.next()
            [fault] = bench.source.faults()
            assert "cannot be read because of a bug in the agent: TypeError: a bug" == fault.problem
        await trio.sleep(21)
        assert {"bad": "app:2", "good": "app:1"} == await bench.snapshots.next()
        assert () == bench.source.faults()
    assert said(caplog, "/manifests/bad.yaml")


async def test_in_reading_a_url(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = test_http_source.Bench()
    async with bench.running():
        assert {"one": "app:1"} == await bench.snapshots.next()
        with monkeypatch.context() as patch:
            patch.setattr(reading, "load_manifest", breaking(manifests.load_manifest, lambda *_: True))
            bench.server.answer = (200, manifest("two"))
            assert {"one": "app:1"} == await bench.snapshots.next()
            assert ["cannot be read because of a bug in the agent: TypeError: a bug"] == [
                fault.problem for fault in bench.source.faults()
            ]
        bench.server.answer = (200, manifest("three"))
        assert {"three": "app:1"} == await bench.snapshots.next()
    assert said(caplog, test_http_source.URL)


# ---- a whole node ----


class UnreadRuntime(MemoryRuntime):
    """One whose status of one container nobody can read; ``container_id``: whose."""

    container_id = ""

    async def container_status(self, container_id: str) -> Undecoded[ContainerStatus]:
        found = await super().container_status(container_id)
        if container_id == self.container_id:
            raise BUG
        return found


async def test_in_inspecting_a_pod(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    runtime = UnreadRuntime(bench.world, bench.problems)
    node = bench.build_node(runtime=runtime)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_node, node)
        node.slots["file"].put(Snapshot(pods("web")))
        await until(lambda: ["main"] == bench.running())
        [ours] = bench.world.all_containers()
        runtime.container_id = ours.id
        bench.world.end(ours.id, 1)
        node.slots["file"].put(Snapshot(pods("web", "other")))
        await until(lambda: ["main"] == bench.running())
        await trio.sleep(60)
        assert ["main"] == bench.running()
        runtime.container_id = ""
        await until(lambda: ["main", "main"] == bench.running())
        nursery.cancel_scope.cancel()
    assert said(caplog, "uid-web")


async def test_in_inspecting_a_pod_of_which_something_is_removed(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The remover waits to see it, too."""
    bench = Bench()
    runtime = UnreadRuntime(bench.world, bench.problems)
    node = bench.build_node(runtime=runtime)
    removals: list[str] = []

    async def remove(container_id: str) -> None:
        [runtime.container_id] = [one.id for one in bench.world.all_containers() if one.name == "side"]
        removals.append(container_id)
        await MemoryRuntime.remove_container(runtime, container_id)

    runtime.remove_container = remove  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        await nursery.start(run_node, node)
        node.slots["file"].put(Snapshot((pod("web", container("main", ("run",)), container("side", ("run",))),)))
        while not removals:
            await until(lambda: ["main", "side"] == sorted(bench.running()), 600)
            bench.world.end(next(one.id for one in bench.world.all_containers() if is_main(one)), 1)
            await trio.sleep(5)
        await trio.sleep(300)
        assert "side" in bench.running()
        runtime.container_id = ""
        await until(lambda: ["main", "side"] == sorted(bench.running()), 600)
        nursery.cancel_scope.cancel()
    assert said(caplog, "uid-web")


async def test_in_what_is_made_of_a_probe(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    both = [probed(name=name, readiness_probe=command("ok")) for name in TWO]
    with monkeypatch.context() as patch:
        patch.setattr(
            PodProbes,
            "record_result",
            breaking(PodProbes.record_result, lambda one, *_: one.pod.metadata.name == "web"),
        )
        async with bench.agent(*both) as node:
            await until(lambda: is_ready(node, "uid-other"))
            await trio.sleep(60)
            assert not is_ready(node)
            patch.undo()
            await until(lambda: is_ready(node))
    assert said(caplog, "default/web")


@pytest.mark.parametrize("step", ["kill_orphan", "stop"])
async def test_in_ending_orphans(
    step: str, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()

    def provokes(_: PodWorkers, who: str | k8s.Pod, *rest: object) -> bool:
        return "uid-web" == (who if isinstance(who, str) else who.metadata.uid)

    async with bench.agent(*pods(*TWO)) as node:
        await until(lambda: 2 == len(bench.running()))
        if step == "stop":
            node.slots["file"].put(Snapshot(()))
            monkeypatch.setattr(PodWorkers, step, breaking(PodWorkers.stop, provokes))
            await until(lambda: 1 == len(bench.running()))
    if step == "kill_orphan":
        monkeypatch.setattr(PodWorkers, step, breaking(PodWorkers.kill_orphan, provokes))
        async with bench.agent() as node:
            await until(lambda: 1 == len(bench.running()))
            await trio.sleep(60)
            assert 1 == len(bench.running())
            monkeypatch.undo()
            await until(lambda: not bench.running())
    assert said(caplog, "default/web")


# ---- volumes ----


class BuggyDriver(MemoryDriver):
    """A driver whose answers provoke a bug, as long as it is ``broken``."""

    broken = ""

    async def info(self) -> Any:
        return self._whole("info", await super().info())

    async def unstage(self, volume_id: str, staging_path: str) -> None:
        self._whole("unstage", None)
        await super().unstage(volume_id, staging_path)

    async def expand(self, request: Expand) -> None:
        self._whole("expand", None)
        await super().expand(request)

    def _whole(self, step: str, told: T) -> T:
        if self.broken == step:
            raise BUG
        return told


async def test_in_what_a_driver_says_of_itself(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, place: Path
) -> None:
    bench, buggy = CsiNodeBench(place), BuggyDriver()
    buggy.broken = "info"
    bench.plug_in("buggy.example.com", buggy)
    async with bench.life() as volumes:
        await trio.sleep(11)
        assert {DRIVER} == volumes.drivers().keys()
        buggy.broken = ""
        await trio.sleep(70)
        assert {DRIVER, "buggy.example.com"} == volumes.drivers().keys()
    bench.close()
    assert said(caplog, "buggy.example.com")


async def test_in_unstaging_a_volume(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, place: Path) -> None:
    buggy = BuggyDriver()
    bench = CsiNodeBench(place, buggy)
    async with bench.life() as volumes:
        await volumes.set_up(claiming())
        buggy.broken = "unstage"
        await volumes.tear_down("12345678")
        await trio.sleep(31)
        assert 1 == len(buggy.staged)
        buggy.broken = ""
        await trio.sleep(31)
        assert {} == buggy.staged
    bench.close()
    assert said(caplog, "Volume pv")


async def test_in_seeing_whether_a_volume_is_to_be_expanded(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, place: Path
) -> None:
    buggy = BuggyDriver()
    bench = CsiNodeBench(place, buggy)
    bench.cluster.spec = {"capacity": {"storage": "1Mi"}}
    async with bench.life() as volumes:
        await sync(volumes)
        buggy.broken = "expand"
        enlarge_claim(bench)
        await sync(volumes)
        await sync(volumes)
        buggy.broken = ""
        await sync(volumes)
        await sync(volumes)
        assert {"handle": 2 * 1024**2} == buggy.sizes
    bench.close()
    assert said(caplog, "pv")


# ---- how full they are ----


class BuggyPlaces(test_disks.Places):
    """Volumes of which one driver's answer provokes a bug."""

    async def volume_stats(self, uid: str, path: str) -> VolumeStats | None:
        if path == test_disks.PLACES["server"]:
            raise BUG
        return await super().volume_stats(uid, path)


async def test_in_what_a_driver_says_of_a_volume(caplog: pytest.LogCaptureFixture) -> None:
    async with test_disks.measuring(test_disks.gauges(), BuggyPlaces()) as disks:
        await disks.measure([test_disks.POD])
        assert {"scratch", "memory", "words", "own"} == {one.name for one in disks.of("u1").volumes}
    assert said(caplog, "u1/server")


async def test_in_measuring_a_pods_directories(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    gauges = test_disks.gauges()
    gauges.disks["/logs/default_pod_u2/app"] = test_disks.LARGE
    monkeypatch.setattr(gauges, "directory", breaking(gauges.directory, lambda path, *_: path == test_disks.LOGS))
    async with test_disks.measuring(gauges) as disks:
        await disks.measure([test_disks.POD, test_disks.pod("app", meta={"uid": "u2"})])
        assert ({}, {"app": test_disks.LARGE}) == (disks.of("u1").logs, disks.of("u2").logs)
        assert (False, True) == (disks.of("u1").is_measured, disks.of("u2").is_measured)
    assert said(caplog, "u1")
