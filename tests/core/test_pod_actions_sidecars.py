"""Sidecars: init containers that stay. They start in order and are kept running, but keep no pod alive."""

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
    running,
    sidecar,
    summary,
    unknown,
)
from trikubelet.core.actions import KillReason, Verdict, Verdicts, plan
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerStatus, SandboxStatus

PROBE = k8s.Probe()
SIDECARS = (sidecar("side1"), sidecar("side2", liveness_probe=PROBE, startup_probe=PROBE), sidecar("side3"))
UP = (running("side1"), running("side2"), running("side3"))
STARTED = Verdicts(startup={"side2-0": Verdict.SUCCESS})
ALL = (0, 1, 2)
ANEW = {"kill_pod": True, "create": True, "attempt": 1}
REPLACE_3 = {"kill": {"side3"}, "init": (2,)}


class Case(NamedTuple):
    id: str
    expected: dict[str, Any]
    statuses: tuple[ContainerStatus, ...] = UP
    verdicts: Verdicts = STARTED
    policy: str = "Always"
    sandboxes: tuple[SandboxStatus, ...] = (BOX,)


def liveness(verdict: Verdict, name: str = "side2") -> Verdicts:
    return Verdicts(liveness={f"{name}-0": verdict}, startup=STARTED.startup)


def startup(verdict: Verdict) -> Verdicts:
    return Verdicts(startup={"side2-0": verdict})


def crashed(code: int = 137) -> tuple[ContainerStatus, ...]:
    return (*UP[:2], exited("side3", code))


