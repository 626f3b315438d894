"""When what changed is written to the offline store: at rest, in a burst, on and on, and beyond a day's bytes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.offline_writes import (
    AGAIN_SECONDS_MAX,
    AGAIN_SECONDS_MIN,
    BATCH_SECONDS,
    DAY_BYTES_MAX,
    DAY_SECONDS,
    GATHER_SECONDS,
    TOKEN_SECONDS,
    WRITE_BYTES,
    Urgency,
    WritePace,
)
from trikubelet.model.offline_records import RecordKey, Shelf, pod_key

A, B, TOKEN = pod_key("a"), pod_key("b"), RecordKey(Shelf.TOKENS, "a-1")
SOON = Urgency.GATHERED


def test_change_is_written_once_it_was_gathered() -> None:
    pace = WritePace()
    assert pace.changed(A, b"1", 100, SOON)
    assert 100 + GATHER_SECONDS == pace.next_at(100)
    assert pace.changed(A, b"2", 101, SOON)
    assert [] == pace.due(101)
    assert [A] == pace.due(102)
    pace.written(A, b"2", 10, 102)
    assert ([], float("inf")) == (pace.due(1e9), pace.next_at(1e9))


def test_same_content_is_not_written() -> None:
    pace = WritePace()
    pace.known(A, b"1")
    assert not pace.changed(A, b"1", 100, Urgency.AT_ONCE)
    assert pace.changed(A, b"2", 100, SOON)
    assert not pace.changed(A, b"1", 101, SOON)  # it went back before it was written
    assert [] == pace.due(1e9)


def test_urgent_change_is_due_at_once_even_after_a_write() -> None:
    pace = WritePace()
    pace.written(A, b"1", 10, 100)
    assert pace.changed(A, b"2", 101, Urgency.AT_ONCE)
    assert pace.changed(A, b"3", 101, SOON)
    assert [A] == pace.due(101)


def test_record_that_changes_on_and_on_is_written_ever_more_rarely() -> None:
    pace, written = WritePace(), []
    for now in range(6000):
        pace.changed(A, str(now).encode(), now, SOON)
        for key in pace.due(now):
            pace.written(key, str(now).encode(), 10, now)
            written.append(now)
    gaps = [after - before for before, after in pairwise(written)]
    assert [60, 120, 240, 480, 900, 900, 900] == gaps[:7]
    assert AGAIN_SECONDS_MIN == gaps[0]
    assert AGAIN_SECONDS_MAX == gaps[-1]


def test_record_that_rested_is_written_soon_again() -> None:
    pace = WritePace()
    pace.written(A, b"1", 10, 0)
    pace.written(A, b"2", 10, 60)
    pace.changed(A, b"3", 5000, SOON)
    assert 5000 + GATHER_SECONDS == pace.next_at(5000)


def test_change_during_a_write_waits_for_the_next() -> None:
    pace = WritePace()
    pace.changed(A, b"2", 0, SOON)
    pace.written(A, b"1", 10, 3)
    assert [] == pace.due(3 + AGAIN_SECONDS_MIN - 1)
    assert [A] == pace.due(3 + AGAIN_SECONDS_MIN)


def test_token_is_written_twice_a_day() -> None:
    pace, count = WritePace(), 0
    for now in range(0, int(DAY_SECONDS), 2880):  # a kubelet renews it after 48 minutes
        pace.changed(TOKEN, str(now).encode(), now, SOON)
        for key in pace.due(now + 10):
            pace.written(key, str(now).encode(), 1000, now + 10)
            count += 1
    assert 2 == count
    assert TOKEN_SECONDS * 2 == DAY_SECONDS


def test_refused_record_is_tried_again_later() -> None:
    pace = WritePace()
    pace.changed(A, b"1", 0, Urgency.AT_ONCE)
    pace.refused(A, 5)
    assert [] == pace.due(5 + AGAIN_SECONDS_MAX - 1)
    assert [A] == pace.due(5 + AGAIN_SECONDS_MAX)


def test_spent_budget_leaves_hourly_batches_and_urgent_writes() -> None:
    pace = WritePace()
    pace.written(A, b"1", DAY_BYTES_MAX, 1000)
    assert pace.is_over_budget(1000)
    pace.changed(B, b"1", 1500, SOON)
    assert 1000 + BATCH_SECONDS == pace.next_at(1500)
    pace.changed(A, b"2", 1500, Urgency.AT_ONCE)
    assert [A] == pace.due(1500)
    assert not pace.is_over_budget(1000 + DAY_SECONDS)
    assert {A, B} == set(pace.due(1000 + DAY_SECONDS))


EVENTS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 3), st.sampled_from(Urgency)), max_size=60)


@given(EVENTS)
def test_what_is_written_last_is_what_the_record_became(events: list[tuple[int, int, Urgency]]) -> None:
    pace, now, disk, latest = WritePace(), 0.0, -1, -1
    for seconds, value, urgency in [*events, (2000, 9, SOON), (2000, 9, SOON)]:
        now, latest = now + seconds, value
        pace.changed(A, str(value).encode(), now, urgency)
        if A in pace.due(now):
            disk = value
            pace.written(A, str(value).encode(), 10, now)
        waits = pace.next_at(now) < float("inf")
        assert waits is (disk != latest)
    assert disk == latest


@given(st.lists(st.tuples(st.integers(1, 600), st.integers(0, 200), st.integers(0, 4 * 1024 * 1024)), max_size=400))
def test_gathered_writes_of_a_day_are_bounded(changes: list[tuple[int, int, int]]) -> None:
    """Beyond the budget a record is written once an hour at most."""
    pace, now, spent, late = WritePace(), 0.0, 0, {}
    pace.written(A, b"", 0, 0)
    for seconds, which, size in changes:
        now += seconds
        if now >= DAY_SECONDS:
            break
        pace.changed(pod_key(f"p{which}"), str(now).encode(), now, SOON)
        for key in pace.due(now):
            if spent > DAY_BYTES_MAX:
                assert now // BATCH_SECONDS != late.get(key)
                late[key] = now // BATCH_SECONDS
            pace.written(key, str(now).encode(), size, now)
            spent += size + WRITE_BYTES
