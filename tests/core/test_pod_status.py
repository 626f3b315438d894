"""A pod's whole status: what it is put together from, and what of the one before it stays."""

from dataclasses import replace
from typing import Any

import pytest

from core.podkit import BOX, DEAD_BOX, exited, observe, pod, running, unknown
from core.statuskit import EARLIER, NOW, condition, runs, status, stopped
from trikubelet.core.pod_status import StatusFacts, deadline_left, generate
from trikubelet.core.pod_status.containers import ContainerFacts
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339, rfc3339
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerStatus

FACTS = StatusFacts(now=NOW, host_ips=("192.0.2.1", "2001:db8::1"))


def facts(previous: k8s.PodStatus | None = None, **fields: Any) -> StatusFacts:
    return StatusFacts(now=NOW, host_ips=("192.0.2.1",), previous=previous, **fields)


def test_a_running_pod_has_addresses_a_class_a_start_and_a_generation() -> None:
    it = pod("a", meta={"generation": 3})
    shown = generate(it, observe(it, running("a")), FACTS)
    assert ("Running", "192.0.2.1", "10.0.0.1", "BestEffort", "1970-01-01T00:00:00Z", 3) == (
        shown.phase, shown.host_ip, shown.pod_ip, shown.qos_class, shown.start_time, shown.observed_generation,
    )  # fmt: skip
    assert [["192.0.2.1", "2001:db8::1"], ["10.0.0.1"]] == [
        [address.ip for address in shown.host_ips], [address.ip for address in shown.pod_ips],
    ]  # fmt: skip


def test_a_pod_on_the_hosts_network_has_the_hosts_addresses_once_it_has_a_sandbox() -> None:
    it = pod("a", host_network=True)
    assert ["192.0.2.1", "2001:db8::1"] == [a.ip for a in generate(it, observe(it), FACTS).pod_ips]
    assert "" == generate(it, observe(it, sandboxes=()), FACTS).pod_ip


def test_a_pod_without_a_living_sandbox_keeps_the_addresses_it_was_last_seen_with() -> None:
    it = pod("a")
    observed = observe(it, sandboxes=(DEAD_BOX,), ips=("10.0.0.9",))
    assert "10.0.0.9" == generate(it, observed, FACTS).pod_ip


def test_there_is_a_status_for_every_container_of_the_spec() -> None:
    it = pod("a", "b", init=("i",), ephemeral=("debug",))
    shown = generate(it, observe(it), FACTS)
    assert [["i"], ["a", "b"], ["debug"]] == [
        [s.name for s in statuses]
        for statuses in (shown.init_container_statuses, shown.container_statuses, shown.ephemeral_container_statuses)
    ]


@pytest.mark.parametrize(
    ("expected", "made"),
    [
        (NOW, ()),
        (EARLIER, (parse_rfc3339(EARLIER),)),
        (EARLIER, (parse_rfc3339(NOW), parse_rfc3339(EARLIER) + 5)),
        (NOW, (parse_rfc3339(NOW) + 5 * SECOND_NS,)),
    ],
    ids=["nothing of it exists", "its sandbox is older", "the oldest counts", "a clock that was set back"],
)
def test_a_pod_without_an_earlier_status_is_as_old_as_its_oldest_sandbox(expected: str, made: tuple[int, ...]) -> None:
    it = pod("a")
    boxes = tuple(replace(BOX, id=f"box{n}", created_at=when) for n, when in enumerate(made))
    assert expected == generate(it, observe(it, sandboxes=boxes), FACTS).start_time


def test_a_pod_is_not_as_old_as_a_sandbox_of_an_earlier_instance() -> None:
    it = pod("a")
    began = parse_rfc3339(EARLIER)
    own, earlier = replace(BOX, id="own", created_at=began), replace(BOX, id="e", created_at=began - 9 * SECOND_NS)
    observed = observe(it, sandboxes=(own, earlier)).without_earlier(frozenset({"e"}))
    assert EARLIER == generate(it, observed, FACTS).start_time


