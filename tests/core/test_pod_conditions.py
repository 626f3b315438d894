"""The conditions of a pod: what each says, with which reason and message, and since when."""

from dataclasses import replace
from typing import NamedTuple

import msgspec
import pytest

from core.podkit import BOX, DEAD_BOX, container, exited, observe, pod, rule, running, sidecar
from core.statuskit import EARLIER, NOW, by_name, condition, runs, serves, shown, stopped, waits
from trikubelet.core.pod_status.conditions import OWNED, conditions, readiness_gates_differ
from trikubelet.model import k8s
from trikubelet.model.runtime import PodObservation, SandboxStatus

Said = tuple[str, str, str]
YES: Said = ("True", "", "")


def find(
    type_: str,
    it: k8s.Pod,
    *statuses: k8s.ContainerStatus,
    phase: str = "Running",
    observed: PodObservation | None = None,
    before: tuple[k8s.PodCondition, ...] = (),
) -> Said | None:
    found = conditions(it, by_name(*statuses), phase, observed or observe(it), before, NOW)
    return next(((c.status, c.reason, c.message) for c in found if c.type == type_), None)


class Case(NamedTuple):
    id: str
    expected: Said
    pod: k8s.Pod
    statuses: tuple[k8s.ContainerStatus, ...] = ()
    phase: str = "Running"


def ids(case: Case) -> str:
    return case.id


PLAIN, TWO, WITH_SIDECAR = pod("a"), pod("a", "b"), pod("a", init=(sidecar("side"),))

CONTAINERS_READY = [
    Case("no status at all", ("False", "UnknownContainerStatuses", ""), PLAIN),
    Case("all are ready", YES, TWO, (serves("a"), serves("b"))),
    Case(
        "one is unknown", ("False", "ContainersNotReady", "containers with unknown status: [b]"), TWO, (serves("a"),)
    ),
    Case(
        "two are not ready", ("False", "ContainersNotReady", "containers with unready status: [a b]"), TWO,
        (runs("a"), waits("b")),
    ),
    Case(
        "one is unknown, one not ready",
        ("False", "ContainersNotReady", "containers with unknown status: [b], containers with unready status: [a]"),
        TWO, (runs("a"),),
    ),
    Case("it succeeded", ("False", "PodCompleted", ""), PLAIN, (stopped("a"),), "Succeeded"),
    Case("it failed, one is still ready", ("False", "PodFailed", ""), TWO, (serves("a"), stopped("b", 1)), "Failed"),
    Case(
        "it succeeded, one is unknown", ("False", "ContainersNotReady",
        "containers with unknown status: [b], containers with unready status: [a]"), TWO, (stopped("a"),), "Succeeded",
    ),
    Case("a sidecar and the regular one are ready", YES, WITH_SIDECAR, (serves("side"), serves("a"))),
    Case(
        "a sidecar is not ready", ("False", "ContainersNotReady", "containers with unready status: [side]"),
        WITH_SIDECAR, (runs("side"), serves("a")),
    ),
    Case(
        "a sidecar is unknown", ("False", "ContainersNotReady", "containers with unknown status: [side]"),
        WITH_SIDECAR, (serves("a"),),
    ),
    Case("a plain init container does not serve", YES, pod("a", init=("init",)), (stopped("init"), serves("a"))),
]  # fmt: skip


@pytest.mark.parametrize("case", CONTAINERS_READY, ids=ids)
def test_containers_ready(case: Case) -> None:
    assert case.expected == find("ContainersReady", case.pod, *case.statuses, phase=case.phase)


@pytest.mark.parametrize("case", CONTAINERS_READY, ids=ids)
def test_a_pod_without_gates_is_ready_with_its_containers(case: Case) -> None:
    assert case.expected == find("Ready", case.pod, *case.statuses, phase=case.phase)


ONE_GATE = pod("a", readiness_gates=(k8s.PodReadinessGate(condition_type="gate"),))
TWO_GATES = pod("a", readiness_gates=tuple(k8s.PodReadinessGate(condition_type=t) for t in ("gate1", "gate2")))
NO_GATE = 'corresponding condition of pod readiness gate "gate" does not exist.'
MISSING_1 = 'corresponding condition of pod readiness gate "gate1" does not exist.'
FALSE_2 = 'the status of pod readiness gate "gate2" is not "True", but False'


