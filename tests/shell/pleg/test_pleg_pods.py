"""Whose turn it is: who is asked for, answered, dropped; whose inspection begins, hangs, is out of sight."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from trikubelet.core import pleg_pod
from trikubelet.core.pleg_pod import IDLE, Inspecting, Job, Waiting
from trikubelet.core.relist import PodChange
from trikubelet.pleg.pods import PlegPods

ALWAYS = -math.inf


def change(uid: str, *containers: str) -> PodChange:
    return PodChange(uid, uid, "ns", (), ("s",), containers)


def job(uid: str, began: float = 0.0) -> Job:
    return Job(change(uid), began)


def pods(*uids: str, requests_max: int = 10) -> PlegPods:
    """Each asked for one after another, at 0, 1, 2 …"""
    made = PlegPods(requests_max)
    for at, uid in enumerate(uids):
        ask(made, uid, float(at))
    return made


def ask(made: PlegPods, uid: str, at: float) -> None:
    made.put(uid, pleg_pod.relist_requested(made.get(uid), at))


def end_full_list(made: PlegPods, began: float, due: tuple[str, ...] = ()) -> set[str]:
    return made.full_list_ended(began, began + 0.5, due, change)


def test_first_requested_pod_is_listed_first() -> None:
    made = pods("b", "a", "c")

    assert ["b", "a", "c", None] == [made.begin_list(ALWAYS) for _ in range(4)]


def test_pod_being_listed_or_inspected_keeps_waiting() -> None:
    made = pods("a", "b", "c")
    made.begin_list(ALWAYS)
    ask(made, "a", 3.0)
    made.found("b", job("b"))
    made.begin_inspection(0.0, job)

    assert "c" == made.begin_list(ALWAYS)
    assert made.begin_list(ALWAYS) is None
    assert ["b", "a"] == list(made.requested)


def test_asking_again_keeps_the_turn() -> None:
    made = pods("a", "b", "a")

    assert "a" == made.begin_list(ALWAYS)


def test_pod_covered_by_the_next_full_list_waits_for_it() -> None:
    made = pods("a", "b")

    assert ["b", None] == [made.begin_list(0.5) for _ in range(2)]
    assert ["a"] == list(made.requested)


def test_a_full_list_answers_requests_made_before_it_began() -> None:
    made = pods("a", "b", "c")
    end_full_list(made, began=1.0)

    assert ["b", "c"] == list(made.requested)  # "b" was asked for at that very instant
    assert 1 == made.answered


def test_a_request_without_room_is_dropped_and_counted() -> None:
    made = pods("a", "b", "c", requests_max=2)
    ask(made, "b", 9.0)

    assert (["a", "b"], 1) == (list(made.requested), made.dropped)
    assert 9.0 == made.get("b").requested_at
    assert IDLE == made.get("c")


def test_a_request_without_room_keeps_the_rest_of_the_record() -> None:
    made = pods("a", requests_max=1)
    made.put("b", pleg_pod.inspection_requested(made.get("b"), 5.0))

    assert 5.0 == made.get("b").stale_since
    assert made.get("b").requested_at is None


def test_inspections_start_in_order_with_awaited_pods_first() -> None:
    made = PlegPods(10)
    assert {"a", "b", "c"} == end_full_list(made, 1.0, ("a", "b", "c"))
    made.found("c", job("c", 2.0))
    begun = [made.begin_inspection(0.0, lambda uid: job(uid, 1.0)) for _ in range(4)]

    assert [job("c", 2.0), job("a", 1.0), job("b", 1.0), None] == begun


def test_a_pod_that_waits_keeps_its_turn_when_lists_report_it_again() -> None:
    made = PlegPods(10)
    end_full_list(made, 1.0, ("b",))
    end_full_list(made, 2.0, ("a", "b"))

    assert ["b", "a"] == list(made.due)


def test_a_hung_inspection_gives_its_place_up() -> None:
    made = PlegPods(10)
    end_full_list(made, 1.0, ("a", "b"))
    made.begin_inspection(1.0, job)
    made.begin_inspection(5.0, job)
    made.look_for_hung(before=5.0)

    assert (1, 2, 1.0) == (made.in_places, len(made.inspecting), made.began_first())
    assert ["a"] == [one.uid for one in made.uninspected_pods(also_running=False)]
    assert ["a", "b"] == [one.uid for one in made.uninspected_pods()]


def test_the_end_of_a_hung_inspection_takes_no_second_place() -> None:
    made = PlegPods(10)
    end_full_list(made, 1.0, ("a",))
    made.begin_inspection(1.0, job)
    made.look_for_hung(before=2.0)
    made.put("a", pleg_pod.inspected(made.get("a"), 3.0))

    assert (0, None) == (made.in_places, made.began_first())
    assert IDLE == made.get("a")
    assert 0 == len(made)


def test_an_on_demand_relist_newer_than_the_full_list_under_way_is_asked_for_again_when_that_is_in() -> None:
    made = pods("a")
    made.full_list_began()
    made.begin_list(ALWAYS)
    pod, _ = pleg_pod.list_ended(made.get("a"), began=2.0, listed_at=None, listing_since=1.0, has_unlabelled=False)
    made.put("a", pod)

    assert {"a"} == end_full_list(made, 1.0)
    assert ["a"] == list(made.requested)


def test_what_a_failed_full_list_left_behind_ends_with_the_next() -> None:
    made = pods("a")
    made.begin_list(ALWAYS)
    made.put(
        "a", pleg_pod.list_ended(made.get("a"), began=2.0, listed_at=None, listing_since=1.0, has_unlabelled=False)[0]
    )
    made.full_list_began()

    assert set() == end_full_list(made, 3.0)
    assert IDLE == made.get("a")


STEPS = st.lists(st.tuples(st.integers(0, 11), st.sampled_from("abcd")), max_size=60)


@given(STEPS)
@settings(max_examples=examples(400))
def test_lines_and_counts_say_what_the_records_say(steps: list[tuple[int, str]]) -> None:
    made = PlegPods(3)
    listing_since = listed_at = None
    for step, (what, uid) in enumerate(steps):
        at, pod = float(step), made.get(uid)
        if what == 0:
            ask(made, uid, at)
        elif what == 1:
            made.put(uid, pleg_pod.inspection_requested(pod, at))
        elif what == 2:
            made.put(uid, pleg_pod.change_began(pod))
        elif what == 3 and pod.changing:
            made.put(uid, pleg_pod.change_ended(pod, at))
        elif what == 4:
            made.begin_list(ALWAYS)
        elif what == 5 and pod.listing is not None:
            pod, end = pleg_pod.list_ended(pod, at, listed_at, listing_since, has_unlabelled=step % 5 == 0)
            made.put(uid, pod)
            if end is pleg_pod.ListEnd.TAKEN:
                made.found(uid, job(uid, at))
        elif what == 6:
            made.full_list_began()
            listing_since = at
        elif what == 7 and listing_since is not None:
            pending = end_full_list(made, listing_since, (uid,))
            assert made.due <= pending
            assert made.inspecting <= pending
            listed_at, listing_since = listing_since, None
        elif what == 8:
            made.begin_inspection(at, job)
        elif what == 9 and pod.is_inspecting:
            made.put(uid, pleg_pod.inspected(pod, at))
        elif what == 10 and pod.is_inspecting:
            made.put(uid, pleg_pod.inspection_failed(pod, "no"))
        elif what == 11:
            made.look_for_hung(at - 2)
        check_lines(made)


def check_lines(made: PlegPods) -> None:
    records = {uid: made.get(uid) for uid in "abcd"}
    inspecting = {uid: pod.inspection for uid, pod in records.items() if isinstance(pod.inspection, Inspecting)}
    assert {uid for uid, pod in records.items() if pod.requested_at is not None} == set(made.requested)
    assert {uid for uid, pod in records.items() if isinstance(pod.inspection, Waiting)} == set(made.due)
    assert inspecting.keys() == set(made.inspecting)
    assert len([one for one in inspecting.values() if not one.is_hung]) == made.in_places
    assert len([pod for pod in records.values() if pod != IDLE]) == len(made)
    assert made.has_uninspected == bool(inspecting or [pod for pod in records.values() if pod.stale_since is not None])
