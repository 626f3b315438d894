"""The cgroup of all pods is limited at the start, and the cluster hears of it whenever it is joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.host.cgroups import NoPodCgroups
from trikubelet.model.errors import CgroupFailed
from trikubelet.model.objects import ObjectRef
from trikubelet.node.shared_cgroup import RETRY_SECONDS, SharedCgroup
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


def node(cgroups: PodCgroups, version: int = 2) -> tuple[SharedCgroup, EventRecorder]:
    events = EventRecorder(VirtualClock(), 10)
    return SharedCgroup(cgroups, version, events, NODE), events


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
    expected: list[tuple[str, str, int]], version: int
) -> None:
    shared, events = node(MemoryPodCgroups(), version)
    await shared.run()
    assert [] == told(events)

    await shared.report()
    assert expected == told(events)


async def test_limits_that_the_kernel_refuses_are_tried_again_each_minute(autojump_clock: MockClock) -> None:
    shared, events = node(Refused(2))
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shared.report)
        await shared.run()

    assert 2 * RETRY_SECONDS == trio.current_time() - began
    expected = [("Warning", "FailedNodeAllocatableEnforcement", 2), ("Normal", "NodeAllocatableEnforced", 1)]
    assert expected == told(events)


async def test_nothing_is_reported_where_pods_have_no_cgroups_of_their_own(autojump_clock: MockClock) -> None:
    shared, events = node(NoPodCgroups())
    await shared.run()
    with trio.move_on_after(1000):
        await shared.report()

    assert [] == told(events)
