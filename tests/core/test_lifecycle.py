"""Every (state, request) pair of the pod worker's machine, its outcomes, its predicates and its invariants."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core import lifecycle as lc
from trikubelet.core.lifecycle import (
    Finished,
    Graces,
    Outcome,
    Restart,
    Starting,
    Step,
    Stop,
    StopReason,
    Sync,
    Syncing,
    Terminated,
    Terminating,
)

GRACES = Graces(spec=30)
COMPLETED = StopReason.COMPLETED
REMOVED = StopReason.REMOVED
SHUT_DOWN = StopReason.SHUT_DOWN
AGENT_STOPS = StopReason.AGENT_STOPS

TERMINATING = Terminating(30, COMPLETED)
GONE = Terminating(30, REMOVED, deleted=True)

PAIRS = [
    (Starting(), Sync(), Step(Starting(), wake=True)),
    (Starting(), Sync(create=True), Step(Starting(), wake=True)),
    (Starting(), Stop(COMPLETED), Step(Finished(COMPLETED), wake=True)),
    (Starting(), Stop(REMOVED), Step(Finished(REMOVED, deleted=True), wake=True)),
    (Syncing(), Sync(), Step(Syncing(), wake=True)),
    (Syncing(), Sync(create=True), Step(Syncing(), wake=True)),
    (Syncing(), Stop(COMPLETED), Step(Terminating(30, COMPLETED), interrupt=True, wake=True)),
    (Syncing(), Stop(COMPLETED, 5), Step(Terminating(5, COMPLETED), interrupt=True, wake=True)),
    (Syncing(), Stop(REMOVED), Step(Terminating(30, REMOVED, deleted=True), interrupt=True, wake=True)),
    (TERMINATING, Sync(), Step(TERMINATING)),
    (TERMINATING, Sync(create=True), Step(TERMINATING)),
    (TERMINATING, Stop(COMPLETED), Step(TERMINATING)),
    (TERMINATING, Stop(COMPLETED, 60), Step(TERMINATING)),
    (TERMINATING, Stop(COMPLETED, 2), Step(Terminating(2, COMPLETED), interrupt=True, wake=True)),
    (TERMINATING, Stop(REMOVED), Step(Terminating(30, COMPLETED, deleted=True))),
    (GONE, Sync(create=True), Step(Terminating(30, REMOVED, deleted=True, restart=Restart.COUNTS_ON))),
    (Terminating(30, REMOVED, deleted=True, restart=Restart.COUNTS_ON), Stop(REMOVED), Step(GONE)),
    (Terminated(COMPLETED), Sync(create=True), Step(Terminated(COMPLETED))),
    (Terminated(COMPLETED), Stop(COMPLETED), Step(Terminated(COMPLETED))),
    (Terminated(COMPLETED), Stop(REMOVED), Step(Terminated(COMPLETED, deleted=True), wake=True)),
    (
        Terminated(REMOVED, deleted=True),
        Sync(create=True),
        Step(Terminated(REMOVED, deleted=True, restart=Restart.COUNTS_ON)),
    ),
    (Finished(COMPLETED), Sync(), Step(Finished(COMPLETED))),
    (Finished(COMPLETED), Sync(create=True), Step(Finished(COMPLETED))),
    (Finished(COMPLETED), Stop(COMPLETED), Step(Finished(COMPLETED))),
    (
        Finished(REMOVED, deleted=True),
        Sync(create=True),
        Step(Finished(REMOVED, deleted=True, restart=Restart.ANEW)),
    ),
    (Finished(REMOVED, deleted=True, restart=Restart.COUNTS_ON), Stop(REMOVED), Step(Finished(REMOVED, deleted=True))),
    (Starting(), Stop(AGENT_STOPS, 9), Step(Finished(AGENT_STOPS), wake=True)),
    (Syncing(), Stop(AGENT_STOPS, 9), Step(Terminating(9, AGENT_STOPS), interrupt=True, wake=True)),
    (GONE, Stop(AGENT_STOPS, 9), Step(Terminating(9, REMOVED, deleted=True), interrupt=True, wake=True)),
    (Terminating(9, AGENT_STOPS), Stop(REMOVED), Step(Terminating(9, AGENT_STOPS, deleted=True))),
]


@pytest.mark.parametrize(("state", "request_", "step"), PAIRS, ids=[f"{a}-{b}" for a, b, _ in PAIRS])
def test_every_request_in_every_state(state: lc.State, request_: lc.Request, step: Step) -> None:
    assert step == lc.on_request(state, request_, GRACES)


def test_the_table_has_every_pair_of_state_and_request_kind() -> None:
    walked = {(type(state), type(request)) for state, request, _ in PAIRS}
    states = (Starting, Syncing, Terminating, Terminated, Finished)

    assert walked == set(itertools.product(states, (Sync, Stop)))


@pytest.mark.parametrize(
    ("expected", "existing", "graces", "override"),
    [
        pytest.param(30, None, Graces(spec=30), None, id="the spec's"),
        pytest.param(5, None, Graces(spec=30, deletion=5), None, id="the deletion's"),
        pytest.param(2, None, Graces(spec=30, deletion=5), 2, id="the killer's, being shortest"),
        pytest.param(1, None, Graces(spec=0), None, id="never zero"),
        pytest.param(1, None, Graces(spec=30), 0, id="never zero when overridden"),
        pytest.param(30, None, Graces(), None, id="thirty when nothing is said"),
        pytest.param(4, 4, Graces(spec=30, deletion=9), 7, id="never grows"),
    ],
)
def test_effective_grace(expected: int, existing: int | None, graces: Graces, override: int | None) -> None:
    assert expected == lc.effective_grace(existing, graces, override)


@pytest.mark.parametrize(("expected", "seconds"), [(30, None), (0, 0), (45, 45)])
def test_the_grace_of_a_spec_is_thirty_seconds_where_it_has_none(expected: int, seconds: int | None) -> None:
    assert expected == lc.spec_grace(seconds)


@pytest.mark.parametrize(
    ("expected", "state", "outcome"),
    [
        (Terminating(30, COMPLETED), Syncing(), Outcome.DONE),
        (Terminated(REMOVED, deleted=True), GONE, Outcome.DONE),
        (
            Finished(REMOVED, deleted=True, restart=Restart.COUNTS_ON),
            Terminated(REMOVED, deleted=True, restart=Restart.COUNTS_ON),
            Outcome.DONE,
        ),
        # The next agent goes on with it, so its volumes are not taken down.
        (Finished(AGENT_STOPS), Terminating(9, AGENT_STOPS), Outcome.DONE),
        (Syncing(), Syncing(), Outcome.AGAIN),
        (Syncing(), Syncing(), Outcome.AT_ONCE),
        (Syncing(), Syncing(), Outcome.IDLE),
        (GONE, GONE, Outcome.AGAIN),
        (Finished(COMPLETED), Finished(COMPLETED), Outcome.DONE),
    ],
)
def test_outcomes(expected: lc.State, state: lc.State, outcome: Outcome) -> None:
    assert expected == lc.on_outcome(state, outcome, GRACES)


@pytest.mark.parametrize(
    ("state", "synced", "could_run", "requested", "ended", "content"),
    [
        (None, False, True, False, False, False),
        (None, True, False, False, True, True),
        (Starting(), True, True, False, False, False),
        (Syncing(), True, True, False, False, False),
        (TERMINATING, True, True, True, False, False),
        (Terminated(COMPLETED), True, False, True, True, False),
        (Terminated(COMPLETED, deleted=True), True, False, True, True, True),
        (Terminated(StopReason.DISRUPTED), True, False, True, True, True),
        (Terminated(SHUT_DOWN), True, False, True, False, False),
        (Terminated(SHUT_DOWN, deleted=True), True, False, True, True, True),
        (Finished(COMPLETED), True, False, True, True, False),
        (Finished(SHUT_DOWN), True, False, True, False, False),
        (Finished(AGENT_STOPS), True, False, True, False, False),
        (Finished(AGENT_STOPS, deleted=True), True, False, True, True, True),
        (Finished(SHUT_DOWN, deleted=True), True, False, True, True, True),
        (Finished(REMOVED, deleted=True), True, False, True, True, True),
    ],
)
def test_predicates(
    *,
    state: lc.State | None,
    synced: bool,
    could_run: bool,
    requested: bool,
    ended: bool,
    content: bool,
) -> None:
    assert (
        could_run,
        requested,
        ended,
        content,
    ) == (
        lc.could_have_running_containers(state, synced=synced),
        lc.is_termination_requested(state),
        lc.has_ended(state, synced=synced),
        lc.should_content_be_removed(state, synced=synced),
    )


RANK = {Starting: 0, Syncing: 1, Terminating: 2, Terminated: 3, Finished: 4}
requests = st.one_of(
    st.builds(Sync, create=st.booleans()),
    st.builds(Stop, st.sampled_from(StopReason), st.none() | st.integers(0, 100)),
)


@given(st.lists(requests | st.sampled_from(Outcome) | st.just("begin"), max_size=30))
def test_no_history_leads_back_and_grace_only_shrinks(history: list[object]) -> None:
    state: lc.State = Starting()
    for happening in history:
        before = state
        if isinstance(happening, Outcome):
            state = lc.on_outcome(state, happening, GRACES)
        elif isinstance(happening, Sync | Stop):
            state = lc.on_request(state, happening, GRACES).state
        else:
            state = lc.on_begin(state)
        assert RANK[type(before)] <= RANK[type(state)]
        if isinstance(before, Terminating) and isinstance(state, Terminating):
            assert state.grace_seconds <= before.grace_seconds
            assert state.reason is before.reason
