"""When a full list is due, when one may be left out, and when PLEG is unhealthy."""

from __future__ import annotations

import pytest

from trikubelet.core.pleg_pod import UninspectedPod
from trikubelet.model.bounds import Bounds
from trikubelet.pleg import health
from trikubelet.pleg.pace import Situation, due_at, may_skip_list

BOUNDS = Bounds()


@pytest.mark.parametrize(("took", "due"), [(0.0, 11.0), (0.5, 11.0), (0.6, 11.2), (20.0, 50.0), (120.0, 160.0)])
def test_lists_take_half_of_the_time_and_pause_no_longer_than_the_bound(took: float, due: float) -> None:
    assert due == pytest.approx(due_at(10.0, 10.0 + took, BOUNDS))


QUIET = Situation(
    listed_at=100.0, changed_at=50.0, events_since=20.0, is_awaited=False, has_uninspected=False, backlog=0
)
BUSY = Situation(
    listed_at=100.0, changed_at=101.0, events_since=None, is_awaited=True, has_uninspected=True, backlog=321
)


@pytest.mark.parametrize(
    ("situation", "now", "may_skip"),
    [
        (QUIET, 101.0, True),
        (QUIET, 104.0, True),
        (QUIET, 105.0, False),
        (QUIET._replace(listed_at=None), 101.0, False),
        (QUIET._replace(events_since=None), 101.0, False),
        (QUIET._replace(events_since=100.5), 101.0, False),  # what happened before the stream is not listed yet
        (QUIET._replace(is_awaited=True), 101.0, False),
        (QUIET._replace(changed_at=91.0), 101.0, False),
        (QUIET._replace(changed_at=90.9), 101.0, True),
        (BUSY, 101.0, True),
        (BUSY, 105.0, False),
        (BUSY._replace(listed_at=None), 101.0, False),
        (BUSY._replace(backlog=320), 101.0, False),
    ],
)
def test_a_node_is_listed_less_often_while_nothing_goes_on_and_events_work_or_a_long_backlog_waits(
    situation: Situation, now: float, may_skip: bool
) -> None:
    assert may_skip is may_skip_list(now, situation, BOUNDS)


def uninspected_pods(count: int, since: float = 0.0) -> list[UninspectedPod]:
    return [UninspectedPod(f"u{n}", f"p{n}", "ns", since, "no answer yet") for n in range(count)]


@pytest.mark.parametrize(
    ("pods", "late", "since", "ill"),
    [
        (4, 2, 0.0, False),
        (4, 3, 0.0, True),
        (4, 3, 21.0, False),
        (1, 1, 0.0, True),
        (0, 0, 0.0, False),
        (10, 0, 0.0, False),
    ],
)
def test_most_pods_out_of_sight_for_three_minutes_is_the_runtimes_problem(
    pods: int, late: int, since: float, ill: bool
) -> None:
    assert ill is (health.unseen(200.0, pods, uninspected_pods(late, since), BOUNDS) is not None)


def test_a_sentence_names_a_few_and_counts_the_rest() -> None:
    told = health.named(60.0, uninspected_pods(7))

    assert told.startswith("ns/p0 (60s: no answer yet), ns/p1 (")
    assert told.endswith("ns/p4 (60s: no answer yet) and 2 more")
