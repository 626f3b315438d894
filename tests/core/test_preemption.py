"""Whom a critical pod that does not fit may end, and how few of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.podkit import container, pod
from core.statuskit import EARLIER, NOW, condition, status
from trikubelet.core.admission import Admitted, admit
from trikubelet.core.admission.pod_info import pod_info
from trikubelet.core.admission.preemption import CONDITION_MESSAGE, MESSAGE, REASON, victims
from trikubelet.core.admission.resources import Shortage, requests
from trikubelet.core.containers import NodeFacts
from trikubelet.core.lifecycle import Finished, StopReason, Syncing, Terminating, patience_seconds
from trikubelet.core.names import CONFIG_SOURCE
from trikubelet.core.pod_status.disrupted import disrupted
from trikubelet.core.pod_status.merged import merge
from trikubelet.core.qos import GUARANTEED, qos_class
from trikubelet.model import k8s

CRITICAL = 2_000_000_000
GIB = 1 << 30


def named(
    name: str, *, limits: bool = False, priority: int | None = None, static: bool = False, **asked: Any
) -> k8s.Pod:
    resources = k8s.ResourceRequirements(requests=asked, limits=asked if limits else {})
    annotations = {CONFIG_SOURCE: "file"} if static else {}
    meta = {"name": name, "annotations": annotations}
    return pod(container("c", resources=resources), meta=meta, priority=priority)


def short(**missing: int) -> tuple[Shortage, ...]:
    return tuple(Shortage(name, amount, 0, 0) for name, amount in missing.items())


IDLE = named("idle")
IDLE2 = named("idle2")
SMALL = named("small", cpu="100m", memory="100Mi")
MEDIUM = named("medium", cpu="300m", memory="300Mi")
LARGE = named("large", cpu="500m", memory="500Mi")
FAT = named("fat", cpu="100m", memory="1Gi")
SURE = named("sure", limits=True, cpu="300m", memory="300Mi")
SURE_LARGE = named("sure-large", limits=True, cpu="1", memory="1Gi")
OURS = named("ours", cpu="1", priority=CRITICAL)
STATIC = named("static", cpu="1", static=True)
STATIC_LOW = named("static-low", cpu="1", static=True, priority=10)
MIB = 1 << 20


class Case(NamedTuple):
    id: str
    expected: tuple[str, ...] | None
    others: tuple[k8s.Pod, ...]
    short: tuple[Shortage, ...]
    pod: k8s.Pod = OURS


CASES = [
    Case("nobody is there", None, (), short(cpu=1)),
    Case("all together are too few", None, (SMALL, MEDIUM), short(cpu=401)),
    Case("all together are just enough", ("medium", "small"), (SMALL, MEDIUM), short(cpu=400)),
    Case("one that fills the gap alone", ("medium",), (SMALL, MEDIUM, LARGE), short(cpu=300)),
    Case("of those that do, the smallest", ("medium",), (LARGE, MEDIUM, SMALL), short(cpu=200)),
    Case("memory decides between equals", ("small",), (FAT, SMALL), short(cpu=100)),
    Case("the nearest first, then what still lacks", ("large", "small"), (SMALL, MEDIUM, LARGE), short(cpu=600)),
    Case("two resources are filled together", ("large",), (SMALL, LARGE, FAT), short(cpu=400, memory=400 * MIB)),
    Case("one that helps with neither is passed over", ("large", "fat"), (SMALL, LARGE, FAT),
         short(cpu=500, memory=GIB)),
    Case("half of both gaps is nearer than the whole of one", ("both", "cores", "bytes"),
         (named("cores", cpu="1"), named("both", cpu="400m", memory="500Mi"), named("bytes", memory="500Mi")),
         short(cpu=1000, memory=1000 * MIB)),
    Case("what was promised less goes first", ("medium",), (SURE, MEDIUM), short(cpu=300)),
    Case("what was promised more goes as far as it must", ("small", "sure"), (SURE, SURE_LARGE, SMALL),
         short(cpu=400)),
    Case("the greater does not spare the lesser for nothing", ("sure-large",), (SURE_LARGE, SMALL), short(cpu=900)),
    Case("a place is freed by one that asks for nothing", ("idle",), (SMALL, IDLE, IDLE2), short(pods=1)),
    Case("two places", ("idle", "idle2"), (SMALL, IDLE, IDLE2), short(pods=2)),
    Case("other critical pods stay", None, (named("theirs", cpu="4", priority=CRITICAL + 1), STATIC), short(cpu=1)),
    Case("also those that say that they are as much", None, (named("theirs", cpu="4", priority=CRITICAL),),
         short(cpu=1)),
    Case("but not where they say that they are less", ("theirs",),
         (named("theirs", cpu="4", priority=CRITICAL), STATIC), short(cpu=1),
         named("ours", cpu="1", priority=CRITICAL + 1)),
    Case("a static pod is as critical", ("small",), (SMALL,), short(cpu=1), STATIC),
    Case("static pods stay beside each other", None, (STATIC,), short(cpu=1), STATIC),
    Case("unless both say how much they are", ("static-low",), (STATIC_LOW,), short(cpu=1), OURS),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_pods_that_a_pod_may_preempt(case: Case) -> None:
    found = victims(case.pod, map(pod_info, case.others), case.short)

    assert case.expected == (None if found is None else tuple(one.metadata.name for one in found))


@given(
    asked=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.booleans()), max_size=8),
    missing=st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), st.integers(1, 20), min_size=1),
)
def test_victims_free_what_is_missing_and_guaranteed_pods_go_only_if_nothing_less_would_do(
    asked: list[tuple[int, int, bool]], missing: dict[str, int]
) -> None:
    others = [
        named(str(n), limits=limits, **{"cpu": f"{cpu}m", "memory": memory} if cpu or memory else {})
        for n, (cpu, memory, limits) in enumerate(asked)
    ]

    def freed(pods: list[k8s.Pod], resource: str) -> int:
        return len(pods) if resource == "pods" else sum(requests(one).get(resource, 0) for one in pods)

    def is_enough(pods: list[k8s.Pod]) -> bool:
        return all(freed(pods, name) >= amount for name, amount in missing.items())

    found = victims(OURS, map(pod_info, others), short(**missing))

    assert is_enough(others) == (found is not None)
    if found is not None:
        assert is_enough(list(found))
        assert len(found) == len({one.metadata.name for one in found})
        sure = [one for one in found if qos_class(one) == GUARANTEED]
        assert not (sure and is_enough([one for one in others if qos_class(one) != GUARANTEED]))


def test_a_critical_pod_is_taken_with_those_that_end_for_it() -> None:
    facts = NodeFacts("n", allocatable={"cpu": 1000, "memory": GIB, "pods": 2})

    found = admit(named("ours", cpu="950m", memory="1Gi", static=True), [pod_info(SMALL), pod_info(IDLE)], None, facts)

    assert Admitted((SMALL,), "pods") == found
    assert Admitted() == admit(named("ours", cpu="900m", static=True), [pod_info(SMALL)], None, facts)


def test_a_pod_that_is_ended_for_another_has_failed_as_soon_as_nothing_of_it_runs() -> None:
    shown = status("Running", condition("Ready"), condition("PodScheduled"))
    it = pod("c", status=status("Running"), meta={"generation": 4})
    found = disrupted(it, shown, NOW, reason=REASON, message=MESSAGE, why=CONDITION_MESSAGE)

    assert ("Failed", "Preempting", "Preempted in order to admit critical pod") == (
        found.phase, found.reason, found.message,
    )  # fmt: skip
    assert [("Ready", "False"), ("PodScheduled", "True"), ("DisruptionTarget", "True")] == [
        (one.type, one.status) for one in found.conditions
    ]
    target = found.conditions[-1]
    assert ("TerminationByKubelet", NOW, 4) == (target.reason, target.last_transition_time, target.observed_generation)
    assert "Pod was preempted by Kubelet to accommodate a critical pod." == target.message
    running = merge(shown, found, could_run=True, now=NOW)
    assert ("Running", "", False) == (
        running.phase, running.reason, any(one.type == "DisruptionTarget" for one in running.conditions),
    )  # fmt: skip
    ended = merge(shown, found, could_run=False, now=NOW)
    assert "Failed" == ended.phase
    assert "DisruptionTarget" in {one.type for one in ended.conditions}


def test_disruption_announced_by_another_component_is_reported_once() -> None:
    announced = condition("DisruptionTarget")
    found = disrupted(pod("c"), status("Running", announced), EARLIER, reason=REASON, message=MESSAGE)

    assert ["TerminationByKubelet"] == [one.reason for one in found.conditions if one.type == "DisruptionTarget"]


@pytest.mark.parametrize(
    ("expected", "state"),
    [
        (10.0, Terminating(1, StopReason.DISRUPTED)),
        (45.0, Terminating(30, StopReason.DISRUPTED)),
        (0.0, Finished(StopReason.DISRUPTED)),
        (0.0, Syncing()),
    ],
)
def test_the_end_of_a_pod_is_waited_for_as_long_as_its_grace_tells(expected: float, state: Any) -> None:
    assert expected == patience_seconds(state)
