"""A pod that the node itself ends: its event, its status and its end are one step."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import trio

from shell.pods.shellkit import NothingThere, Said, Script
from trikubelet.core.lifecycle import Finished, State, StopReason, Syncing, Terminated, Terminating
from trikubelet.kit.gather import Gather
from trikubelet.model.bounds import Bounds
from trikubelet.pods.disruptions import Disruptions, ends_as_soon
from trikubelet.pods.figures import PodFigures
from trikubelet.pods.workers import PodWorkers
from trikubelet.status.memory import PodStatuses
from trikubelet.testing.builders import pod
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from trio.testing import MockClock

WEB = pod("web")


@pytest.mark.parametrize(("grace", "expected"), [(None, 30), (1, 1)])
async def test_a_pod_is_disrupted_once_and_not_when_it_ends_already(
    autojump_clock: MockClock, grace: int | None, expected: int
) -> None:
    script, statuses, events = Script(takes_seconds=1), PodStatuses(), Said()
    workers = PodWorkers(script, NothingThere(), Gather(), Bounds(), random.Random(1), PodFigures())  # type: ignore[arg-type]
    disruptions = Disruptions(workers=workers, statuses=statuses, events=events, clock=VirtualClock())
    async with trio.open_nursery() as nursery:
        await nursery.start(workers.run)
        workers.begin(WEB)
        await trio.sleep(0.5)
        given: dict[str, Any] = {"reason": "Evicted", "message": "no memory", "condition_message": "why"}

        assert disruptions.end(WEB, **given, grace_seconds=grace)
        status = statuses.get("uid-web")
        assert status is not None
        assert ("Failed", "Evicted", "no memory") == (status.phase, status.reason, status.message)
        assert [("DisruptionTarget", "why")] == [(one.type, one.message) for one in status.conditions if one.message]
        assert Terminating(expected, StopReason.DISRUPTED) == workers.worker("uid-web").state
        assert not disruptions.end(WEB, **given, grace_seconds=grace)
        assert [("Warning", "Evicted", "no memory")] == events.events
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("state", "grace", "expected"),
    [
        (Syncing(), None, False),
        (Terminating(30, StopReason.REMOVED), None, True),
        (Terminating(30, StopReason.REMOVED), 1, False),
        (Terminating(30, StopReason.REMOVED), 30, True),
        (Terminating(30, StopReason.DISRUPTED), 1, True),
        (Terminating(30, StopReason.SHUT_DOWN), 1, True),
        (Terminated(StopReason.REMOVED), 1, True),
        (Finished(StopReason.REMOVED), 1, True),
    ],
)
def test_a_pod_that_ends_as_soon_is_not_disrupted(state: State, grace: int | None, expected: bool) -> None:
    assert expected is ends_as_soon(state, grace)