def test_init_containers_that_are_done_are_ready_and_initialise_the_pod() -> None:
    it = pod("a", init=("i",))
    shown = generate(it, observe(it, exited("i")), FACTS)
    assert (True, {"True"}) == (
        shown.init_container_statuses[0].ready, {c.status for c in shown.conditions if c.type == "Initialized"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("previous", "reported"),
    [(status(start_time=EARLIER), None), (None, status(start_time=EARLIER)), (status(), status(start_time=EARLIER))],
    ids=["we had computed it", "the server has it", "only the server has it"],
)
def test_the_start_time_is_set_once(previous: k8s.PodStatus | None, reported: k8s.PodStatus | None) -> None:
    it = pod("a", status=reported)
    assert EARLIER == generate(it, observe(it), facts(previous)).start_time


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
@pytest.mark.parametrize("who", ["we", "the server"])
def test_terminal_phase_keeps_its_reason_from_any_source(who: str, end: str) -> None:
    over = status(end, reason="Evicted", message="no memory")
    it = pod("a", status=over if who == "the server" else status("Running"))
    shown = generate(it, observe(it, running("a")), facts(over if who == "we" else status("Running")))
    assert (end, "Evicted", "no memory") == (shown.phase, shown.reason, shown.message)
    assert {"False"} == {c.status for c in shown.conditions if c.type in ("Ready", "ContainersReady")}


def test_reason_and_message_stay_while_the_phase_does() -> None:
    it = pod("a", "b")
    shown = generate(it, observe(it, running("a")), facts(status("Pending", reason="Slow", message="very")))
    assert ("Pending", "Slow", "very") == (shown.phase, shown.reason, shown.message)


def test_reason_and_message_go_with_the_phase_they_were_for() -> None:
    it = pod("a")
    shown = generate(it, observe(it, running("a")), facts(status("Pending", reason="Slow", message="very")))
    assert ("Running", "", "") == (shown.phase, shown.reason, shown.message)


@pytest.mark.parametrize(
    ("phase", "state", "beside", "is_ending"),
    [
        pytest.param("Failed", "terminated", (), False, id="alone"),
        pytest.param("Failed", "terminated", (exited("b"),), False, id="the other has ended"),
        pytest.param("Failed", "terminated", (unknown("b"),), False, id="both are lost"),
        pytest.param("Running", "waiting", (running("b"),), False, id="the other runs"),
        pytest.param("Running", "terminated", (running("b"),), True, id="the other runs until the pod has ended"),
    ],
)
def test_a_container_that_was_lost_waits_to_be_made_again_while_its_pod_goes_on(
    phase: str, state: str, beside: tuple[ContainerStatus, ...], is_ending: bool
) -> None:
    it = pod("a", *(one.name for one in beside), policy="Never")
    shown = generate(it, observe(it, unknown("a"), *beside), replace(FACTS, is_ending=is_ending))
    of_it = shown.container_statuses[0].state
    assert of_it is not None
    assert (phase, state) == (shown.phase, "waiting" if of_it.waiting is not None else "terminated")


def test_an_init_container_that_was_lost_and_may_not_run_again_has_ended_with_its_pod() -> None:
    it = pod("a", init=("i",), policy="Never")
    shown = generate(it, observe(it, unknown("i")), FACTS)
    of_it = shown.init_container_statuses[0].state
    assert of_it is not None
    assert ("Failed", True) == (shown.phase, of_it.terminated is not None)


def test_running_can_go_back_to_pending() -> None:
    it = pod("a", "b")
    assert "Pending" == generate(it, observe(it, running("a")), facts(status("Running"))).phase


def test_status_has_the_reason_of_the_pods_end() -> None:
    it = pod("a", policy="Never")
    shown = generate(it, observe(it, exited("a", 137)), facts(is_ending=True, reason="Evicted", message="no memory"))
    assert ("Failed", "Evicted", "no memory") == (shown.phase, shown.reason, shown.message)


def test_containers_that_ran_when_an_earlier_agent_looked_have_ended() -> None:
    it = pod("a", status=status("Running", container_statuses=(runs("a", restart_count=1),)))
    (shown,) = generate(it, observe(it), facts()).container_statuses
    assert shown.last_state is not None
    assert (2, 137) == (shown.restart_count, shown.last_state.terminated and shown.last_state.terminated.exit_code)


def test_a_pod_that_lost_its_containers_still_runs() -> None:
    it = pod("a", "b")
    before = status("Running", container_statuses=(runs("a"), runs("b")))
    assert "Running" == generate(it, observe(it), facts(before)).phase


def test_a_never_pod_that_lost_its_containers_has_failed() -> None:
    it = pod("a", "b", policy="Never")
    before = status("Running", container_statuses=(runs("a"), stopped("b")))
    assert "Failed" == generate(it, observe(it), facts(before)).phase


# ---- the deadline ----


def at_work_for(seconds: int, deadline: int | None, phase: str = "Running", policy: str = "Always") -> k8s.PodStatus:
    it = pod("a", active_deadline_seconds=deadline, policy=policy)
    now = rfc3339(parse_rfc3339(EARLIER) + seconds * SECOND_NS)
    seen = running("a") if phase == "Running" else exited("a")
    return generate(it, observe(it, seen), replace(facts(status(phase, start_time=EARLIER)), now=now))


def test_a_pod_fails_when_its_time_is_over_and_not_a_second_before() -> None:
    assert "Running" == at_work_for(59, 60).phase
    late = at_work_for(60, 60)
    assert ("Failed", "DeadlineExceeded") == (late.phase, late.reason)
    assert {"PodFailed"} == {c.reason for c in late.conditions if c.type in ("Ready", "ContainersReady")}


def test_a_pod_without_a_deadline_has_all_the_time() -> None:
    assert "Running" == at_work_for(10**9, None).phase


def test_a_pod_that_is_done_is_not_failed_for_being_old() -> None:
    assert "Succeeded" == at_work_for(3600, 60, "Succeeded").phase
    assert "Succeeded" == at_work_for(3600, 60, "Pending", "Never").phase


@pytest.mark.parametrize(
    ("expected", "deadline", "start", "after"),
    [
        (60, 60, EARLIER, 0),
        (0.5, 60, EARLIER, 59.5),
        (0, 60, EARLIER, 61),
        (None, None, EARLIER, 61),
        (None, 60, "", 61),
    ],
)
def test_the_time_a_pod_has_left(expected: float | None, deadline: int | None, start: str, after: float) -> None:
    it = pod("a", active_deadline_seconds=deadline)
    assert expected == deadline_left(it, start, parse_rfc3339(EARLIER) + int(after * SECOND_NS))


# ---- conditions of others ----


def gate(value: str) -> k8s.PodCondition:
    return condition("gate", value)


def gates_of(shown: k8s.PodStatus) -> list[str]:
    return [c.status for c in shown.conditions if c.type == "gate"]


def test_a_gate_is_read_from_what_the_server_told_last() -> None:
    it = pod(
        "a", status=status("Running", gate("True")), readiness_gates=(k8s.PodReadinessGate(condition_type="gate"),)
    )
    shown = generate(it, observe(it, running("a")), facts(status("Running", gate("False"))))
    assert ["True"] == gates_of(shown)
    assert ["True"] == [c.status for c in shown.conditions if c.type == "Ready"]


def test_a_condition_the_server_has_not_any_more_is_gone() -> None:
    it = pod("a", status=status("Running"))
    assert [] == gates_of(generate(it, observe(it), facts(status("Running", gate("True")))))


def test_without_a_server_conditions_of_others_are_kept() -> None:
    it = pod("a")
    assert ["True"] == gates_of(generate(it, observe(it), facts(status("Running", gate("True")))))


def test_a_disruption_we_computed_is_not_lost_because_the_server_does_not_know_it() -> None:
    it = pod("a", status=status("Running"))
    shown = generate(it, observe(it), facts(status("Running", condition("DisruptionTarget"))))
    assert "DisruptionTarget" in {c.type for c in shown.conditions}


def test_our_own_conditions_keep_their_times_by_what_we_computed_not_by_what_the_server_has() -> None:
    ours = condition("Ready", "True", last_transition_time=EARLIER)
    stale = condition("Ready", "False", last_transition_time="2020-01-01T00:00:00Z")
    it = pod("a", status=status("Running", stale))
    shown = generate(it, observe(it, running("a")), facts(status("Running", ours)))
    assert [("True", EARLIER)] == [(c.status, c.last_transition_time) for c in shown.conditions if c.type == "Ready"]


def test_computing_again_from_the_same_facts_changes_nothing() -> None:
    it = pod("a", "b", init=("i",))
    observed = observe(it, exited("i"), running("a"), exited("b", 1), sandboxes=(BOX,))
    backs_off = ContainerFacts(waiting={"b": ("CrashLoopBackOff", "")})
    first = generate(it, observed, facts(containers=backs_off))
    assert first == generate(it, observed, replace(facts(first, containers=backs_off), now="2027-01-01T00:00:00Z"))
