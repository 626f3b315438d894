"""What is left of pods that are gone is removed, and of no others; what hangs or fails is its pod's problem alone."""

from __future__ import annotations

import errno
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from shell.pods.shellkit import NothingThere
from trikubelet.devices.none import NoDevices
from trikubelet.kit.every import Every
from trikubelet.model.bounds import Bounds
from trikubelet.model.errors import CgroupFailed, VolumeFailed
from trikubelet.model.objects import ObjectRef
from trikubelet.node.orphaned_pods import OrphanedPodCleanup
from trikubelet.node.unknown_pods import UnknownPods
from trikubelet.pods.figures import PodFigures
from trikubelet.pods.known_uids import KnownUids
from trikubelet.pods.tear_down import TearDown
from trikubelet.status.recorder import EventRecorder
from trikubelet.testing.memory_host import MemoryPodCgroups, MemoryPodFiles, MemoryVolumes, VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock


class Disk:
    """What pods left, and a node on which none of it is wanted. ``comes_back``: the step at which a pod comes back."""

    def __init__(self, *uids: str, comes_back: str = "") -> None:
        self.files, self.cgroups, self.runs = MemoryPodFiles(), MemoryPodCgroups(), set[str]()
        self.at_work: set[str] = set()
        self._comes_back = comes_back
        self._wanted: set[str] = set()
        for uid in uids:
            self.files.pods.add(uid)
            self.cgroups.pods.add(uid)
        disk = self

        class Workers:
            known = KnownUids(all_known=True)

            def should_content_be_removed(self, uid: str) -> bool:
                return uid not in disk._wanted

            def is_at_work(self, uid: str) -> bool:
                return uid in disk.at_work

        class Runtime(NothingThere):
            def is_running(self, uid: str) -> bool:
                return uid in disk.runs

        class Volumes(MemoryVolumes):
            async def tear_down(self, uid: str) -> None:
                await super().tear_down(uid)
                await disk.reach("volumes", uid)

        class Cgroups(MemoryPodCgroups):
            async def remove(self, uid: str) -> None:
                await disk.reach("cgroup", uid)
                disk.cgroups.pods.discard(uid)

        workers: Any = Workers()
        runtime_pods: Any = Runtime()
        unknown = UnknownPods(
            workers=workers,
            runtime_pods=runtime_pods,
            files=self.files,
            events=EventRecorder(VirtualClock(), 10),
            node=ObjectRef("Node", "n"),
            bounds=Bounds(),
        )
        self.orphan_cleanup = OrphanedPodCleanup(
            workers=workers,
            runtime_pods=runtime_pods,
            directories=self.files,
            devices=NoDevices(),
            cgroups=self.cgroups,
            tear_down=TearDown(NoDevices(), Volumes(), Cgroups(), Bounds(), PodFigures()),
            unknown=unknown,
            bounds=Bounds(),
        )

    async def reach(self, step: str, uid: str) -> None:
        await trio.lowlevel.checkpoint()
        if step == self._comes_back:
            self._wanted.add(uid)

    @asynccontextmanager
    async def cleaned_up(self) -> AsyncIterator[None]:
        """A pass every two seconds, for the length of the block, the first before it."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.orphan_cleanup.run)
            nursery.start_soon(self._passes)
            await trio.sleep(1)
            yield
            nursery.cancel_scope.cancel()

    async def _passes(self) -> None:
        async for _ in Every(2):
            self.orphan_cleanup.clean_up()


async def test_directory_of_a_running_pod_of_any_agent_is_not_touched(autojump_clock: MockClock) -> None:
    disk = Disk("uid-alive", "uid-dead")
    disk.runs.add("uid-alive")

    async with disk.cleaned_up():
        assert ({"uid-alive"}, {"uid-alive"}) == (disk.files.pods, disk.cgroups.pods)


async def test_what_a_worker_takes_down_is_left_to_it(autojump_clock: MockClock) -> None:
    disk = Disk("uid")
    disk.at_work.add("uid")

    async with disk.cleaned_up():
        await trio.sleep(10)
        assert ({"uid"}, {"uid"}) == (disk.files.pods, disk.cgroups.pods)
        disk.at_work.clear()
        await trio.sleep(2)
        assert (set(), set()) == (disk.files.pods, disk.cgroups.pods)


@pytest.mark.parametrize(("step", "cgroups"), [("volumes", {"uid"}), ("cgroup", set())])
async def test_what_is_left_is_kept_from_when_the_pod_comes_back(
    step: str, cgroups: set[str], autojump_clock: MockClock
) -> None:
    disk = Disk("uid", comes_back=step)

    async with disk.cleaned_up():
        await trio.sleep(2)
        assert ({"uid"}, cgroups, 0) == (disk.files.pods, disk.cgroups.pods, disk.orphan_cleanup.removed)


async def test_returning_pod_is_left_alone_while_all_places_are_taken(autojump_clock: MockClock) -> None:
    class Slow(Disk):
        async def reach(self, step: str, uid: str) -> None:
            asked.append(uid)
            await trio.sleep(5)

    asked: list[str] = []
    disk = Slow("a", "b", "c", "d", "e")
    async with disk.cleaned_up():
        disk.runs.add("e")
        await trio.sleep(30)

    assert ({"e"}, {"a", "b", "c", "d"}) == (disk.files.pods, set(asked))


async def test_a_removal_is_given_up_when_its_pod_comes_back(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Slow(Disk):
        async def reach(self, step: str, uid: str) -> None:
            try:
                await trio.sleep(100)
            except trio.Cancelled:
                given_up.append(trio.current_time())
                raise

    given_up: list[float] = []
    disk = Slow("uid")
    async with disk.cleaned_up():
        await trio.sleep(10)
        disk.runs.add("uid")
        await trio.sleep(100)

        assert ([12], 0) == (given_up, disk.orphan_cleanup.stuck)
    assert [] == caplog.records


async def test_what_was_removed_since_the_pass_before_is_reported(autojump_clock: MockClock) -> None:
    disk = Disk("a", "b", "c")
    told = []
    async with disk.cleaned_up():
        told.append(disk.orphan_cleanup.removed)
        await disk.files.make_pod("d")
        for _ in range(3):
            await trio.sleep(2)
            told.append(disk.orphan_cleanup.removed)

    assert [0, 3, 1, 0] == told


async def test_what_takes_longer_than_a_pass_is_done_in_one_go_and_meanwhile_others_are(
    autojump_clock: MockClock,
) -> None:
    class Slow(Disk):
        async def reach(self, step: str, uid: str) -> None:
            if (step, uid) == ("volumes", "slow"):
                begun.append(trio.current_time())
                await trio.sleep(100)

    begun: list[float] = []
    disk = Slow("slow", *(f"quick-{number}" for number in range(10)))
    async with disk.cleaned_up():
        assert {"slow"} == disk.files.pods
        await trio.sleep(100)
        assert not disk.files.pods

    assert [0] == begun


async def test_hanging_removals_delay_no_other_pod_and_are_logged_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Hung(Disk):
        async def reach(self, step: str, uid: str) -> None:
            if uid.startswith("hung"):
                await trio.sleep(3600)

    disk = Hung(*(f"hung-{number}" for number in range(4)), "well")
    async with disk.cleaned_up():
        await trio.sleep(12)
        assert "well" not in disk.files.pods
        await trio.sleep(1200)
        assert 4 == disk.orphan_cleanup.stuck

    told = sorted(record.getMessage() for record in caplog.records)
    assert [f"Cannot remove the leftovers of pod hung-{number}, will try again: " for number in range(4)] == [
        message.removesuffix("FailedUnmount: the volumes could not be unmounted in time") for message in told
    ]


async def test_what_was_put_right_by_others_is_stuck_no_more(autojump_clock: MockClock) -> None:
    class Busy(Disk):
        async def reach(self, step: str, uid: str) -> None:
            raise CgroupFailed("FailedKillPod", "busy")

    disk = Busy("removed-by-hand", "comes-back", "stays")
    async with disk.cleaned_up():
        assert 3 == disk.orphan_cleanup.stuck
        await disk.files.remove_pod("removed-by-hand")
        disk.cgroups.pods.discard("removed-by-hand")
        disk.runs.add("comes-back")
        await trio.sleep(2)
        assert 1 == disk.orphan_cleanup.stuck


async def test_another_problem_is_reported_and_the_same_in_other_words_is_not(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Disk):
        async def reach(self, step: str, uid: str) -> None:
            if trio.current_time() < 20:
                raise VolumeFailed("FailedUnmount", f"request {trio.current_time()}")
            if trio.current_time() < 40:
                raise RuntimeError("a bug")

    disk = Failing("uid")
    async with disk.cleaned_up():
        await trio.sleep(60)
        assert (set(), 0) == (disk.files.pods, disk.orphan_cleanup.stuck)

    first, second = caplog.records
    assert "request 0" in first.getMessage()
    assert first.exc_info is None
    assert "Cannot remove the leftovers of pod uid, will try again: a bug" == second.getMessage()
    assert second.exc_info is not None


async def test_nothing_is_concluded_while_the_disk_does_not_tell_what_is_there(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, asked = Disk("uid"), []

    async def hang() -> frozenset[str]:
        asked.append(trio.current_time())
        await trio.sleep(10)
        raise TimeoutError(errno.ETIMEDOUT, "the disk did not answer within 10 s")

    with monkeypatch.context() as patch:
        patch.setattr(disk.files, "pods_on_disk", hang)
        async with disk.cleaned_up():
            await trio.sleep(60)
            assert ({"uid"}, {"uid"}) == (disk.files.pods, disk.cgroups.pods)
            assert 5 <= len(asked) <= 7, "one look after another, and a pass for each"
            patch.undo()
            await trio.sleep(15)
            assert (set(), set()) == (disk.files.pods, disk.cgroups.pods)

    why = "[Errno 110] the disk did not answer within 10 s"
    assert [f"Cannot look for leftovers of pods, will try again: {why}"] == caplog.messages