@pytest.mark.parametrize(
    ("expected", "it", "before"),
    [
        pytest.param(("False", "ReadinessGatesNotReady", NO_GATE), ONE_GATE, (), id="the gate's condition is missing"),
        pytest.param(YES, ONE_GATE, (condition("gate"),), id="the gate is open"),
        pytest.param(
            ("False", "ReadinessGatesNotReady", f"{MISSING_1}, {FALSE_2}"), TWO_GATES, (condition("gate2", "False"),),
            id="one is missing, the other shut",
        ),
        pytest.param(YES, TWO_GATES, (condition("gate1"), condition("gate2")), id="both are open"),
    ],
)  # fmt: skip
def test_readiness_gates(expected: Said, it: k8s.Pod, before: tuple[k8s.PodCondition, ...]) -> None:
    assert expected == find("Ready", it, serves("a"), before=before)


@pytest.mark.parametrize("gate", ["True", "False", "Unknown", ""])
@pytest.mark.parametrize("status", [serves("a"), runs("a")], ids=["containers ready", "containers not ready"])
def test_what_was_written_heeds_the_gates_until_one_of_them_changes(gate: str, status: k8s.ContainerStatus) -> None:
    def told(now: str, written: tuple[k8s.PodCondition, ...]) -> k8s.Pod:
        others = (condition("gate", now),) if now else ()
        mine = tuple(one for one in written if one.type in OWNED)
        return msgspec.structs.replace(ONE_GATE, status=k8s.PodStatus(conditions=mine + others))

    before = (condition("gate", gate),) if gate else ()
    written = conditions(ONE_GATE, by_name(status), "Running", observe(ONE_GATE), before, NOW)
    assert not readiness_gates_differ(told(gate, written))
    for other in {"True", "False", "Unknown", ""} - {gate}:
        assert status.ready == readiness_gates_differ(told(other, written))


def test_a_pod_that_nothing_was_written_of_heeds_no_gate_and_one_without_gates_has_none_to_heed() -> None:
    assert readiness_gates_differ(ONE_GATE)
    assert not readiness_gates_differ(PLAIN)


def test_an_open_gate_does_not_make_unready_containers_ready() -> None:
    expected = ("False", "ContainersNotReady", "containers with unready status: [a]")
    assert expected == find("Ready", ONE_GATE, runs("a"), before=(condition("gate"),))


INIT, MIXED = pod("a", init=("i1", "i2")), pod("a", init=(sidecar("side"), "init"))
NOT_YET = "ContainersNotInitialized"
INITIALIZED = [
    Case("nothing to initialise", YES, PLAIN),
    Case("no status at all", ("False", "UnknownContainerStatuses", ""), INIT),
    Case("all succeeded", YES, INIT, (stopped("i1", ready=True), stopped("i2", ready=True))),
    Case(
        "one is unknown", ("False", NOT_YET, "containers with unknown status: [i2]"), INIT,
        (stopped("i1", ready=True),),
    ),
    Case(
        "one is unknown, one not done",
        ("False", NOT_YET, "containers with unknown status: [i2], containers with incomplete status: [i1]"), INIT,
        (runs("i1"),),
    ),
    Case(
        "one failed", ("False", NOT_YET, "containers with incomplete status: [i2]"), INIT,
        (stopped("i1", ready=True), stopped("i2", 1)),
    ),
    Case("the pod succeeded", ("True", "PodCompleted", ""), INIT, (stopped("i1"), stopped("i2")), "Succeeded"),
    Case("a sidecar has started", YES, MIXED, (runs("side", started=True), stopped("init", ready=True))),
    Case(
        "a sidecar has not started", ("False", NOT_YET, "containers with incomplete status: [side]"), MIXED,
        (runs("side", started=False), stopped("init", ready=True)),
    ),
    Case(
        "a sidecar of which that is not known", ("False", NOT_YET, "containers with incomplete status: [side]"),
        MIXED, (runs("side"), stopped("init", ready=True)),
    ),
    Case("a sidecar starts again beside a running container", YES, MIXED,
         (runs("side"), stopped("init", ready=True), runs("a", container_id="c://1"))),
    Case("a regular container has run before", YES, INIT, (waits("i1"), waits("i2"), waits("a", 1))),
]  # fmt: skip


@pytest.mark.parametrize("case", INITIALIZED, ids=ids)
def test_initialized(case: Case) -> None:
    assert case.expected == find("Initialized", case.pod, *case.statuses, phase=case.phase)


