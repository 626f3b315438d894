"""How far initialisation got, and which init container is next."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from core.podkit import BOX, DEAD_BOX, container, created, exited, observe, pod, rule, running, summary, unknown
from trikubelet.core.actions import plan
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerStatus, SandboxStatus

INIT = ("init1", "init2", "init3")
DONE = (exited("init1"), exited("init2"), exited("init3"))
ALL = (0, 1, 2)
KILL_POD = {"kill_pod": True}
ANEW = {"kill_pod": True, "create": True, "attempt": 1}


class Case(NamedTuple):
    id: str
    expected: dict[str, Any]
    statuses: tuple[ContainerStatus, ...]
    policy: str = "Always"
    sandboxes: tuple[SandboxStatus, ...] = (BOX,)


def third(status: ContainerStatus) -> tuple[ContainerStatus, ...]:
    return (*DONE[:2], status)


CASES = [
    Case("all are done: the regular ones start", {"start": ALL}, DONE),
    Case("none was started: the first starts", {"init": (0,)}, ()),
    Case("the first is done: the second starts", {"init": (1,)}, DONE[:1]),
    Case("the third runs: wait", {}, third(running("init3"))),
    Case("the first runs: wait", {}, (running("init1"),)),
    Case("a dead sandbox begins with the first again", {**ANEW, "init": (0,)}, DONE, sandboxes=(DEAD_BOX,)),
    Case("a failed one runs again under Always", {"init": (2,)}, third(exited("init3", 137))),
    Case("a failed one runs again under OnFailure", {"init": (2,)}, third(exited("init3", 137)), "OnFailure"),
    Case("a failed one ends the pod under Never", KILL_POD, third(exited("init3", 137)), "Never"),
    Case("killed for memory with code 0 runs again under Always", {"init": (2,)},
         third(exited("init3", reason="OOMKilled"))),
    Case("killed for memory with code 0 runs again under OnFailure", {"init": (2,)},
         third(exited("init3", reason="OOMKilled")), "OnFailure"),
    Case("killed for memory with code 0 ends the pod under Never", KILL_POD, third(exited("init3", reason="OOMKilled")),
         "Never"),
    Case("a dead sandbox and one killed for memory with code 0 under Never: the end", {"kill_pod": True, "attempt": 1},
         third(exited("init3", reason="OOMKilled")), "Never", (DEAD_BOX,)),
    Case("unknown: killed and run again, Always", {"kill": {"init3"}, "init": (2,)}, third(unknown("init3"))),
    Case(
        "unknown: killed and run again, OnFailure", {"kill": {"init3"}, "init": (2,)}, third(unknown("init3")),
        "OnFailure",
    ),
    Case("unknown under Never counts as failed", KILL_POD, third(unknown("init3")), "Never"),
    Case(
        "a dead sandbox and a failed one under Never: the end", {"kill_pod": True, "attempt": 1},
        third(exited("init3", 137)), "Never", (DEAD_BOX,),
    ),
    Case("a dead sandbox and nothing ever ran under Never: again", {**ANEW, "init": (0,)}, (), "Never", (DEAD_BOX,)),
    Case("a dead sandbox, all done, no regular one ever made, Never: again", {**ANEW, "init": (0,)}, DONE, "Never",
         (DEAD_BOX,)),
    Case("a dead sandbox, the first done, Never: again", {**ANEW, "init": (0,)}, DONE[:1], "Never", (DEAD_BOX,)),
    Case("a dead sandbox, one that was only created, Never: again", {**ANEW, "init": (0,)}, third(created("init3")),
         "Never", (DEAD_BOX,)),
    Case("a dead sandbox, one ran in it, Never: the end", {"kill_pod": True, "attempt": 1}, third(running("init3")),
         "Never", (DEAD_BOX,)),
    Case(
        "a dead sandbox and a failed one under OnFailure: again", {**ANEW, "init": (0,)}, third(exited("init3", 137)),
        "OnFailure", (DEAD_BOX,),
    ),
    Case("only the last is known and runs: the earlier ones are not run again", {}, (running("init3"),)),
    Case("only the last is known and is done: initialised", {"start": ALL}, (exited("init3"),)),
    Case("created and never started: started", {"init": (2,)}, third(created("init3"))),
    Case(
        "a regular one runs, so it was over, whatever is known of the init ones", {"start": (1, 2)},
        (running("foo1"),),
    ),
    Case("a regular one was created, so it was over", {"start": ALL}, (created("foo1"),)),
    Case("a regular one that exited proves nothing", {"init": (0,)}, (exited("foo1"),)),
    Case(
        "what an earlier sandbox initialised does not count in the new one", {"init": (0,)},
        tuple(replace(s, sandbox_id="gone") for s in DONE),
    ),
    Case(
        "an older failure of one that succeeded since is forgotten", {"start": ALL},
        (*DONE[:2], exited("init3", 1), exited("init3", 0, 1)),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_plan_with_init_containers(case: Case) -> None:
    it = pod(init=INIT, policy=case.policy)
    assert case.expected == summary(plan(it, observe(it, *case.statuses, sandboxes=case.sandboxes)))


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param(
            {"init": (0,)}, pod("foo1", init=(container("init1", "OnFailure"),), policy="Never"),
            id="its own OnFailure wins over the pod's Never",
        ),
        pytest.param(
            KILL_POD, pod("foo1", init=(container("init1", "Never"),)), id="its own Never wins over the pod's Always"
        ),
        pytest.param(
            {"init": (0,)}, pod("foo1", init=(container("init1", "Never", rule("Restart", "In", 42)),)),
            id="a rule that matches runs it again",
        ),
        pytest.param(
            KILL_POD, pod("foo1", init=(container("init1", "Never", rule("Restart", "In", 1)),)),
            id="a rule that does not match changes nothing",
        ),
    ],
)  # fmt: skip
def test_a_failed_init_container_obeys_its_own_policy_and_rules(expected: dict[str, Any], it: k8s.Pod) -> None:
    assert expected == summary(plan(it, observe(it, exited("init1", 42))))


def test_init_containers_are_never_checked_for_a_changed_definition() -> None:
    it = pod(init=INIT)
    assert {} == summary(plan(it, observe(it, *DONE[:2], running("init3", hash="old"))))
