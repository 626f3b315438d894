"""Which rejected pods get another try, and how many of them are evaluated in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.podkit import pod
from trikubelet.core.admission import Admitted, Rejection
from trikubelet.core.admission.another_try import (
    EVALUATED_IN_ONE_PASS_MAX,
    awaits_another_try,
    begins_now,
    next_pass,
)
from trikubelet.core.lifecycle import Finished, Starting, StopReason, Syncing, Terminated, Terminating
from trikubelet.core.names import CONFIG_SOURCE

if TYPE_CHECKING:
    from trikubelet.core.lifecycle import State
    from trikubelet.model.k8s import Pod

STATIC = pod("c", meta={"annotations": {CONFIG_SOURCE: "file"}})
BY_URL = pod("c", meta={"annotations": {CONFIG_SOURCE: "http"}})
OF_THE_API = pod("c", meta={"annotations": {CONFIG_SOURCE: "api"}})
REJECTED = Finished(StopReason.REJECTED)


@pytest.mark.parametrize(
    ("expected", "of", "state"),
    [
        (True, STATIC, REJECTED),
        (True, BY_URL, REJECTED),
        (False, OF_THE_API, REJECTED),
        (False, STATIC, Terminated(StopReason.REJECTED)),
        (False, STATIC, Finished(StopReason.REJECTED, deleted=True)),
        *((False, STATIC, Finished(reason)) for reason in StopReason if reason is not StopReason.REJECTED),
        *((False, STATIC, state) for state in (Starting(), Syncing(), Terminating(1, StopReason.REJECTED))),
    ],
)
def test_only_a_static_pod_that_was_rejected_and_is_wanted_gets_another_try(
    expected: bool, of: Pod, state: State
) -> None:
    assert expected == awaits_another_try(of, state)


def test_a_pod_begins_when_the_node_has_room_without_ending_another() -> None:
    assert begins_now(Admitted())
    assert not begins_now(Admitted((OF_THE_API,), "cpu"))
    assert not begins_now(Rejection("NodePorts", "taken"))


@given(st.lists(st.integers(0, 3), max_size=60))
def test_every_waiting_pod_is_evaluated_once_in_a_round_and_the_important_ones_first(priorities: list[int]) -> None:
    awaiting = [pod("c", priority=one, meta={"uid": f"u{n}"}) for n, one in enumerate(priorities)]
    seen: list[Pod] = []
    evaluated: frozenset[str] = frozenset()
    while len(seen) < len(awaiting):
        due, evaluated = next_pass(awaiting, evaluated)
        assert len(due) <= EVALUATED_IN_ONE_PASS_MAX
        seen += due
    assert {one.metadata.uid for one in awaiting} == {one.metadata.uid for one in seen}
    assert [*sorted(priorities, reverse=True)] == [one.spec.priority for one in seen]

    again, _ = next_pass(awaiting, evaluated)
    assert seen[:EVALUATED_IN_ONE_PASS_MAX] == again, "a new round begins"


def test_pods_that_wait_no_longer_are_forgotten() -> None:
    two = [pod("c", meta={"uid": uid}) for uid in "ab"]
    _, evaluated = next_pass(two, frozenset())
    assert {"a", "b"} == evaluated

    assert (two[:1], {"a"}) == next_pass(two[:1], evaluated)
    assert ([], set()) == next_pass([], evaluated)
