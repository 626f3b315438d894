"""The crash back-off of an earlier agent, derived from the ends that the runtime still has."""

from __future__ import annotations

import pytest

from core.podkit import exited
from trikubelet.core.backoff_history import derived_backoff
from trikubelet.core.restarts import BackoffEntry, BackoffLimits, backoff_next, backoff_remaining
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.model.runtime import ContainerStatus

LIMITS = BackoffLimits()
T0 = 1_000_000 * SECOND_NS


def end(attempt: int, created: float, finished: float, reason: str = "Error") -> ContainerStatus:
    """A container that existed between these seconds."""
    times = {"created_at": T0 + int(created * SECOND_NS), "finished_at": T0 + int(finished * SECOND_NS)}
    return exited("main", 1, attempt, reason=reason, **times)


@pytest.mark.parametrize("kept", [1, 2, 12])
@pytest.mark.parametrize("limits", [LIMITS, BackoffLimits(1, 5), BackoffLimits(10, 1)])
@pytest.mark.parametrize("run_seconds", [1, 60, 500])
def test_another_agent_waits_as_long_as_the_one_that_saw_all_crashes(
    kept: int, limits: BackoffLimits, run_seconds: int
) -> None:
    now, entry, ends = T0, None, []
    for attempt in range(12):
        created, finished = now + SECOND_NS // 5, now + run_seconds * SECOND_NS
        ends.insert(0, exited("main", 1, attempt, created_at=created, finished_at=finished))
        derived = derived_backoff(ends[:kept], limits)
        waits = [backoff_remaining(one, finished, finished, limits) for one in (entry, derived)]
        assert waits[0] == waits[1]
        now = finished + int(waits[0] * SECOND_NS)
        entry = backoff_next(entry, finished, now, limits)


@pytest.mark.parametrize("reason", ["AgentStopped", "ContainerStatusUnknown"])
def test_a_container_that_ended_with_its_agent_has_not_crashed(reason: str) -> None:
    cut = end(30, 900, 930, reason)

    assert derived_backoff([cut, end(29, 0, 600)], LIMITS) is None
    crashed = end(31, 2000, 2001)
    assert BackoffEntry(10, crashed.created_at) == derived_backoff([crashed, cut], LIMITS)


def test_restarts_long_ago_count_no_more() -> None:
    crashed = end(50, 1001, 1010)

    assert BackoffEntry(10, crashed.created_at) == derived_backoff([crashed, end(49, 0, 1000)], LIMITS)


def test_a_long_pause_counts_no_longer_than_the_number_of_restarts() -> None:
    crashed = end(2, 90_000, 90_001)

    assert BackoffEntry(20, crashed.created_at) == derived_backoff([crashed, end(1, 0, 1)], LIMITS)


def test_a_first_run_waits_for_nothing() -> None:
    assert derived_backoff([end(0, 0, 1)], LIMITS) is None
