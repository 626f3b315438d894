"""The phase, row by row: what the containers show, and what the pod is called for it."""

from typing import NamedTuple

import msgspec
import pytest

from core.podkit import container, pod, rule, sidecar
from core.statuskit import by_name, ended, runs, serves, shown, stopped, waits
from trikubelet.core.names import CONFIG_SOURCE
from trikubelet.core.pod_status.phase import phase
from trikubelet.model import k8s

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


class Case(NamedTuple):
    id: str
    expected: str
    statuses: tuple[k8s.ContainerStatus, ...] = ()
    is_ending: bool = False


def ids(case: Case) -> str:
    return case.id


def check(it: k8s.Pod, case: Case) -> None:
    assert case.expected == phase(it, by_name(*case.statuses), is_ending=case.is_ending)


def again(name: str) -> k8s.ContainerStatus:
    """It had succeeded, was made once more and has not been started."""
    before = k8s.ContainerState(terminated=k8s.ContainerStateTerminated(exit_code=0, container_id="memory://first"))
    return msgspec.structs.replace(waits(name, container_id="memory://second"), last_state=before)


BOTH_RUN = (runs("a"), runs("b"))
BOTH_DONE = (stopped("a"), stopped("b"))

COMMON = [
    Case("nothing is known: Pending", PENDING),
    Case("both run: Running", RUNNING, BOTH_RUN),
    Case("one runs, of the other nothing is known: Pending", PENDING, (runs("a"),)),
    Case("one runs, the other waits: Pending", PENDING, (runs("a"), waits("b"))),
    Case("a status without a state is unknown: Pending", PENDING, (runs("a"), shown("b", None))),
]

ALWAYS = [
    *COMMON,
    Case("both ended: Running, they will start again", RUNNING, BOTH_DONE),
    Case("both succeeded and the pod ends: Succeeded", SUCCEEDED, BOTH_DONE, is_ending=True),
    Case("one failed and the pod ends: Failed", FAILED, (stopped("a"), stopped("b", 1)), is_ending=True),
    Case("one runs, the other ended: Running", RUNNING, (runs("a"), stopped("b"))),
    Case("one runs, the other backs off: Running", RUNNING, (runs("a"), waits("b", 1))),
    Case("both back off: Running", RUNNING, (waits("a", 1), waits("b", 1))),
    Case("one backs off and the pod ends: Failed", FAILED, (stopped("a"), waits("b", 1)), is_ending=True),
    Case("one never started and the pod ends: Pending", PENDING, (stopped("a"), waits("b")), is_ending=True),
]


@pytest.mark.parametrize("case", ALWAYS, ids=ids)
def test_phase_under_always(case: Case) -> None:
    check(pod("a", "b"), case)


NEVER = [
    *COMMON,
    Case("both succeeded: Succeeded", SUCCEEDED, BOTH_DONE),
    Case("both failed: Failed", FAILED, (stopped("a", -1), stopped("b", -1))),
    Case("one failed: Failed", FAILED, (stopped("a"), stopped("b", 1))),
    Case("one runs, the other succeeded: Running", RUNNING, (runs("a"), stopped("b"))),
    Case("one runs, the other failed: Running", RUNNING, (runs("a"), stopped("b", 1))),
    Case("one was lost unseen: Failed, not to be run again", FAILED, (stopped("a"), waits("b", 137))),
    Case("one was recreated after an edit: Running", RUNNING, (stopped("a"), again("b"))),
]


@pytest.mark.parametrize("case", NEVER, ids=ids)
def test_phase_under_never(case: Case) -> None:
    check(pod("a", "b", policy="Never"), case)


ALL = rule("RestartAllContainers", "In", 42)
WATCHED = pod("a", "b", policy="Never", init=("setup", sidecar("watcher", ALL)))


def taken_away(name: str, code: int = 137, reason: str = "RestartingAllContainers") -> k8s.ContainerStatus:
    """It had ended like this, and waits for being made again."""
    before = k8s.ContainerState(
        terminated=k8s.ContainerStateTerminated(exit_code=code, reason=reason, container_id="memory://first")
    )
    return msgspec.structs.replace(waits(name), last_state=before)


class StartingOver(NamedTuple):
    id: str
    expected: str
    statuses: tuple[k8s.ContainerStatus, ...]
    is_starting_over: bool = False
    is_ending: bool = False


