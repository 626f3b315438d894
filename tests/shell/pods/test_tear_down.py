"""What a pod held is taken down once, by its worker; again only where something of it came back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Bench, until
from trikubelet.model.errors import StillMounted
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.app.node import Node

WEB, UID = pod("web", container("main")), "uid-web"


class Counted(Bench):
    """A bench that keeps what of a pod is taken down, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        tear_down, remove, remove_pod = self.volumes.tear_down, self.cgroups.remove, self.files.remove_pod
        self.comes_back: list[str] = []

        async def volumes(uid: str) -> None:
            self.told.append("volumes")
            await tear_down(uid)

        async def cgroup(uid: str) -> None:
            self.told.append("cgroup")
            await remove(uid)

        async def directory(uid: str) -> None:
            self.told.append("directory")
            if self.comes_back:
                raise StillMounted(self.comes_back.pop())
            await remove_pod(uid)

        self.volumes.tear_down = volumes  # type: ignore[method-assign]
        self.cgroups.remove = cgroup  # type: ignore[method-assign]
        self.files.remove_pod = directory  # type: ignore[method-assign]


async def removed(bench: Counted, node: Node) -> None:
    """The pod runs, and is removed from its source, until nothing of it is left."""
    await until(lambda: ["main"] == bench.running())
    node.slots["file"].put(Snapshot(()))
    await until(lambda: not bench.pods_on_disk() and UID not in node.workers)
    await trio.sleep(60)


async def test_a_pod_that_ends_under_this_agent_is_taken_down_once(autojump_clock: MockClock) -> None:
    bench = Counted()
    async with bench.agent(WEB) as node:
        await removed(bench, node)

    assert ["volumes", "cgroup", "directory"] == bench.told


async def test_what_an_earlier_agent_left_is_taken_down_once(autojump_clock: MockClock) -> None:
    bench = Counted()
    await bench.files.make_pod("uid-gone")
    bench.cgroups.pods.add("uid-gone")
    async with bench.agent():
        await until(lambda: not bench.pods_on_disk() and not bench.cgroups.pods)

    assert ["volumes", "cgroup", "directory"] == bench.told


async def test_a_cgroup_that_came_back_is_removed_again(autojump_clock: MockClock) -> None:
    bench = Counted()
    async with bench.agent(WEB) as node:
        await until(lambda: ["main"] == bench.running())
        node.workers.finished.add(lambda _: bench.cgroups.pods.add(UID))
        await removed(bench, node)

    assert (["volumes", "cgroup", "volumes", "cgroup", "directory"], set()) == (bench.told, bench.cgroups.pods)


async def test_a_mount_that_came_back_is_unmounted_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Counted()
    bench.comes_back = ["volumes/v is a mount point"]
    async with bench.agent(WEB) as node:
        await removed(bench, node)

    assert ["volumes", "cgroup", "directory", "volumes", "cgroup", "directory"] == bench.told
    assert 1 == len(caplog.records)


async def test_a_pod_that_begins_again_under_its_uid_is_taken_down_again(autojump_clock: MockClock) -> None:
    bench = Counted()
    async with bench.agent(WEB) as node:
        await removed(bench, node)
        node.slots["file"].put(Snapshot((WEB,)))
        await removed(bench, node)

    assert 2 * ["volumes", "cgroup", "directory"] == bench.told


async def test_a_pod_that_has_ended_keeps_its_directory_as_long_as_it_is_desired(autojump_clock: MockClock) -> None:
    bench = Counted()
    async with bench.agent(pod("web", container("main"), active_deadline_seconds=5)) as node:
        await until(lambda: node.workers.is_finished(UID))
        await trio.sleep(60)
        assert (["volumes", "cgroup"], {UID}) == (bench.told, bench.pods_on_disk())
        node.slots["file"].put(Snapshot(()))
        await until(lambda: not bench.pods_on_disk())

    assert ["volumes", "cgroup", "directory"] == bench.told
