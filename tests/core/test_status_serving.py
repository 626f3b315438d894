"""A status brought up to date with the probes alone: what changes, and that nothing else does."""

from __future__ import annotations

import msgspec
import pytest

from core.podkit import container, exited, observe, pod, running, sidecar
from trikubelet.core.actions import Verdict, Verdicts
from trikubelet.core.pod_status import StatusFacts, generate, with_verdicts
from trikubelet.core.pod_status.containers import ContainerFacts
from trikubelet.model import k8s

PROBE = k8s.Probe()
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
POD = pod(
    container("a", readiness_probe=PROBE, startup_probe=PROBE),
    "b",
    init=(sidecar("s", startup_probe=PROBE),),
)
SEEN = observe(POD, running("a"), running("b"), running("s"))
ALL_WELL = Verdicts(startup={"a-0": Verdict.SUCCESS, "s-0": Verdict.SUCCESS}, readiness={"a-0": Verdict.SUCCESS})
UNREADY = Verdicts(startup=ALL_WELL.startup, readiness={"a-0": Verdict.FAILURE})


def computed(verdicts: Verdicts, now: str, previous: k8s.PodStatus | None = None) -> k8s.PodStatus:
    return generate(POD, SEEN, StatusFacts(now, previous=previous, containers=ContainerFacts(verdicts=verdicts)))


@pytest.mark.parametrize("before", [ALL_WELL, UNREADY, Verdicts()])
@pytest.mark.parametrize("after", [ALL_WELL, UNREADY, Verdicts()])
def test_it_is_what_would_be_computed_again(before: Verdicts, after: Verdicts) -> None:
    first = computed(before, NOW)

    assert computed(after, LATER, first) == with_verdicts(POD, first, after, LATER)


def test_ready_goes_with_its_conditions_and_the_time_it_went() -> None:
    shown = with_verdicts(POD, computed(ALL_WELL, NOW), UNREADY, LATER)

    assert [False, True] == [status.ready for status in shown.container_statuses]
    found = {one.type: (one.status, one.last_transition_time) for one in shown.conditions}
    assert {("False", LATER)} == {found["Ready"], found["ContainersReady"]}
    assert ("True", NOW) == found["Initialized"]


def test_only_what_is_shown_to_run_is_shown_to_serve() -> None:
    ended = generate(POD, observe(POD, exited("a", 1), running("b"), running("s")), StatusFacts(NOW))

    shown = with_verdicts(POD, ended, ALL_WELL, LATER)

    assert [(False, False), (True, True)] == [(s.ready, s.started) for s in shown.container_statuses]


def gated(condition: str) -> k8s.Pod:
    shown = k8s.PodStatus(conditions=(k8s.PodCondition(type="x/ok", status=condition),))
    return msgspec.structs.replace(GATED, status=shown)


GATED = pod("b", readiness_gates=(k8s.PodReadinessGate(condition_type="x/ok"),))


@pytest.mark.parametrize("before", ["True", "False"])
@pytest.mark.parametrize("after", ["True", "False"])
def test_a_readiness_gate_is_read_again(before: str, after: str) -> None:
    seen = observe(GATED, running("b"))
    first = generate(gated(before), seen, StatusFacts(NOW))

    shown = with_verdicts(gated(after), first, Verdicts(), LATER)

    assert generate(gated(after), seen, StatusFacts(LATER, previous=first)) == shown
    assert {after} == {one.status for one in shown.conditions if one.type == "Ready"}


def test_an_end_is_not_touched() -> None:
    over = msgspec.structs.replace(computed(ALL_WELL, NOW), phase="Failed")

    assert over == with_verdicts(POD, over, UNREADY, LATER)