STARTING_OVER = [
    StartingOver(
        "the cause backs off, all others are gone: Running, as it was",
        RUNNING,
        (taken_away("setup", 0), waits("watcher", 42), taken_away("a"), taken_away("b")),
        is_starting_over=True,
    ),
    StartingOver(
        "one was stopped and could not be removed yet: Running",
        RUNNING,
        (stopped("setup"), stopped("watcher", 42), stopped("a", 137), runs("b")),
        is_starting_over=True,
    ),
    StartingOver(
        "all are gone: Pending, it is initialised again",
        PENDING,
        (taken_away("setup", 0), taken_away("watcher", 42), taken_away("a"), taken_away("b")),
    ),
    StartingOver(
        "an init container that was stopped runs again: Pending",
        PENDING,
        (taken_away("setup"), taken_away("watcher", 42), taken_away("a"), taken_away("b")),
    ),
    StartingOver(
        "it is initialised, and what was stopped waits for its start: Running",
        RUNNING,
        (stopped("setup"), runs("watcher"), taken_away("a"), taken_away("b", 0, "Completed")),
    ),
    StartingOver(
        "one was lost unseen: Failed, as in any pod",
        FAILED,
        (stopped("setup"), stopped("watcher"), stopped("a"), taken_away("b", 137, "ContainerStatusUnknown")),
    ),
    StartingOver(
        "the pod ends meanwhile: Failed",
        FAILED,
        (stopped("setup"), stopped("watcher", 42), taken_away("a"), taken_away("b")),
        is_ending=True,
    ),
]


@pytest.mark.parametrize("case", STARTING_OVER, ids=lambda case: case.id)
def test_phase_of_a_pod_that_starts_over(case: StartingOver) -> None:
    found = phase(WATCHED, by_name(*case.statuses), is_ending=case.is_ending, is_starting_over=case.is_starting_over)

    assert case.expected == found


ON_FAILURE = [
    *COMMON,
    Case("both succeeded: Succeeded", SUCCEEDED, BOTH_DONE),
    Case("both failed: Running, they will start again", RUNNING, (stopped("a", -1), stopped("b", -1))),
    Case("one failed: Running", RUNNING, (stopped("a"), stopped("b", 1))),
    Case("one runs, the other succeeded: Running", RUNNING, (runs("a"), stopped("b"))),
    Case("one runs, the other backs off: Running", RUNNING, (runs("a"), waits("b", 1))),
    Case("one failed and the pod ends: Failed", FAILED, (stopped("a"), stopped("b", 1)), is_ending=True),
    Case("one that succeeded was recreated: Running", RUNNING, (stopped("a"), again("b"))),
    Case("one was recreated and the pod ends: Failed", FAILED, (stopped("a"), again("b")), is_ending=True),
]


def test_a_static_pod_that_ends_starts_nothing_that_was_recreated() -> None:
    it = pod("a", policy="Never", meta={"annotations": {CONFIG_SOURCE: "file"}})
    check(it, Case("", RUNNING, (again("a"),)))
    check(it, Case("", FAILED, (again("a"),), is_ending=True))


@pytest.mark.parametrize("case", ON_FAILURE, ids=ids)
def test_phase_under_on_failure(case: Case) -> None:
    check(pod("a", "b", policy="OnFailure"), case)


INIT = [
    Case("nothing is known: Pending", PENDING),
    Case("it runs: Pending", PENDING, (runs("init"),)),
    Case("it waits for a second run though it had succeeded: Pending", PENDING, (waits("init", 0),)),
    Case("it waits: Pending", PENDING, (waits("init"),)),
    Case("it runs once more after a failure: Pending", PENDING, (runs("init", last_state=ended(1)), *BOTH_DONE)),
    Case("it waits for a second run in a pod that has run: Pending", PENDING, (waits("init", 0), *BOTH_DONE)),
    Case("it succeeded, the others run: Running", RUNNING, (stopped("init"), *BOTH_RUN)),
    Case("it succeeded, the others wait: Pending", PENDING, (stopped("init"), waits("a"), waits("b"))),
]
FAILED_INIT = (stopped("init", 1), waits("init", 1), stopped("init", reason="OOMKilled"))


@pytest.mark.parametrize("case", INIT, ids=ids)
@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_phase_with_an_init_container(policy: str, case: Case) -> None:
    check(pod("a", "b", init=("init",), policy=policy), case)


@pytest.mark.parametrize("init", FAILED_INIT, ids=["it failed", "it failed and waits", "killed for memory with code 0"])
@pytest.mark.parametrize(
    ("expected", "policy", "own"),
    [(PENDING, "Always", ""), (PENDING, "OnFailure", ""), (FAILED, "Never", ""), (FAILED, "Always", "Never"),
     (PENDING, "Never", "OnFailure")],
)  # fmt: skip
def test_a_failed_init_container_fails_the_pod_only_where_it_may_not_run_again(
    expected: str, policy: str, own: str, init: k8s.ContainerStatus
) -> None:
    it = pod("a", init=(container("init", own),), policy=policy)
    check(it, Case("", expected, (init, waits("a"))))


