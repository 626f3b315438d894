"""What PLEG has to do about one pod, row by row: each thing that happens, in each state that matters to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trikubelet.core import pleg_pod
from trikubelet.core.pleg_pod import IDLE, Inspecting, Job, ListEnd, PlegPod, UninspectedPod, Waiting
from trikubelet.core.relist import PodChange

CHANGE = PodChange("u", "web", "ns", (), ("s",), ("c",))
JOB = Job(CHANGE, 5.0)
WAITING = PlegPod(inspection=Waiting())
FOUND = PlegPod(inspection=Waiting(JOB))
INSPECTING = PlegPod(inspection=Inspecting(JOB, 5.5))
OUTDATED = PlegPod(inspection=Inspecting(JOB, 5.5, is_outdated=True))
HUNG = PlegPod(inspection=Inspecting(JOB, 5.5, is_hung=True))
FAILED = UninspectedPod("u", "web", "ns", 1.0, "refused")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (IDLE, PlegPod(requested_at=7.0)),
        (PlegPod(requested_at=3.0), PlegPod(requested_at=7.0)),
        (PlegPod(requested_at=9.0), PlegPod(requested_at=9.0)),  # given back by a list that came too late
        (PlegPod(listing=3.0), PlegPod(listing=3.0, requested_at=7.0)),
        (INSPECTING, replace(INSPECTING, requested_at=7.0)),
        (PlegPod(changing=1), PlegPod(changing=1, requested_at=7.0)),
    ],
)
def test_asked(before: PlegPod, after: PlegPod) -> None:
    assert after == pleg_pod.relist_requested(before, 7.0)


@pytest.mark.parametrize(
    ("before", "is_known", "after"),
    [
        (IDLE, True, PlegPod(requested_at=7.0)),
        (IDLE, False, IDLE),
        (PlegPod(listing=3.0), False, PlegPod(listing=3.0, requested_at=7.0)),  # made just now, and not yet seen
        (PlegPod(changing=1), True, PlegPod(changing=1)),
        (PlegPod(changing=2, requested_at=3.0), True, PlegPod(changing=2, requested_at=3.0)),
    ],
)
def test_hint_is_a_request_except_for_changing_and_unknown_pods(
    before: PlegPod, is_known: bool, after: PlegPod
) -> None:
    assert after == pleg_pod.hinted(before, 7.0, is_known=is_known)


def test_pod_is_requested_when_its_change_ends() -> None:
    twice = pleg_pod.change_began(pleg_pod.change_began(IDLE))

    assert PlegPod(changing=1, requested_at=7.0) == pleg_pod.change_ended(twice, 7.0)
    assert PlegPod(requested_at=8.0) == pleg_pod.change_ended(pleg_pod.change_ended(twice, 7.0), 8.0)


@pytest.mark.parametrize(
    ("pod", "may"),
    [
        (IDLE, False),
        (PlegPod(requested_at=3.0), True),
        (PlegPod(requested_at=2.0), False),  # the full list that began then is about to answer
        (PlegPod(requested_at=3.0, listing=1.0), False),
        (replace(INSPECTING, requested_at=3.0), False),
        (replace(FOUND, requested_at=3.0), True),
        (PlegPod(requested_at=3.0, stale_since=3.0, is_newer_than_full_list=True, changing=1), True),
    ],
)
def test_whether_an_on_demand_relist_may_begin(pod: PlegPod, may: bool) -> None:
    assert may is pod.may_be_listed(after=2.0)


def test_an_on_demand_relist_answers_the_request() -> None:
    assert PlegPod(listing=3.0) == pleg_pod.list_began(PlegPod(requested_at=3.0))
    assert IDLE == pleg_pod.list_failed(PlegPod(listing=3.0))


@pytest.mark.parametrize(
    ("listed_at", "listing_since", "before", "after", "end"),
    [
        (None, None, IDLE, IDLE, ListEnd.TAKEN),
        (3.0, None, IDLE, IDLE, ListEnd.TAKEN),
        (3.0, 5.0, IDLE, IDLE, ListEnd.TAKEN),  # the full list is newer, and will say so itself
        (3.0, 3.5, IDLE, PlegPod(is_newer_than_full_list=True), ListEnd.TAKEN),
        (3.0, 5.0, PlegPod(is_newer_than_full_list=True), PlegPod(is_newer_than_full_list=True), ListEnd.TAKEN),
        (5.0, None, IDLE, IDLE, ListEnd.SUPERSEDED),
        (5.0, 6.0, INSPECTING, INSPECTING, ListEnd.SUPERSEDED),
        (3.0, None, INSPECTING, replace(INSPECTING, requested_at=2.0), ListEnd.RETRY),
        (3.0, 3.5, replace(INSPECTING, requested_at=4.5), replace(INSPECTING, requested_at=4.5), ListEnd.RETRY),
        (3.0, None, WAITING, WAITING, ListEnd.TAKEN),
    ],
)
def test_an_on_demand_relist_that_began_at_4_is_in(
    listed_at: float | None, listing_since: float | None, before: PlegPod, after: PlegPod, end: ListEnd
) -> None:
    before = replace(before, listing=2.0)

    assert (after, end) == pleg_pod.list_ended(before, 4.0, listed_at, listing_since, has_unlabelled=False)


@pytest.mark.parametrize(
    ("listed_at", "before", "after", "end"),
    [
        (3.0, IDLE, IDLE, ListEnd.INCOMPLETE),
        (5.0, IDLE, IDLE, ListEnd.SUPERSEDED),
        (3.0, INSPECTING, INSPECTING, ListEnd.INCOMPLETE),
        (
            3.0,
            PlegPod(requested_at=4.5, stale_since=4.5),
            PlegPod(requested_at=4.5, stale_since=4.5),
            ListEnd.INCOMPLETE,
        ),
        (3.0, WAITING, WAITING, ListEnd.INCOMPLETE),
    ],
)
def test_an_on_demand_relist_does_not_speak_for_a_pod_with_something_that_its_label_does_not_find(
    listed_at: float, before: PlegPod, after: PlegPod, end: ListEnd
) -> None:
    before = replace(before, listing=2.0)

    assert (after, end) == pleg_pod.list_ended(before, 4.0, listed_at, 3.5, has_unlabelled=True)


@pytest.mark.parametrize(
    ("pod", "must"),
    [
        (IDLE, False),
        (PlegPod(requested_at=1.0), False),
        (PlegPod(stale_since=1.0), True),
        (WAITING, True),
        (FOUND, True),
    ],
)
def test_when_a_pod_found_as_recorded_is_inspected_all_the_same(pod: PlegPod, must: bool) -> None:
    assert must is pod.must_be_inspected


def test_what_an_on_demand_relist_found_replaces_what_waited() -> None:
    newer = Job(CHANGE, 6.0)

    assert PlegPod(inspection=Waiting(newer)) == pleg_pod.found(
        PlegPod(inspection=Waiting(JOB, is_outdated=True)), newer
    )


@pytest.mark.parametrize(
    ("before", "is_due", "is_other", "after"),
    [
        (IDLE, False, False, IDLE),
        (IDLE, True, False, WAITING),
        (WAITING, False, False, WAITING),
        (FOUND, False, False, WAITING),  # to be made as this list has the pod
        (PlegPod(stale_since=1.0), False, False, PlegPod(stale_since=1.0, inspection=Waiting())),
        (PlegPod(requested_at=3.0), False, False, IDLE),
        (PlegPod(requested_at=4.0), False, False, PlegPod(requested_at=4.0)),
        (PlegPod(requested_at=3.0), True, False, WAITING),
        (PlegPod(listing=3.0), True, False, replace(WAITING, listing=3.0)),
        (PlegPod(changing=1), True, False, replace(WAITING, changing=1)),
        (PlegPod(is_newer_than_full_list=True), False, False, PlegPod(requested_at=9.0)),
        (PlegPod(is_newer_than_full_list=True), True, False, PlegPod(requested_at=9.0)),
        (PlegPod(is_newer_than_full_list=True, requested_at=3.0), False, False, PlegPod(requested_at=9.0)),
        (replace(FOUND, is_newer_than_full_list=True), True, False, replace(FOUND, requested_at=9.0)),
        (
            replace(FOUND, is_newer_than_full_list=True),
            True,
            True,
            PlegPod(inspection=Waiting(JOB, is_outdated=True), requested_at=9.0),
        ),
        (INSPECTING, True, False, INSPECTING),
        (INSPECTING, True, True, OUTDATED),
        (replace(INSPECTING, requested_at=3.0), False, False, replace(INSPECTING, requested_at=3.0)),
        (replace(INSPECTING, stale_since=1.0), True, False, replace(INSPECTING, stale_since=1.0)),
    ],
)
def test_a_full_list_that_began_at_4_is_in(before: PlegPod, is_due: bool, is_other: bool, after: PlegPod) -> None:
    assert after == pleg_pod.full_list_ended(before, 4.0, 9.0, is_due=is_due, is_other=is_other)


def test_a_full_list_that_begins_is_newer_than_all_that_was_listed() -> None:
    assert WAITING == pleg_pod.full_list_began(replace(WAITING, is_newer_than_full_list=True))
    assert WAITING is pleg_pod.full_list_began(WAITING)


@pytest.mark.parametrize(
    ("before", "after"), [(WAITING, INSPECTING), (PlegPod(inspection=Waiting(JOB, is_outdated=True)), OUTDATED)]
)
def test_an_inspection_begins(before: PlegPod, after: PlegPod) -> None:
    assert after == pleg_pod.inspection_began(before, JOB, 5.5)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (INSPECTING, IDLE),
        (HUNG, IDLE),
        (replace(INSPECTING, failing=FAILED), IDLE),
        (replace(INSPECTING, requested_at=6.0), PlegPod(requested_at=6.0)),
        (replace(INSPECTING, stale_since=4.9), IDLE),
        (replace(INSPECTING, stale_since=5.0), PlegPod(stale_since=5.0, requested_at=9.0)),
        (OUTDATED, PlegPod(stale_since=5.0, requested_at=9.0)),
        (replace(OUTDATED, stale_since=4.0), PlegPod(stale_since=4.0, requested_at=9.0)),
        (replace(INSPECTING, changing=1), PlegPod(changing=1)),
    ],
)
def test_an_inspection_of_a_list_that_began_at_5_succeeded(before: PlegPod, after: PlegPod) -> None:
    assert after == pleg_pod.inspected(before, 9.0)


@pytest.mark.parametrize(
    ("before", "stale_since", "since"),
    [
        (INSPECTING, 5.0, 5.5),
        (OUTDATED, 5.0, 5.5),
        (replace(INSPECTING, stale_since=7.0), 7.0, 5.5),
        (replace(INSPECTING, failing=FAILED), 5.0, 1.0),
    ],
)
def test_an_inspection_failed(before: PlegPod, stale_since: float, since: float) -> None:
    failing = UninspectedPod("u", "web", "ns", since, "no answer")

    assert PlegPod(stale_since=stale_since, failing=failing) == pleg_pod.inspection_failed(before, "no answer")


@pytest.mark.parametrize(
    ("pod", "since", "why"),
    [
        (INSPECTING, 5.5, "no answer yet"),
        (HUNG, 5.5, "no answer yet"),
        (PlegPod(failing=FAILED), 1.0, "refused"),
        (replace(INSPECTING, failing=FAILED), 1.0, "refused"),  # tried once more: the error says more
        (replace(HUNG, failing=FAILED), 1.0, "no answer yet"),
    ],
)
def test_since_when_a_pod_is_out_of_sight(pod: PlegPod, since: float, why: str) -> None:
    assert UninspectedPod("u", "web", "ns", since, why) == pleg_pod.uninspected(pod)


@pytest.mark.parametrize("pod", [IDLE, WAITING, PlegPod(stale_since=1.0)])
def test_a_pod_that_only_waits_is_not_out_of_sight(pod: PlegPod) -> None:
    assert pleg_pod.uninspected(pod) is None
