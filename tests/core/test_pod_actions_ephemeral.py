"""Ephemeral containers: started once, never again, and of no weight when the pod's end is decided."""

from typing import Any, NamedTuple

import pytest

from core.podkit import BOX, DEAD_BOX, all_running, created, exited, observe, pod, running, summary, unknown
from trikubelet.core.actions import plan
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerStatus, SandboxStatus

ONE = pod(ephemeral=("debug1",))
TWO = pod(ephemeral=("debug1", "debug2"))
UP = all_running(ONE)


class Case(NamedTuple):
    id: str
    expected: dict[str, Any]
    pod: k8s.Pod
    statuses: tuple[ContainerStatus, ...]
    sandboxes: tuple[SandboxStatus, ...] = (BOX,)


CASES = [
    Case("it runs: nothing", {}, ONE, (*UP, running("debug1"))),
    Case("none runs: it starts", {"ephemeral": (0,)}, ONE, UP),
    Case("a second one was added: it starts", {"ephemeral": (1,)}, TWO, (*UP, running("debug1"))),
    Case("two were added: both start", {"ephemeral": (0, 1)}, TWO, UP),
    Case("it was made and never ran: it starts", {"ephemeral": (0,)}, ONE, (*UP, created("debug1"))),
    Case("it failed: never again", {}, ONE, (*UP, exited("debug1", 42))),
    Case("it is unknown: left alone", {}, ONE, (*UP, unknown("debug1"))),
    Case(
        "it may start while an init container runs", {"ephemeral": (0,)}, pod(init=("init1",), ephemeral=("debug1",)),
        (running("init1"),),
    ),
    Case(
        "a dead sandbox is recreated without it", {"kill_pod": True, "create": True, "attempt": 1, "start": (0, 1, 2)},
        ONE, (), (DEAD_BOX,),
    ),
    Case(
        "the regular ones are over: the pod ends though it runs", {"kill_pod": True},
        pod("foo1", policy="Never", ephemeral=("debug1",)), (exited("foo1"), running("debug1")),
    ),
]  # fmt: skip


@pytest.mark.parametrize("reason", ["Completed", "Error", "ContainerStatusUnknown"])
def test_one_that_was_shown_to_have_ended_is_not_started_again_when_its_record_is_gone(reason: str) -> None:
    ended = k8s.ContainerStateTerminated(exit_code=0, reason=reason)
    status = k8s.ContainerStatus(
        name="debug1", image="i", image_id="", ready=False, restart_count=0, state=k8s.ContainerState(terminated=ended)
    )
    shown = k8s.PodStatus(ephemeral_container_statuses=(status,))

    assert {} == summary(plan(ONE, observe(ONE, *UP, sandboxes=(BOX,)), shown=shown))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_plan_with_ephemeral_containers(case: Case) -> None:
    assert case.expected == summary(plan(case.pod, observe(case.pod, *case.statuses, sandboxes=case.sandboxes)))
