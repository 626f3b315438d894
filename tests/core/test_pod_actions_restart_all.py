"""One exit that makes the whole pod start over: everything is taken away, the container that caused it last."""

from typing import Any, NamedTuple

import pytest

from core.podkit import (
    BOX,
    DEAD_BOX,
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
from trikubelet.core.actions import plan
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerStatus, SandboxStatus

ALL = rule("RestartAllContainers", "In", 42)
POD = pod("foo1", container("boss", "Never", ALL), "foo3", init=("init1", sidecar("side2")))
UP = (exited("init1"), running("side2"), running("foo1"), running("boss"), running("foo3"))
REST = [("foo1", True), ("foo3", True), ("init1", False), ("side2", True)]


class Case(NamedTuple):
    id: str
    expected: dict[str, Any]
    statuses: tuple[ContainerStatus, ...]
    pod: k8s.Pod = POD
    sandboxes: tuple[SandboxStatus, ...] = (BOX,)


def boss(status: ContainerStatus) -> tuple[ContainerStatus, ...]:
    return (*UP[:3], status, UP[4])


CASES = [
    Case("nothing has asked for it: nothing", {}, UP),
    Case("an exit that no rule matches: the policy decides", {}, boss(exited("boss", 1))),
    Case("all are taken away, running ones stopped", {"reset": [*REST, ("boss", False)]}, boss(exited("boss", 42))),
    Case(
        "unknown ones are stopped too, created ones are not",
        {"reset": [("foo1", True), ("foo3", False), ("boss", False)]},
        (unknown("foo1"), created("foo3"), exited("boss", 42)),
    ),
    Case(
        "earlier containers of a name go too, oldest first",
        {"reset": [("foo1", False), ("foo1", True), ("boss", False), ("boss", False)]},
        (exited("foo1", 1), running("foo1", 1), exited("boss", 42), exited("boss", 42, 1)),
    ),
    Case("an earlier exit does not count", {}, (*UP[:3], exited("boss", 42), running("boss", 1), UP[4])),
    Case("the rest is gone: the cause goes last", {"reset": [("boss", False)]}, (exited("boss", 42),)),
    Case("all is gone: it begins with the first init container", {"init": (0,)}, ()),
    Case(
        "all is gone of a pod without init containers: the regular ones start", {"start": (0, 1)}, (),
        pod("foo1", container("boss", "Never", ALL)),
    ),
    Case(
        "an init container asks for it", {"reset": [("side1", True), ("init2", False)]},
        (running("side1"), exited("init2", 42)),
        pod("foo1", init=(sidecar("side1"), container("init2", "Never", ALL))),
    ),
    Case(
        "a sidecar asks for it", {"reset": [("foo1", True), ("init2", False), ("side1", False)]},
        (exited("side1", 42), exited("init2"), running("foo1")),
        pod("foo1", init=(sidecar("side1", ALL), container("init2"))),
    ),
    Case(
        "two ask for it: both are last", {"reset": [("foo1", True), ("boss2", False), ("boss1", False)]},
        (exited("boss1", 42), running("foo1"), exited("boss2", 42)),
        pod("foo1", container("boss2", "Never", ALL), init=(container("boss1", "Never", ALL),)),
    ),
    Case(
        "a dead sandbox first loses the cause, or it would reset its successor too",
        {"reset": [("boss", False)]}, (exited("boss", 42),), sandboxes=(DEAD_BOX,),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_plan_of_a_restart_of_all(case: Case) -> None:
    assert case.expected == summary(plan(case.pod, observe(case.pod, *case.statuses, sandboxes=case.sandboxes)))


@pytest.mark.parametrize(
    ("expected", "state"),
    [
        pytest.param((0,), k8s.ContainerState(waiting=k8s.ContainerStateWaiting()), id="it has not run"),
        pytest.param((), k8s.ContainerState(terminated=k8s.ContainerStateTerminated(exit_code=0)), id="it has ended"),
    ],
)
def test_lost_debugger_next_to_a_cause_has_had_its_one_run(
    expected: tuple[int, ...], state: k8s.ContainerState
) -> None:
    it = pod("foo1", container("boss", "Never", ALL), ephemeral=("debug",))
    status = k8s.ContainerStatus(name="debug", image="i", image_id="", ready=False, restart_count=0, state=state)
    shown = k8s.PodStatus(ephemeral_container_statuses=(status,))

    assert expected == plan(it, observe(it, exited("boss", 42)), shown=shown).ephemeral_to_start


@pytest.mark.parametrize("steps_done", range(6))
def test_an_agent_that_died_half_way_goes_on_where_it_was(steps_done: int) -> None:
    observed = observe(POD, *boss(exited("boss", 42)))
    whole = plan(POD, observed).to_reset
    gone = {reset.status.id for reset in whole[:steps_done]}
    left = observe(POD, *(s for s in observed.containers if s.id not in gone))
    assert whole[steps_done:] == plan(POD, left).to_reset
