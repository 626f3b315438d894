"""The cgroup of all pods is limited at the start, and the cluster hears of it whenever it is joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from trikubelet.core.containers.reserved_cgroups import ReservedCgroup
from trikubelet.host.cgroups import NoPodCgroups
from trikubelet.model.errors import CgroupFailed
from trikubelet.model.objects import ObjectRef
from trikubelet.node.shared_cgroup import CPUS_SECONDS, RETRY_SECONDS, SharedCgroup
from trikubelet.status.recorder import EventRecorder
from trikubelet.testing.memory_host import MemoryPodCgroups, VirtualClock

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.ports import PodCgroups

NODE = ObjectRef("Node", "w1", uid="w1")


class Refused(MemoryPodCgroups):
    """Cgroups whose limits are refused this often."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def limit_all(self) -> bool:
        await trio.lowlevel.checkpoint()
        if self.times:
            self.times -= 1
            raise CgroupFailed("FailedNodeAllocatableEnforcement", "busy")
        return True


def node(cgroups: PodCgroups, version: int = 2, *reserved: ReservedCgroup) -> tuple[SharedCgroup, EventRecorder]:
    events = EventRecorder(VirtualClock(), 10)
    return SharedCgroup(cgroups, version, events, NODE, reserved), events


def told(events: EventRecorder) -> list[tuple[str, str, int]]:
    return [(one.type, one.reason, one.count) for one in events.all()]


@pytest.mark.parametrize(
    ("expected", "version"),
    [
        pytest.param([("Normal", "NodeAllocatableEnforced", 1)], 2, id="v2"),
        pytest.param([("Warning", "CgroupV1", 1), ("Normal", "NodeAllocatableEnforced", 1)], 1, id="v1"),
    ],
)
async def test_a_cluster_that_is_joined_late_hears_of_cgroups_that_were_limited_before(
    expected: list[tuple[str, str, int]], version: int, autojump_clock: MockClock
) -> None:
    shared, events = node(MemoryPodCgroups(), version)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shared.run)
        await trio.testing.wait_all_tasks_blocked()
        assert [] == told(events)

        await shared.report()
        assert expected == told(events)
        nursery.cancel_scope.cancel()


async def test_limits_that_the_kernel_refuses_are_tried_again_each_minute(autojump_clock: MockClock) -> None:
    shared, events = node(Refused(2))
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shared.run)
        await shared.report()
        assert 2 * RETRY_SECONDS == trio.current_time() - began
        nursery.cancel_scope.cancel()

    expected = [("Warning", "FailedNodeAllocatableEnforcement", 2), ("Normal", "NodeAllocatableEnforced", 1)]
    assert expected == told(events)


async def test_nothing_is_reported_where_pods_have_no_cgroups_of_their_own(autojump_clock: MockClock) -> None:
    shared, events = node(NoPodCgroups())
    await shared.run()
    with trio.move_on_after(1000):
        await shared.report()

    assert [] == told(events)


class Hotplug(MemoryPodCgroups):
    """Cgroups that are given CPUs, which fails at first; ``at`` are the times."""

    def __init__(self) -> None:
        super().__init__()
        self.at: list[float] = []

    async def allow_online_cpus(self) -> None:
        await trio.lowlevel.checkpoint()
        self.at.append(trio.current_time())
        if len(self.at) in (1, 2, 4):
            raise CgroupFailed("FailedNodeAllocatableEnforcement", "no such CPU")


async def test_cpus_that_came_online_are_looked_for_each_minute(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cgroups = Hotplug()
    shared, events = node(cgroups)
    began = trio.current_time()
    with trio.move_on_after(4.5 * CPUS_SECONDS):
        await shared.run()

    assert [CPUS_SECONDS * minute for minute in range(5)] == [at - began for at in cgroups.at]
    failed = "Pods cannot use all CPUs: no such CPU; trying again each minute"
    assert [failed] * 2 == [record.getMessage() for record in caplog.records]
    assert [] == told(events)


class NotMadeYet(MemoryPodCgroups):
    """A reserved cgroup that its operator makes after a while."""

    def __init__(self, tries: int) -> None:
        super().__init__()
        self._tries = tries

    async def limit_reserved(self, cgroup: ReservedCgroup) -> bool:
        await trio.lowlevel.checkpoint()
        self._tries -= cgroup.owner == "Kube"
        if cgroup.owner == "Kube" and self._tries >= 0:
            raise CgroupFailed("FailedNodeAllocatableEnforcement", "there is no such cgroup")
        return True


async def test_reserved_cgroups_are_limited_once_they_exist_and_reported_one_by_one(autojump_clock: MockClock) -> None:
    system = ReservedCgroup("System", "/system.slice", {"cpu": 500})
    kube = ReservedCgroup("Kube", "/kube.slice", {"cpu": 500}, only_compressible=True)
    shared, events = node(NotMadeYet(2), 2, system, kube)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shared.run)
        nursery.start_soon(shared.report)
        await trio.sleep(3 * RETRY_SECONDS)
        nursery.cancel_scope.cancel()

    missing = 'Failed to enforce Kube Reserved Compressible Cgroup Limits on "/kube.slice": there is no such cgroup'
    done = ["across pods", "system reserved cgroup /system.slice", "kube reserved cgroup /kube.slice"]
    messages = [(one.reason, one.message, one.count) for one in events.all()]
    assert ("FailedNodeAllocatableEnforcement", missing, 2) in messages
    assert sorted(done) == sorted(
        end for reason, message, _ in messages for end in done if reason == "NodeAllocatableEnforced" and end in message
    )
