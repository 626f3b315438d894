"""The agenda: who is next, who was answered, who found no room. And when a full list is due, and PLEG ill."""

from __future__ import annotations

import math

import pytest

from trikubelet.model.bounds import Bounds
from trikubelet.pleg import health
from trikubelet.pleg.agenda import Agenda, Look
from trikubelet.pleg.inspections import Laggard
from trikubelet.pleg.pace import Situation, due_at, may_rest

BOUNDS = Bounds()
ALWAYS = -math.inf


def nobody(_: str) -> bool:
    return False


def agenda(*uids: str, waiting_max: int = 10) -> Agenda:
    made = Agenda(waiting_max)
    for at, uid in enumerate(uids):
        made.ask(uid, float(at))
    return made


def test_who_has_waited_longest_is_next_and_who_is_busy_waits_on() -> None:
    asked = agenda("a", "b", "c")

    assert Look("b", 1.0) == asked.take({"a"}.__contains__, ALWAYS)
    assert Look("a", 0.0) == asked.take(nobody, ALWAYS)
    assert Look("c", 2.0) == asked.take(nobody, ALWAYS)
    assert asked.take(nobody, ALWAYS) is None


def test_asking_again_keeps_the_turn_and_only_a_newer_list_answers_it() -> None:
    asked = agenda("a", "b", "a")
    asked.answer(1.5, ())

    assert 1 == asked.answered
    assert Look("a", 2.0) == asked.take(nobody, ALWAYS)
    assert 0 == len(asked)


def test_a_request_given_back_does_not_make_a_newer_one_older() -> None:
    asked = agenda("a", "b")
    given_back = asked.take(nobody, ALWAYS)
    asked.ask("a", 5.0)
    assert given_back is not None
    asked.ask(*given_back)
    asked.answer(3.0, ())

    assert Look("a", 5.0) == asked.take(nobody, ALWAYS)


def test_a_list_answers_who_asked_before_it_began_but_for_those_it_does_not_tell_of() -> None:
    asked = agenda("a", "b", "c")
    asked.answer(1.0, {"a"})  # "b" was asked for at that very instant

    assert [Look("a", 0.0), Look("b", 1.0), Look("c", 2.0)] == [asked.take(nobody, ALWAYS) for _ in range(3)]


def test_who_is_about_to_be_answered_by_the_list_under_way_waits_for_it() -> None:
    asked = agenda("a", "b")

    assert Look("b", 1.0) == asked.take(nobody, 0.5)
    assert asked.take(nobody, 0.5) is None
    assert 1 == len(asked)


def test_a_full_agenda_drops_new_names_and_still_hears_old_ones() -> None:
    asked = agenda("a", "b", "c", waiting_max=2)
    asked.ask("b", 9.0)

    assert (2, 1) == (len(asked), asked.dropped)
    assert [Look("a", 0.0), Look("b", 9.0)] == [asked.take(nobody, ALWAYS) for _ in range(2)]


@pytest.mark.parametrize(("took", "due"), [(0.0, 11.0), (0.5, 11.0), (0.6, 11.2), (20.0, 50.0), (120.0, 160.0)])
def test_lists_take_half_of_the_time_and_pause_no_longer_than_the_bound(took: float, due: float) -> None:
    assert due == pytest.approx(due_at(10.0, 10.0 + took, BOUNDS))


QUIET = Situation(listed_at=100.0, news_at=50.0, events_since=20.0, is_awaited=False, is_blind=False, backlog=0)
BUSY = Situation(listed_at=100.0, news_at=101.0, events_since=None, is_awaited=True, is_blind=True, backlog=321)


@pytest.mark.parametrize(
    ("situation", "now", "rests"),
    [
        (QUIET, 101.0, True),
        (QUIET, 104.0, True),
        (QUIET, 105.0, False),
        (QUIET._replace(listed_at=None), 101.0, False),
        (QUIET._replace(events_since=None), 101.0, False),
        (QUIET._replace(events_since=100.5), 101.0, False),  # what happened before the stream is not listed yet
        (QUIET._replace(is_awaited=True), 101.0, False),
        (QUIET._replace(news_at=91.0), 101.0, False),
        (QUIET._replace(news_at=90.9), 101.0, True),
        (BUSY, 101.0, True),
        (BUSY, 105.0, False),
        (BUSY._replace(listed_at=None), 101.0, False),
        (BUSY._replace(backlog=320), 101.0, False),
    ],
)
def test_a_node_is_listed_less_often_while_nothing_goes_on_and_events_work_or_a_long_backlog_waits(
    situation: Situation, now: float, rests: bool
) -> None:
    assert rests is may_rest(now, situation, BOUNDS)


def laggards(count: int, since: float = 0.0) -> list[Laggard]:
    return [Laggard(f"u{n}", f"p{n}", "ns", since, "no answer yet") for n in range(count)]


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
def test_most_pods_out_of_sight_for_three_minutes_is_the_runtimes_trouble(
    pods: int, late: int, since: float, ill: bool
) -> None:
    assert ill is (health.unseen(200.0, pods, laggards(late, since), BOUNDS) is not None)


def test_a_sentence_names_a_few_and_counts_the_rest() -> None:
    told = health.named(60.0, laggards(7))

    assert told.startswith("ns/p0 (60s: no answer yet), ns/p1 (")
    assert told.endswith("ns/p4 (60s: no answer yet) and 2 more")