CASES = [
    Case("all have started: the regular ones start", {"start": ALL}),
    Case("none runs: the first starts", {"init": (0,)}, ()),
    Case("the first runs: the next one starts", {"init": (1,)}, UP[:1]),
    Case("the third is created: it starts", {"init": (2,)}, (*UP[:2], created("side3"))),
    Case("liveness has not run: it does not hold up the third", {"init": (2,)}, UP[:2]),
    Case("liveness is unknown: it does not hold up the third", {"init": (2,)}, UP[:2], liveness(Verdict.UNKNOWN)),
    Case("liveness succeeded: it does not hold up the third", {"init": (2,)}, UP[:2], liveness(Verdict.SUCCESS)),
    Case(
        "a restart of the third was asked for: replaced, and nothing waits for it", {**REPLACE_3, "start": ALL},
        verdicts=Verdicts(startup=STARTED.startup, restarts=frozenset({"side3-0"})),
    ),
    Case(
        "liveness of the third failed: replaced, and nothing waits for it", {**REPLACE_3, "start": ALL},
        verdicts=liveness(Verdict.FAILURE, "side3"),
    ),
    Case("the startup probe has not run: wait", {}, UP[:2], Verdicts()),
    Case("the startup probe is unknown: wait", {}, UP[:2], startup(Verdict.UNKNOWN)),
    Case("the startup probe succeeded: the third starts", {"init": (2,)}, UP[:2], startup(Verdict.SUCCESS)),
    Case(
        "the startup probe failed: replaced, and all wait", {"kill": {"side2"}, "init": (1,)}, UP[:2],
        startup(Verdict.FAILURE),
    ),
    Case(
        "the definition of the third changed: replaced, and nothing waits for it", {**REPLACE_3, "start": ALL},
        (*UP[:2], running("side3", hash="old")),
    ),
    Case(
        "the first and the third ended: both start", {"init": (0, 2)}, (exited("side1"), UP[1], exited("side3")),
    ),
    Case(
        "only the first ended: it starts, and so do the regular ones", {"init": (0,), "start": ALL},
        (exited("side1"), *UP[1:]),
    ),
    # Upstream ends here, and the pod is Pending for ever: its regular containers never had their one run.
    Case(
        "a dead sandbox, one crashed, Never, no regular one ever ran: again", {**ANEW, "init": (0,)}, crashed(),
        policy="Never", sandboxes=(DEAD_BOX,),
    ),
    Case(
        "a dead sandbox, one crashed, OnFailure: again", {**ANEW, "init": (0,)}, crashed(), policy="OnFailure",
        sandboxes=(DEAD_BOX,),
    ),
    Case("a dead sandbox, one crashed, Always: again", {**ANEW, "init": (0,)}, crashed(), sandboxes=(DEAD_BOX,)),
    Case(
        "a dead sandbox, nothing ever ran, Never: again", {**ANEW, "init": (0,)}, (), policy="Never",
        sandboxes=(DEAD_BOX,),
    ),
    Case("it crashed under Never: it runs again all the same", {"init": (2,)}, crashed(), policy="Never"),
    Case("it succeeded under Never: it runs again all the same", {"init": (2,)}, crashed(0), policy="Never"),
    Case("unknown under Never: replaced", REPLACE_3, (*UP[:2], unknown("side3")), policy="Never"),
    Case(
        "the regular ones run and the third ended, Never: only it starts", {"init": (2,)},
        (*UP[:2], exited("side3"), running("foo1"), running("foo2"), running("foo3")), policy="Never",
    ),
    Case(
        "all regular ones succeeded under Never: the pod ends, sidecars or not", {"kill_pod": True},
        (*UP, exited("foo1"), exited("foo2"), exited("foo3")), policy="Never",
    ),
    Case(
        "all regular ones succeeded under Never and a sidecar is down: it is not started for nothing",
        {"kill_pod": True}, (*UP[:2], exited("side3"), exited("foo1"), exited("foo2"), exited("foo3")),
        policy="Never",
    ),
    Case(
        "only the third is known: the others start, and so do the regular ones", {"init": (0, 1), "start": ALL},
        (UP[2],),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_plan_with_sidecars(case: Case) -> None:
    it = pod(init=SIDECARS, policy=case.policy)
    observed = observe(it, *case.statuses, sandboxes=case.sandboxes)
    assert case.expected == summary(plan(it, observed, case.verdicts))


def test_a_sidecar_that_starts_slowly_once_more_does_not_disturb_the_regular_containers() -> None:
    it = pod(init=SIDECARS)
    again = (UP[0], running("side2", 1), UP[2])
    assert {} == summary(plan(it, observe(it, *again, *all_running(it))))


@pytest.mark.parametrize(
    ("reason", "verdicts", "old"),
    [
        (KillReason.HASH_CHANGED, STARTED, True),
        (KillReason.LIVENESS, Verdicts(liveness={"side2-0": Verdict.FAILURE}, startup=STARTED.startup), False),
        (KillReason.STARTUP, startup(Verdict.FAILURE), False),
    ],
)
def test_the_reason_of_a_replacement_decides_about_its_grace(reason: KillReason, verdicts: Verdicts, old: bool) -> None:
    it = pod(init=SIDECARS)
    side2 = running("side2", hash="old") if old else running("side2")
    actions = plan(it, observe(it, UP[0], side2, UP[2], *all_running(it)), verdicts)
    assert [("side2", reason)] == [(kill.status.name, kill.reason) for kill in actions.to_kill]
    assert (1,) == actions.init_to_start


def test_a_plain_init_container_behind_a_sidecar_waits_for_it_to_start() -> None:
    it = pod("foo1", init=(sidecar("side1", startup_probe=PROBE), container("init2")))
    observed = observe(it, running("side1"))
    assert {} == summary(plan(it, observed))
    assert {"init": (1,)} == summary(plan(it, observed, Verdicts(startup={"side1-0": Verdict.SUCCESS})))


def test_a_sidecar_that_crashed_before_the_plain_one_behind_it_ran_starts_again_first() -> None:
    it = pod("foo1", init=(sidecar("side1"), container("init2")))
    assert {"init": (0,)} == summary(plan(it, observe(it, exited("side1", 1))))


def test_a_sidecar_that_crashed_while_the_plain_one_behind_it_runs_starts_again() -> None:
    it = pod("foo1", init=(sidecar("side1"), container("init2")))
    assert {"init": (0,)} == summary(plan(it, observe(it, exited("side1", 1), running("init2"))))
