"""Which regular containers a plan starts and kills, and when it makes the sandbox again."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from core.podkit import (
    BOX,
    DEAD_BOX,
    all_running,
    container,
    created,
    exited,
    observe,
    pod,
    rule,
    running,
    sidecar,
    summary,
    unknown,
)
from core.statuskit import runs, stopped
from trikubelet.core.actions import Kill, KillReason, Verdict, Verdicts, plan
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerStatus, SandboxStatus

ALL = (0, 1, 2)
ANEW = {"kill_pod": True, "create": True}


class Case(NamedTuple):
    id: str
    expected: dict[str, Any]
    policy: str = "Always"
    statuses: tuple[ContainerStatus, ...] = (running("foo1"), running("foo2"), running("foo3"))
    sandboxes: tuple[SandboxStatus, ...] = (BOX,)
    verdicts: Verdicts = Verdicts()


def dead(attempt: int = 0) -> tuple[SandboxStatus, ...]:
    return (replace(DEAD_BOX, attempt=attempt),)


FAILED_1 = {"foo2-0": Verdict.FAILURE}
TWO_EXITED = (exited("foo1", 0), exited("foo2", 111), running("foo3"))
ALL_DONE = (exited("foo1"), exited("foo2"), exited("foo3"))

CASES = [
    Case("everything is good: nothing", {}),
    Case("a new pod: make the sandbox and start all", {**ANEW, "start": ALL}, statuses=(), sandboxes=()),
    Case("Always restarts every exit", {"start": (0, 1)}, statuses=TWO_EXITED),
    Case("OnFailure restarts failures only", {"start": (1,)}, "OnFailure", TWO_EXITED),
    Case(
        "OnFailure starts what was created and never started", {"start": (1,)}, "OnFailure",
        (exited("foo1"), created("foo2"), running("foo3")),
    ),
    Case("Never restarts nothing", {}, "Never", TWO_EXITED),
    Case("a dead sandbox is replaced, Always starts all", {**ANEW, "attempt": 1, "start": ALL}, sandboxes=dead()),
    Case(
        "a dead sandbox is replaced, OnFailure leaves out what succeeded", {**ANEW, "attempt": 1, "start": (0, 2)},
        "OnFailure", (running("foo1"), exited("foo2"), running("foo3")), dead(),
    ),
    Case(
        "a sandbox without an address is replaced", {**ANEW, "attempt": 1, "start": ALL},
        sandboxes=(replace(BOX, ips=()),),
    ),
    Case(
        "a sandbox on the wrong network is replaced", {**ANEW, "attempt": 1, "start": ALL},
        sandboxes=(replace(BOX, host_network=True, ips=()),),
    ),
    Case(
        "two ready sandboxes are one too many", {**ANEW, "attempt": 4, "start": ALL},
        sandboxes=(replace(BOX, id="b", attempt=3), replace(BOX, attempt=2)),
    ),
    Case(
        "an older dead sandbox does not matter", {}, sandboxes=(replace(BOX, id="b", attempt=1), DEAD_BOX),
    ),
    Case(
        "a changed definition kills and restarts", {"kill": {"foo2"}, "start": (1,)},
        statuses=(running("foo1"), running("foo2", hash="old"), running("foo3")),
    ),
    Case(
        "a changed definition restarts even under Never", {"kill": {"foo2"}, "start": (1,)}, "Never",
        (running("foo1"), running("foo2", hash="old"), running("foo3")),
    ),
    Case("failed liveness kills and restarts", {"kill": {"foo2"}, "start": (1,)}, verdicts=Verdicts(liveness=FAILED_1)),
    Case("failed startup kills and restarts", {"kill": {"foo2"}, "start": (1,)}, verdicts=Verdicts(startup=FAILED_1)),
    Case(
        "a restart that was asked for kills and restarts", {"kill": {"foo2"}, "start": (1,)},
        verdicts=Verdicts(restarts=frozenset({"foo2-0"})),
    ),
    Case("failed liveness under Never only kills", {"kill": {"foo2"}}, "Never", verdicts=Verdicts(liveness=FAILED_1)),
    Case(
        "failed liveness of the last container under Never ends the pod", {"kill_pod": True}, "Never",
        (exited("foo1"), running("foo2"), exited("foo3")), verdicts=Verdicts(liveness=FAILED_1),
    ),
    Case(
        "no sandbox, Never, all exited: nothing is recreated", {"kill_pod": True, "attempt": 2}, "Never", ALL_DONE,
        dead(1),
    ),
    Case(
        "no sandbox, OnFailure, all succeeded: nothing is recreated", {"kill_pod": True, "attempt": 2}, "OnFailure",
        ALL_DONE, dead(1),
    ),
    Case(
        "no sandbox, Never, nothing was ever created: all start", {**ANEW, "attempt": 3, "start": ALL}, "Never", (),
        dead(2),
    ),
    Case(
        "unknown state is killed and started, even under Never", {"kill": {"foo2"}, "start": (1,)}, "Never",
        (running("foo1"), unknown("foo2"), running("foo3")),
    ),
    Case(
        "created state is started without a kill, even under Never", {"start": (1,)}, "Never",
        (running("foo1"), created("foo2"), running("foo3")),
    ),
    Case(
        "no sandbox, Never, one was made and never started: it starts", {**ANEW, "attempt": 2, "start": (1,)}, "Never",
        (exited("foo1"), created("foo2"), exited("foo3")), dead(1),
    ),
    Case("all succeeded under OnFailure: the pod ends", {"kill_pod": True}, "OnFailure", ALL_DONE),
    Case("a container that vanished is started", {"start": (2,)}, statuses=(running("foo1"), running("foo2"))),
    Case(
        "only the newest container of a name counts", {}, "OnFailure",
        (exited("foo1", 1), running("foo1", 1), running("foo2"), running("foo3")),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_plan(case: Case) -> None:
    it = pod(policy=case.policy)
    assert case.expected == summary(plan(it, observe(it, *case.statuses, sandboxes=case.sandboxes), case.verdicts))


def test_a_host_network_pod_needs_no_address() -> None:
    it = pod(host_network=True)
    box = replace(BOX, host_network=True, ips=())
    assert plan(it, observe(it, *all_running(it), sandboxes=(box,))).is_empty


@pytest.mark.parametrize("wanted", [False, True])
def test_a_sandbox_on_the_wrong_network_is_replaced_though_it_has_an_address(wanted: bool) -> None:
    it = pod(host_network=wanted)
    actions = plan(it, observe(it, *all_running(it), sandboxes=(replace(BOX, host_network=not wanted),)))
    assert (True, 1, "") == (actions.create_sandbox, actions.attempt, actions.sandbox_id)


def test_a_pod_being_deleted_restarts_nothing() -> None:
    it = pod(meta={"deletion_timestamp": "2026-01-01T00:00:00Z"})
    assert {} == summary(plan(it, observe(it, exited("foo1", 1), running("foo2"), running("foo3"))))


def test_the_plan_names_the_sandbox_the_containers_go_into() -> None:
    it = pod()
    box = replace(BOX, id="here", attempt=4)
    actions = plan(it, observe(it, running("foo1"), sandboxes=(box,)))
    assert ("here", 4) == (actions.sandbox_id, actions.attempt)


def test_a_kill_says_why_and_whether_it_is_for_a_restart() -> None:
    it = pod(policy="Never")
    changed = running("foo1", hash="old")
    failing, starting = running("foo2"), running("foo3")
    verdicts = Verdicts(liveness={failing.id: Verdict.FAILURE}, startup={starting.id: Verdict.FAILURE})
    kills = plan(it, observe(it, changed, failing, starting), verdicts).to_kill
    assert [
        (KillReason.HASH_CHANGED, "Container foo1 definition changed, will be restarted"),
        (KillReason.LIVENESS, "Container foo2 failed liveness probe"),
        (KillReason.STARTUP, "Container foo3 failed startup probe"),
    ] == [(kill.reason, kill.message) for kill in kills]


@pytest.mark.parametrize("verdict", [Verdict.SUCCESS, Verdict.UNKNOWN])
def test_only_a_failed_probe_kills(verdict: Verdict) -> None:
    it = pod()
    verdicts = Verdicts(liveness={"foo1-0": verdict}, startup={"foo2-0": verdict})
    assert plan(it, observe(it, *all_running(it)), verdicts).is_empty


# ---- the policy of a single container, and its rules, over its pod's ----

RESTART_42 = rule("Restart", "In", 42)


class Rules(NamedTuple):
    id: str
    expected: dict[str, Any]
    pod: k8s.Pod
    statuses: tuple[ContainerStatus, ...]
    sandboxes: tuple[SandboxStatus, ...] = (BOX,)


def trio_of(policy: str, pod_policy: str, *rules: k8s.ContainerRestartRule) -> k8s.Pod:
    return pod(*(container(name, policy, *rules) for name in ("foo1", "foo2", "foo3")), policy=pod_policy)


RULES = [
    Rules("the container's Always wins over the pod's Never", {"start": (0, 1)}, trio_of("Always", "Never"),
        TWO_EXITED),
    Rules("the container's OnFailure restarts only failures", {"start": (1,)}, trio_of("OnFailure", "Never"),
        TWO_EXITED),
    Rules(
        "a created container starts", {"start": (1,)}, trio_of("OnFailure", "Never"),
        (exited("foo1"), created("foo2"), running("foo3")),
    ),
    Rules("the container's Never wins over the pod's Always", {}, trio_of("Never", "Always"), TWO_EXITED),
    Rules(
        "a dead sandbox: what succeeded under its own OnFailure is left out",
        {**ANEW, "attempt": 1, "start": (0, 2)}, trio_of("OnFailure", "Never"),
        (running("foo1"), exited("foo2"), running("foo3")), dead(),
    ),
    Rules(
        "a dead sandbox: what ended under its own Never is left out", {**ANEW, "attempt": 1, "start": (0,)},
        pod(container("foo1"), container("foo2", "Never"), policy="Always"), (running("foo1"), exited("foo2", 1)),
        dead(),
    ),
    Rules(
        "a dead sandbox: what still ran under its own Never had its one run", {**ANEW, "attempt": 1, "start": (0,)},
        pod(container("foo1"), container("foo2", "Never"), policy="Always"), (running("foo1"), running("foo2")),
        dead(),
    ),
    Rules(
        "a matching rule restarts under Never", {"start": (1,)}, trio_of("Never", "Never", RESTART_42),
        (exited("foo1", 1), exited("foo2", 42), running("foo3")),
    ),
    Rules(
        "NotIn matches the codes that are not listed", {"start": (0,)},
        trio_of("Never", "Always", rule("Restart", "NotIn", 42)),
        (exited("foo1", 1), exited("foo2", 42), running("foo3")),
    ),
    Rules(
        "a dead sandbox: a rule that matches restarts", {**ANEW, "attempt": 1, "start": (1,)},
        trio_of("Never", "Never", RESTART_42), (exited("foo1", 1), exited("foo2", 42), exited("foo3", 1)), dead(),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", RULES, ids=lambda case: case.id)
def test_plan_by_container_policy(case: Rules) -> None:
    assert case.expected == summary(plan(case.pod, observe(case.pod, *case.statuses, sandboxes=case.sandboxes)))


@pytest.mark.parametrize(
    ("own", "pods", "started"),
    [("Always", "Never", (0,)), ("Never", "Always", ()), ("OnFailure", "Never", (0,)), ("", "Never", ())],
)
def test_a_failed_probe_obeys_the_policy_and_no_rule(own: str, pods: str, started: tuple[int, ...]) -> None:
    it = pod(container("foo1", own, rule("Restart", "NotIn", 0)), "foo2", policy=pods)
    actions = plan(it, observe(it, *all_running(it)), Verdicts(liveness={"foo1-0": Verdict.FAILURE}))
    assert (started, ["foo1"]) == (actions.to_start, [kill.status.name for kill in actions.to_kill])


SHOWN = k8s.PodStatus(container_statuses=(stopped("foo1", 1), stopped("foo2"), runs("foo3")))
ONE_UP = (running("foo3"),)


@pytest.mark.parametrize(
    ("expected", "policy", "seen", "sandboxes"),
    [
        pytest.param({}, "Never", ONE_UP, (BOX,), id="Never: they stay what they were"),
        pytest.param({"start": (0,)}, "OnFailure", ONE_UP, (BOX,), id="OnFailure: the one that failed runs again"),
        pytest.param({"start": (0, 1)}, "Always", ONE_UP, (BOX,), id="Always: both run again"),
        pytest.param({"kill_pod": True}, "Never", (exited("foo3"),), (BOX,), id="Never: the pod is over with the last"),
        pytest.param(
            {"kill_pod": True, "attempt": 1}, "Never", ONE_UP, dead(), id="Never, a dead sandbox: not made for them"
        ),
        pytest.param(
            {**ANEW, "attempt": 1, "start": (0, 2)}, "OnFailure", ONE_UP, dead(),
            id="OnFailure, a dead sandbox: without the one that succeeded",
        ),
    ],
)  # fmt: skip
def test_an_end_that_was_shown_counts_when_the_runtime_has_lost_its_record(
    expected: dict[str, Any], policy: str, seen: tuple[ContainerStatus, ...], sandboxes: tuple[SandboxStatus, ...]
) -> None:
    it = pod(policy=policy)
    assert expected == summary(plan(it, observe(it, *seen, sandboxes=sandboxes), shown=SHOWN))


def test_container_with_an_unseen_end_is_started_even_under_never() -> None:
    it = pod(policy="Never")
    unseen = stopped("foo2", 137, reason="ContainerStatusUnknown")
    shown = k8s.PodStatus(container_statuses=(runs("foo1"), unseen, runs("foo3")))
    assert {"start": (0, 1)} == summary(plan(it, observe(it, *ONE_UP), shown=shown))


def test_kill_is_a_record_of_the_observed_container() -> None:
    it = pod()
    observed = observe(it, unknown("foo1"), running("foo2"), running("foo3"))
    message = "Container foo1 is in unknown state, try killing it before restart"
    assert (Kill(observed.containers[0], KillReason.UNKNOWN_STATE, message),) == plan(it, observed).to_kill


def test_containers_with_the_hash_that_earlier_agents_wrote_are_not_restarted() -> None:
    written = "4a1b2edf"  # of a container "a" with this image, regular or sidecar
    regular = pod(container("a", image="busybox:1"))
    assert {} == summary(plan(regular, observe(regular, running("a", hash=written))))
    beside = pod(container("b"), init=(sidecar("a", image="busybox:1"),))
    assert {} == summary(plan(beside, observe(beside, running("a", hash=written), running("b"))))