@pytest.mark.parametrize(
    ("why", "sandboxes"),
    [
        pytest.param("no pod sandbox exists", (), id="there is no sandbox"),
        pytest.param("pod sandbox is not ready", (DEAD_BOX,), id="the sandbox is dead"),
        pytest.param("pod sandbox has no IP address", (replace(BOX, ips=()),), id="the sandbox has no address"),
        pytest.param("multiple pod sandboxes are ready and need to be reconciled", (BOX, BOX), id="one too many"),
        pytest.param(
            "network namespace mode changed and sandbox needs to be recreated",
            (replace(BOX, host_network=True),),
            id="it is on the wrong network",
        ),
        pytest.param("", (BOX,), id="it stands and has an address"),
        pytest.param("", (BOX, DEAD_BOX), id="it stands, an older one is dead"),
    ],
)
def test_ready_to_start_containers_states_why_a_new_sandbox_is_needed(
    why: str, sandboxes: tuple[SandboxStatus, ...]
) -> None:
    observed = observe(PLAIN, sandboxes=sandboxes)
    expected = ("False", "PodSandboxNotReady", why) if why else YES
    assert expected == find("PodReadyToStartContainers", PLAIN, runs("a"), observed=observed)


ALL = rule("RestartAllContainers", "In", 42)
BOSS = pod("a", container("boss", "Never", ALL))
STARTED = ("True", "RestartAllContainersStarted", "containers whose exit restarts all containers: [boss]")


@pytest.mark.parametrize(
    ("expected", "observed", "phase"),
    [
        pytest.param(("False", "", ""), observe(BOSS, running("a"), running("boss")), "Running", id="nobody asked"),
        pytest.param(STARTED, observe(BOSS, running("a"), exited("boss", 42)), "Running", id="a rule matched"),
        pytest.param(STARTED, observe(BOSS, exited("boss", 42)), "Pending", id="the rest is gone"),
        pytest.param(("False", "", ""), observe(BOSS, exited("boss", 1)), "Running", id="no rule matched"),
        pytest.param(("False", "", ""), observe(BOSS), "Pending", id="all is gone"),
        pytest.param(
            ("False", "PodCompleted", ""), observe(BOSS, exited("a"), exited("boss", 42)), "Succeeded",
            id="the pod succeeded",
        ),
        pytest.param(
            ("False", "PodFailed", ""), observe(BOSS, exited("a"), exited("boss", 42)), "Failed", id="the pod failed"
        ),
    ],
)  # fmt: skip
def test_all_containers_restarting(expected: Said, observed: PodObservation, phase: str) -> None:
    said = find("AllContainersRestarting", BOSS, runs("a"), stopped("boss"), observed=observed, phase=phase)
    assert expected == said


def test_a_pod_without_such_a_rule_has_no_such_condition() -> None:
    assert find("AllContainersRestarting", PLAIN, runs("a")) is None


# ---- what is kept, and since when ----


def test_a_condition_that_did_not_change_keeps_its_time_and_one_that_did_gets_the_present() -> None:
    before = tuple(
        condition(type_, status, last_transition_time=EARLIER)
        for type_, status in (("Ready", "False"), ("ContainersReady", "True"), ("PodScheduled", "True"))
    )
    found = conditions(PLAIN, by_name(serves("a")), "Running", observe(PLAIN), before, NOW)
    times = {c.type: c.last_transition_time for c in found}
    assert {"Ready": NOW, "ContainersReady": EARLIER, "PodScheduled": EARLIER, "Initialized": NOW} == {
        type_: times[type_] for type_ in ("Ready", "ContainersReady", "PodScheduled", "Initialized")
    }


def test_every_condition_of_ours_tells_the_generation_it_was_computed_from() -> None:
    it = pod("a", meta={"generation": 7})
    assert {7} == {c.observed_generation for c in conditions(it, {}, "Pending", observe(it), (), NOW)}


def test_conditions_of_others_stay_as_they_are() -> None:
    theirs = (condition("theirs", "Unknown", reason="Because"), condition("DisruptionTarget"))
    found = conditions(PLAIN, {}, "Pending", observe(PLAIN), theirs, NOW)
    assert theirs == tuple(c for c in found if c.type not in OWNED)


def test_a_status_without_a_state_does_not_count_as_started() -> None:
    found = find("Initialized", INIT, shown("i1", None), shown("i2", None), shown("a", None))
    assert ("False", NOT_YET, "containers with incomplete status: [i1 i2]") == found
