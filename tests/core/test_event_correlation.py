"""Which events are one, which are combined, and which are too many: upstream's rules, by the numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.events import NAME_CHARS_MAX, REMEMBERED_MAX, Correlator, Series, new_event, recurrence
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.core.token_bucket import TokenBucket
from trikubelet.model.objects import ObjectRef

WEB = ObjectRef("Pod", "web", "default", "u", "spec.containers{main}")
NODE = ObjectRef("Node", "worker-1", uid="worker-1")
START = 1_800_000_000 * SECOND_NS


class Bench:
    """A correlator and a clock."""

    def __init__(self) -> None:
        self.correlator = Correlator()
        self.now_ns = START

    def observe(
        self, message: str = "m", reason: str = "BackOff", about: ObjectRef = WEB, after: float = 1.0
    ) -> Series | None:
        """Something happens ``after`` seconds; the series to tell of, or None."""
        self.now_ns += int(after * SECOND_NS)
        key = self.correlator.observe(about, "Warning", reason, message, self.now_ns)
        return None if key is None else self.correlator.series(key)


def test_the_same_again_is_one_event_with_a_count() -> None:
    bench = Bench()
    first = bench.observe()
    assert first is not None
    name = first.name
    bench.observe("another")
    again = bench.observe()

    assert again is first
    assert (2, name, START + SECOND_NS, START + 3 * SECOND_NS) == (
        again.count,
        again.name,
        again.first_ns,
        again.last_ns,
    )
    assert f"web.{START + SECOND_NS:x}" == name


def test_the_longest_names_leave_room_for_the_stamp() -> None:
    pod = ObjectRef("Pod", f"{'p' * 235}.{'q' * 17}", "default", "u")
    event = Bench().observe(about=pod)

    assert event is not None
    assert f"{'p' * 235}.{START + SECOND_NS:x}" == event.name
    assert len(event.name) <= NAME_CHARS_MAX


def test_no_two_events_share_a_name_though_no_time_goes_by_or_the_clock_is_set_back() -> None:
    bench = Bench()
    events = [bench.observe(reason=f"R{n}", after=(0, 0, -1)[n % 3]) for n in range(9)]

    assert 9 == len({event.name for event in events if event is not None})


@pytest.mark.parametrize(
    "other",
    [
        {"message": "x"},
        {"reason": "Failed"},
        {"about": NODE},
        {"about": ObjectRef("Pod", "web", "default", "u", "spec.containers{other}")},
        {"about": ObjectRef("Pod", "web", "default", "another", "spec.containers{main}")},
    ],
    ids=str,
)
def test_what_differs_in_anything_is_another_event(other: dict[str, object]) -> None:
    bench = Bench()
    assert bench.observe() is not bench.observe(**other)  # type: ignore[arg-type] # one of the parameters each


def test_the_tenth_that_differs_in_its_message_alone_is_combined_and_so_are_the_next() -> None:
    bench = Bench()
    alone = [bench.observe(f"m{n}") for n in range(9)]
    combined = [bench.observe(f"m{n}") for n in range(9, 14)]

    assert [f"m{n}" for n in range(9)] == [series.message for series in alone if series]
    assert 1 == len({id(series) for series in combined})
    last = combined[-1]
    assert last is not None
    assert ("(combined from similar events): m13", 5) == (last.message, last.count)


def test_of_what_is_combined_the_longest_known_message_is_forgotten() -> None:
    bench = Bench()
    for n in range(10):
        bench.observe(f"m{n}")
    known, forgotten = bench.observe("m5"), bench.observe("m0")
    assert known is not None
    assert forgotten is not None
    assert ["m5", "(combined from similar events): m0"] == [known.message, forgotten.message]


def test_containers_of_a_pod_are_combined_with_one_another() -> None:
    bench = Bench()
    refs = [ObjectRef("Pod", "web", "default", "u", f"spec.containers{{c{n}}}") for n in range(10)]
    found = [bench.observe(f"m{n}", about=ref) for n, ref in enumerate(refs)]
    assert ["(combined"] == [series.message.split()[0] for series in found if series and "combined" in series.message]


def test_ten_minutes_of_silence_end_the_combining() -> None:
    bench = Bench()
    for n in range(12):
        bench.observe(f"m{n}")
    late = bench.observe("late", after=601)
    assert late is not None
    assert "late" == late.message


def test_similar_events_that_come_slowly_are_combined_all_the_same() -> None:
    bench = Bench()
    found = [bench.observe(f"m{n}", after=599) for n in range(10)]
    assert ["(combined from similar events): m9"] == [s.message for s in found if s and s.message.startswith("(")]


def test_one_object_is_told_of_25_times_and_then_every_five_minutes() -> None:
    bench = Bench()
    told = [bench.observe(after=0.001) for _ in range(30)]
    assert 25 == sum(series is not None for series in told)
    assert bench.observe(about=NODE, after=0.001) is not None
    assert bench.observe(after=290) is None
    later = bench.observe(after=10)
    assert later is not None
    assert 32 == later.count  # what was not told is counted


def test_what_is_remembered_is_bounded() -> None:
    bench = Bench()
    first = bench.correlator.observe(WEB, "Normal", "R", "m", START)
    assert first is not None
    for n in range(REMEMBERED_MAX - 1):
        bench.observe(about=ObjectRef("Pod", f"p{n}", "default", f"u{n}"))
    assert bench.correlator.series(first) is not None
    bench.observe(about=NODE)
    assert bench.correlator.series(first) is None
    bench.correlator.note_sent(first)


def test_the_objects_that_are_sent() -> None:
    bench = Bench()
    series = bench.observe()
    assert series is not None
    event = new_event(series, "worker-1")
    ref = event.involved_object
    assert ("Pod", "default", "web", "u", "v1", "spec.containers{main}") == (
        ref.kind, ref.namespace, ref.name, ref.uid, ref.api_version, ref.field_path,
    )  # fmt: skip
    assert ("Warning", "BackOff", "m", 1) == (event.type, event.reason, event.message, event.count)
    assert event.source is not None
    assert ("kubelet", "worker-1") == (event.source.component, event.source.host)
    assert ("kubelet", "worker-1") == (event.reporting_component, event.reporting_instance)
    assert "2027-01-15T08:00:01Z" == event.first_timestamp == event.last_timestamp
    bench.observe()
    assert {"count": 2, "lastTimestamp": "2027-01-15T08:00:02Z", "message": "m"} == recurrence(series)


def test_an_event_of_the_node_stands_in_default() -> None:
    series = Bench().observe(about=NODE)
    assert series is not None
    event = new_event(series, "worker-1")
    assert ("default", "") == (event.metadata.namespace, event.involved_object.namespace)


# ---- the bucket ----


@given(burst=st.integers(1, 20), rate=st.floats(0.01, 100), steps=st.lists(st.floats(0, 50), max_size=60))
def test_a_bucket_gives_its_burst_and_no_more_than_its_rate(burst: int, rate: float, steps: list[float]) -> None:
    bucket, now, taken = TokenBucket(burst, rate, 0.0), 0.0, 0
    for step in steps:
        now += step
        taken += bucket.take(now)
    assert taken <= burst + now * rate + 1e-6
    assert taken >= min(len(steps), burst)


def test_tokens_taken_in_advance_are_waited_for() -> None:
    bucket = TokenBucket(2, 0.5, 0.0)
    assert [0.0, 0.0, 2.0, 4.0] == [bucket.take_in_advance(0.0) for _ in range(4)]
    assert not bucket.take(4.0)
    assert bucket.take(6.0)
    assert 0.0 == bucket.take_in_advance(8.0)


def test_a_clock_that_was_set_back_brings_nothing() -> None:
    bucket = TokenBucket(1, 1.0, 100.0)
    assert bucket.take(100.0)
    assert not bucket.take(50.0)
    assert not bucket.take(50.5)
    assert bucket.take(51.0)


@pytest.mark.parametrize(
    ("expected", "about", "node_uid"),
    [
        ("n-uid", ObjectRef("Node", "w1", uid="w1"), "n-uid"),
        ("w1", ObjectRef("Node", "w1", uid="w1"), ""),
        ("u", WEB, "n-uid"),
    ],
)
def test_event_of_the_node_carries_the_uid_of_its_object_once_it_has_one(
    expected: str, about: ObjectRef, node_uid: str
) -> None:
    series = Series(about, "Normal", "Starting", "Starting kubelet.", "w1.1", 1, 1)
    assert expected == new_event(series, "w1", node_uid).involved_object.uid