SIDECAR_BEFORE = [
    Case("nothing is known: Pending", PENDING),
    Case("it runs: Pending", PENDING, (runs("side"),)),
    Case("it ended: Pending", PENDING, (stopped("side"),)),
    Case("it ended and waits: Pending", PENDING, (waits("side", 0),)),
    Case("it failed and waits: Pending", PENDING, (waits("side", 1),)),
    Case("it waits: Pending", PENDING, (waits("side"),)),
    Case("it has started, one of two runs: Pending", PENDING, (serves("side"), runs("a"))),
]
SIDECAR_ALWAYS = [
    *SIDECAR_BEFORE,
    Case("it has started, the others run: Running", RUNNING, (serves("side"), *BOTH_RUN)),
    Case("it starts again, the others run: Running", RUNNING, (runs("side"), *BOTH_RUN)),
    Case("it ended, the others run: Running", RUNNING, (stopped("side"), *BOTH_RUN)),
    Case("it backs off, the others run: Running", RUNNING, (waits("side", 1), *BOTH_RUN)),
    Case("it failed, the others succeeded, the pod ends: Succeeded", SUCCEEDED, (stopped("side", 1), *BOTH_DONE), True),
    Case("all succeeded, the pod ends: Succeeded", SUCCEEDED, (stopped("side"), *BOTH_DONE), True),
    Case("it still runs, the others succeeded, the pod ends: Running", RUNNING, (serves("side"), *BOTH_DONE), True),
]
SIDECAR_NEVER = [
    *SIDECAR_BEFORE,
    Case("it has started, the others succeeded: Running, for something does", RUNNING, (serves("side"), *BOTH_DONE)),
    Case("it starts again, the others succeeded: Running", RUNNING, (runs("side"), *BOTH_DONE)),
    Case("all succeeded: Succeeded", SUCCEEDED, (stopped("side"), *BOTH_DONE)),
    Case("it failed, the others succeeded: Succeeded", SUCCEEDED, (stopped("side", 1), *BOTH_DONE)),
    Case("it backs off after success, the others succeeded: Succeeded", SUCCEEDED, (waits("side", 0), *BOTH_DONE)),
    Case("it backs off after failure, the others succeeded: Succeeded", SUCCEEDED, (waits("side", 1), *BOTH_DONE)),
    Case("it succeeded, one of the others failed: Failed", FAILED, (stopped("side"), stopped("a"), stopped("b", 1))),
]


@pytest.mark.parametrize("case", SIDECAR_ALWAYS, ids=ids)
def test_phase_with_a_sidecar_under_always(case: Case) -> None:
    check(pod("a", "b", init=(sidecar("side"),)), case)


@pytest.mark.parametrize("case", SIDECAR_NEVER, ids=ids)
def test_phase_with_a_sidecar_under_never(case: Case) -> None:
    check(pod("a", "b", init=(sidecar("side"),), policy="Never"), case)


HAS_RUN = [
    Case("an init container runs beside all others: Pending", PENDING, (runs("init"), runs("side"), runs("a"))),
    Case("an init container runs again: Pending", PENDING, (runs("init"), runs("side"), stopped("a"))),
    Case("the regular one is down: Running", RUNNING, (stopped("init"), runs("side"), stopped("a"))),
    Case("the sidecar starts, the regular one runs: Running", RUNNING, (stopped("init"), runs("side"), runs("a"))),
    Case(
        "the sidecar waits for its first run: Pending",
        PENDING,
        (stopped("init"), waits("side"), waits("a", 1)),
    ),
]


@pytest.mark.parametrize("case", HAS_RUN, ids=ids)
def test_phase_of_a_pod_that_has_run_before(case: Case) -> None:
    check(pod("a", init=("init", sidecar("side"))), case)


OWN = [
    Case("its own Always keeps a Never pod running", RUNNING, (stopped("always"), stopped("never"))),
    Case("both were left by a policy that wants one back: Running", RUNNING, (waits("always", 0), stopped("never", 1))),
    Case("the pod ends and one failed: Failed", FAILED, (stopped("always"), stopped("never", 1)), True),
]


@pytest.mark.parametrize("case", OWN, ids=ids)
def test_phase_with_policies_of_single_containers(case: Case) -> None:
    check(pod(container("always", "Always"), container("never", "Never"), policy="Never"), case)


@pytest.mark.parametrize(
    ("expected", "code", "action"),
    [(RUNNING, 42, "Restart"), (FAILED, 1, "Restart"), (RUNNING, 42, "RestartAllContainers"),
     (FAILED, 1, "RestartAllContainers")],
)  # fmt: skip
def test_a_rule_that_matches_keeps_the_pod_running(expected: str, code: int, action: str) -> None:
    it = pod(container("a", "Never", rule(action, "In", 42)), policy="Never")
    check(it, Case("", expected, (stopped("a", code),)))


def test_a_static_pod_that_ends_is_not_called_over_while_its_policy_would_start_it_again() -> None:
    it = pod("a", meta={"annotations": {CONFIG_SOURCE: "file"}})
    check(it, Case("", RUNNING, (stopped("a"),), is_ending=True))


def test_a_static_pod_that_is_done_is_done() -> None:
    it = pod("a", policy="Never", meta={"annotations": {CONFIG_SOURCE: "file"}})
    check(it, Case("", SUCCEEDED, (stopped("a"),), is_ending=True))
