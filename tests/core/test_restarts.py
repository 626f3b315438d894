"""Whether a container that ended runs again."""

from typing import NamedTuple

import pytest

from core.podkit import container, created, exited, pod, rule, running, sidecar, unknown
from trikubelet.core.restarts import allows_restart, is_sidecar, policy, rule_action, should_restart
from trikubelet.model import k8s


class Case(NamedTuple):
    id: str
    expected: set[int]
    pod_policy: str
    container: k8s.Container


IN_42, NOT_IN_42 = rule("Restart", "In", 42), rule("Restart", "NotIn", 42)
CODES = {0, 1, 42}

CASES = [
    Case("Always: any exit", {0, 1, 42}, "Always", container("a")),
    Case("OnFailure: failures", {1, 42}, "OnFailure", container("a")),
    Case("Never: none", set(), "Never", container("a")),
    Case("no policy at all means Always", {0, 1, 42}, "", container("a")),
    Case("its own Always over the pod's Never", {0, 1, 42}, "Never", container("a", "Always")),
    Case("its own OnFailure over the pod's Never", {1, 42}, "Never", container("a", "OnFailure")),
    Case("its own Never over the pod's Always", set(), "Always", container("a", "Never")),
    Case("a rule adds a code", {42}, "Never", container("a", "Never", IN_42)),
    Case("a rule adds all codes but one", {0, 1}, "Never", container("a", "Never", NOT_IN_42)),
    Case("a rule takes nothing away", {0, 1, 42}, "Always", container("a", "", IN_42)),
    Case("a rule that restarts all restarts it too", {42}, "Never",
         container("a", "Never", rule("RestartAllContainers", "In", 42))),
    Case("a rule with several codes", {1, 42}, "Never", container("a", "Never", rule("Restart", "In", 1, 42))),
    Case("a rule without codes matches nothing", set(), "Never",
         container("a", "Never", k8s.ContainerRestartRule(action="Restart"))),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_exit_codes_after_which_a_container_runs_again(case: Case) -> None:
    it = pod(case.container, policy=case.pod_policy)
    assert case.expected == {code for code in CODES if allows_restart(it, case.container, code)}


@pytest.mark.parametrize(
    ("expected", "code"), [("Restart", 1), ("RestartAllContainers", 42), ("RestartAllContainers", 7), ("", 0)]
)
def test_the_first_rule_that_matches_counts(expected: str, code: int) -> None:
    rules = (rule("Restart", "In", 1), rule("RestartAllContainers", "NotIn", 0), rule("Restart", "In", 42))
    assert expected == rule_action(container("a", "Never", *rules), code)


def test_a_sidecar_is_an_init_container_that_always_restarts() -> None:
    assert is_sidecar(sidecar("a"))
    assert not is_sidecar(container("a"))
    assert not is_sidecar(container("a", "OnFailure"))


def test_the_policy_in_force() -> None:
    assert ("Never", "OnFailure", "Always") == (
        policy(pod(policy="OnFailure"), container("a", "Never")),
        policy(pod(policy="OnFailure"), container("a")),
        policy(pod(policy=""), container("a")),
    )


A = container("a")


@pytest.mark.parametrize(
    ("expected", "status"),
    [
        pytest.param(True, None, id="nothing of it exists"),
        pytest.param(True, created("a"), id="it was made and never started"),
        pytest.param(True, unknown("a"), id="nobody knows"),
        pytest.param(False, running("a"), id="it runs"),
        pytest.param(False, exited("a", 1), id="it failed"),
    ],
)
def test_what_should_be_started_under_never(expected: bool, status: object) -> None:
    assert expected == should_restart(pod(A, policy="Never"), A, status)  # type: ignore[arg-type]


def test_what_runs_is_not_started_under_any_policy() -> None:
    assert not any(should_restart(pod(A, policy=each), A, running("a")) for each in ("Always", "OnFailure", "Never"))


@pytest.mark.parametrize("status", [None, created("a"), unknown("a"), exited("a", 1)])
def test_nothing_is_started_in_a_pod_that_is_being_deleted(status: object) -> None:
    it = pod(A, meta={"deletion_timestamp": "2026-01-01T00:00:00Z"})
    assert not should_restart(it, A, status)  # type: ignore[arg-type]
