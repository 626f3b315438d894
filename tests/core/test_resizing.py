"""A pod resized while it runs: what it is allocated, what its containers were made with, and what is told of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from core.podkit import container, exited, observe, pod, running, sidecar
from core.statuskit import condition, status
from trikubelet.core.actions import KillReason, PodActions, plan
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.memory_rules import MemoryRules
from trikubelet.core.containers.resources import quota_us, shares
from trikubelet.core.pod_status.resizing import IN_PROGRESS, PENDING, ResizeFacts, happened, resize_conditions
from trikubelet.core.resize.allocation import Made, allocation_of, as_allocated, asks_for_more, read, same, written
from trikubelet.core.resize.amounts import Amounts, asked_changes, is_held_to, reported_amounts, wanted
from trikubelet.core.resize.messages import event_message
from trikubelet.core.resize.progress import Resize, as_made, is_under_way, resizes, unnoted
from trikubelet.core.resize.verdicts import DEFERRED, SWAPS, Infeasible, Pending, Waiting, infeasible_reason, turn
from trikubelet.model import k8s
from trikubelet.model.runtime import HeldResources


def needs(requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None) -> k8s.ResourceRequirements:
    return k8s.ResourceRequirements(requests=requests or {}, limits=limits or {})


def both(**amounts: Any) -> k8s.ResourceRequirements:
    return needs(amounts, amounts)


SMALL, LARGE = both(cpu="100m", memory="64Mi"), both(cpu="400m", memory="128Mi")
SMALL_AMOUNTS = Amounts(100, 100, 64 << 20, 64 << 20)
LARGE_AMOUNTS = Amounts(400, 400, 128 << 20, 128 << 20)


def of(name: str, resources: k8s.ResourceRequirements | None, cpu: str = "", memory: str = "") -> k8s.Container:
    """A container with these resources, and resize policies where they are given."""
    policies = tuple(
        k8s.ContainerResizePolicy(resource_name=name, restart_policy=policy)
        for name, policy in (("cpu", cpu), ("memory", memory))
        if policy
    )
    return container(name, resources=resources, resize_policy=policies)


# ---- what is allocated ----


def test_a_pod_is_taken_as_its_spec_is_and_stays_so_whatever_the_spec_says() -> None:
    taken = pod(of("a", SMALL), "b", init=(sidecar("s", resources=SMALL),), resources=SMALL)
    asked = pod(of("a", LARGE), "b", init=(sidecar("s", resources=LARGE),), resources=LARGE)
    held = as_allocated(asked, allocation_of(taken))

    assert taken.spec == replace(held.spec, containers=held.spec.containers)
    assert asked is as_allocated(asked, allocation_of(asked))


def test_an_amount_may_be_written_in_another_way() -> None:
    asked = pod(of("a", both(cpu=0.1, memory="65536Ki")))

    assert asked is as_allocated(asked, allocation_of(pod(of("a", SMALL))))
    assert same(None, k8s.ResourceRequirements())
    assert not same(needs({"cpu": "lots"}), needs({"cpu": "many"}))


def test_a_container_that_was_not_there_is_as_its_spec_says() -> None:
    asked = pod(of("a", SMALL), of("new", LARGE))

    assert asked is as_allocated(asked, allocation_of(pod(of("a", SMALL))))


def test_what_was_made_outlives_another_allocation_and_a_file() -> None:
    first = replace(allocation_of(pod(of("a", SMALL))), made={"a": Made(2, SMALL_AMOUNTS)})
    second = allocation_of(pod(of("a", LARGE), resources=LARGE, meta={"generation": 7}), first)

    assert (7, first.made, None) == (second.generation, second.made, second.pod_made)
    assert second == read(written(second))
    with pytest.raises(ValueError, match="truncated"):
        read(b"{")


@pytest.mark.parametrize(
    ("expected", "resources"),
    [(True, LARGE), (True, both(cpu="50m", memory="65Mi")), (False, SMALL), (False, both(cpu="50m", memory="64Mi"))],
)
def test_more_of_either_resource_is_more(expected: bool, resources: k8s.ResourceRequirements) -> None:
    assert expected is asks_for_more(pod(of("a", resources)), pod(of("a", SMALL)))


# ---- amounts ----


def test_a_limit_of_the_whole_pod_holds_for_a_container_without_one() -> None:
    it = pod(of("a", needs({"cpu": "100m"})), resources=needs(limits={"cpu": "1", "memory": "1Gi"}))

    assert Amounts(100, 1000, 0, 1 << 30) == wanted(it, it.spec.containers[0])


def test_an_amount_that_is_none_counts_as_not_stated() -> None:
    it = pod(of("a", needs({"cpu": "lots", "memory": "1Mi"})))

    assert Amounts(0, 0, 1 << 20, 0) == wanted(it, it.spec.containers[0])


def test_what_a_new_spec_changes_is_reported_in_upstreams_words() -> None:
    before = pod(of("a", needs({"cpu": "1", "memory": "1Mi"}, {"cpu": "2"})), of("b", SMALL), of("gone", SMALL))
    after = pod(of("a", needs({"cpu": "2"}, {"cpu": "1", "memory": "1Mi"})), of("b", SMALL), of("new", SMALL))

    assert [
        ("cpu", "requests", "increase"),
        ("cpu", "limits", "decrease"),
        ("memory", "requests", "remove"),
        ("memory", "limits", "add"),
    ] == list(asked_changes(before, after))


@pytest.mark.parametrize(
    ("expected", "held"),
    [
        (True, None),
        (True, HeldResources(100_000, 10_000, 102, 64 << 20)),
        (True, HeldResources(0, 0, 0, 64 << 20)),
        (False, HeldResources(0, 0, 102, 64 << 20)),
        (False, HeldResources(100_000, 0, 102, 64 << 20)),
        (False, HeldResources(100_000, -1, 0, 64 << 20)),
        (False, HeldResources(100_000, 40_000, 102, 64 << 20)),
        (False, HeldResources(100_000, 10_000, 409, 64 << 20)),
        (False, HeldResources(100_000, 10_000, 102, 128 << 20)),
        (False, HeldResources(100_000, 10_000, 102, 0)),
    ],
)
def test_by_what_a_runtime_tells_a_container_is_held_to_its_amounts(expected: bool, held: HeldResources | None) -> None:
    assert expected is is_held_to(SMALL_AMOUNTS, held)


def test_a_request_of_nothing_beside_a_limit_may_still_weigh_as_the_limit_where_an_earlier_agent_made_it_so() -> None:
    amounts = Amounts(cpu_request=0, cpu_limit=1000)

    assert is_held_to(amounts, HeldResources(100_000, 100_000, 2))
    assert is_held_to(amounts, HeldResources(100_000, 100_000, 1024))
    assert not is_held_to(amounts, HeldResources(100_000, 100_000, 512))


def test_a_request_of_nothing_that_was_noted_stays_as_it_was_noted() -> None:
    it = pod(of("a", needs({"cpu": "0"}, {"cpu": "1"})))
    allocation = replace(allocation_of(it), made={"a": Made(0, Amounts(cpu_request=0, cpu_limit=1000))})
    earlier = running("a", resources=HeldResources(100_000, 100_000, 1024))

    assert () == resizes(it, observe(it, earlier), allocation)
    assert () == resizes(it, observe(it, earlier), allocation_of(it))


@pytest.mark.parametrize("held", [HeldResources(0, 0, 102), HeldResources(100_000, 0, 102), HeldResources(0, -1, 102)])
def test_what_has_no_limit_is_held_to_none(held: HeldResources) -> None:
    assert is_held_to(Amounts(cpu_request=100), held)


# ---- how far it is ----

HELD = HeldResources(100_000, 10_000, 102, 64 << 20)


def small(*names: str, **more: Any) -> Any:
    """The allocation of a pod whose containers were made small and are to be large."""
    made = {name: Made(0, SMALL_AMOUNTS) for name in names}
    return replace(allocation_of(GROWN), made=made, **more)


GROWN = pod(of("a", LARGE), of("b", LARGE), init=(sidecar("s", resources=LARGE),))


def test_what_runs_with_other_amounts_is_resized_and_nothing_else() -> None:
    observed = observe(GROWN, running("s"), running("a"), exited("b", 1))

    assert [("s", SMALL_AMOUNTS, LARGE_AMOUNTS), ("a", SMALL_AMOUNTS, LARGE_AMOUNTS)] == [
        (one.container.name, one.held, one.wanted) for one in resizes(GROWN, observed, small("s", "a", "b"))
    ]


def test_what_was_noted_of_another_attempt_says_nothing() -> None:
    observed = observe(GROWN, running("a", attempt=1, resources=HELD), running("b", attempt=1))

    assert [("a", None)] == [(one.container.name, one.held) for one in resizes(GROWN, observed, small("a", "b"))]


def test_unnoted_resources_are_learned_if_the_runtime_does_not_contradict() -> None:
    observed = observe(GROWN, running("s"), running("a", resources=HELD), exited("b", 1))

    assert [("s", LARGE_AMOUNTS)] == [(status.name, held) for status, held in unnoted(GROWN, observed, small("b"))]
    assert [] == list(unnoted(GROWN, observed, small("s", "a", "b")))


def test_until_what_was_recreated_is_seen_the_resize_is_under_way() -> None:
    """A request of memory is nothing a runtime tells, so what is still seen looks as it should."""
    stale, made = observe(GROWN, running("a")), replace(small(), made={"a": Made(1, LARGE_AMOUNTS)})

    assert is_under_way(GROWN, stale, made, before=True)
    assert [] == list(unnoted(GROWN, stale, made))
    assert not is_under_way(GROWN, observe(GROWN, running("a", attempt=1)), made, before=True)


def test_a_container_that_was_recreated_for_another_reason_is_no_resize() -> None:
    stale, made = observe(GROWN, running("a")), replace(small(), made={"a": Made(1, LARGE_AMOUNTS)})

    assert not is_under_way(GROWN, stale, made, before=False)
    assert [] == list(resize_conditions(GROWN, stale, ResizeFacts(made)))
    assert [(IN_PROGRESS, "", "", made.generation)] == list(
        resize_conditions(GROWN, stale, ResizeFacts(made), {IN_PROGRESS})
    )


def test_a_pod_of_which_nothing_runs_is_not_under_way() -> None:
    alone = replace(small(), pod=LARGE, pod_made=SMALL)

    assert not is_under_way(GROWN, observe(GROWN, exited("a", 1)), alone, before=True)
    assert is_under_way(GROWN, observe(GROWN, running("a")), alone, before=False)
    assert not is_under_way(GROWN, observe(GROWN, running("a")), replace(alone, pod_made=LARGE), before=True)


def test_until_then_the_pod_counts_as_its_containers_are() -> None:
    observed = observe(GROWN, running("s"), running("a"), exited("b", 1))
    allocation = small("s", "a", pod=LARGE, pod_made=SMALL)
    it = as_made(GROWN, resizes(GROWN, observed, allocation), allocation)

    assert [True, False] == [same(SMALL, one.resources) for one in it.spec.containers]
    assert same(SMALL, it.spec.init_containers[0].resources)
    assert SMALL == it.spec.resources


def test_unnoted_resources_are_those_that_the_runtime_reports() -> None:
    told = HeldResources(50_000, 25_000, 102, 256 << 20)
    observed = observe(GROWN, running("a", resources=told), running("b", resources=HeldResources(0, 0, 2)))
    it = as_made(GROWN, resizes(GROWN, observed, small()), small())

    first, second = (one.resources or needs() for one in it.spec.containers)
    assert needs({"cpu": "100m", "memory": str(128 << 20)}, {"cpu": "500m", "memory": str(256 << 20)}) == first
    assert needs({"cpu": "2m", "memory": str(128 << 20)}) == second


@pytest.mark.parametrize("cpu", [1, 2, 3, 100, 333, 1000, 1001])
def test_by_what_a_runtime_tells_a_container_has_no_less_than_it_was_given(cpu: int) -> None:
    given = HeldResources(100_000, quota_us(cpu, 100_000), shares(cpu), 1)

    assert given == HeldResources(
        100_000, quota_us((told := reported_amounts(given)).cpu_limit, 100_000), shares(told.cpu_request), 1
    )


def test_other_resources_stay_and_what_was_not_stated_is_not() -> None:
    it = pod(of("a", needs({"cpu": "1", "x.io/y": "1"}, {"memory": "1Gi", "x.io/y": "1"})))
    allocation = replace(allocation_of(it), made={"a": Made(0, Amounts(cpu_request=500))})
    made = as_made(it, resizes(it, observe(it, running("a")), allocation), allocation)

    assert needs({"cpu": "500m", "x.io/y": "1"}, {"x.io/y": "1"}) == made.spec.containers[0].resources


def resize(held: Amounts | None, to: Amounts, cpu: str = "", memory: str = "") -> Resize:
    return Resize(of("a", None, cpu, memory), running("a"), held, to)


@pytest.mark.parametrize(
    ("expected", "cpu", "memory", "to"),
    [
        (False, "", "", LARGE_AMOUNTS),
        (False, "NotRequired", "NotRequired", LARGE_AMOUNTS),
        (True, "RestartContainer", "", LARGE_AMOUNTS),
        (True, "NotRequired", "RestartContainer", LARGE_AMOUNTS),
        (False, "RestartContainer", "", SMALL_AMOUNTS._replace(memory_limit=1)),
        (True, "", "RestartContainer", SMALL_AMOUNTS._replace(memory_request=1)),
    ],
)
def test_a_container_is_recreated_for_what_its_policy_says(expected: bool, cpu: str, memory: str, to: Amounts) -> None:
    assert expected is resize(SMALL_AMOUNTS, to, cpu, memory).needs_restart
    assert not resize(None, to, cpu, memory).needs_restart


def test_only_what_grows_in_nothing_shrinks() -> None:
    assert resize(LARGE_AMOUNTS, SMALL_AMOUNTS).shrinks
    assert not resize(LARGE_AMOUNTS, SMALL_AMOUNTS._replace(cpu_limit=500)).shrinks
    assert not resize(None, SMALL_AMOUNTS).shrinks


@pytest.mark.parametrize(
    ("expected", "before", "after"), [(True, 2, 1), (True, 0, 1), (False, 1, 2), (False, 1, 1), (False, 1, 0)]
)
def test_a_limit_of_memory_shrinks_also_where_it_is_the_first(expected: bool, before: int, after: int) -> None:
    assert expected is resize(Amounts(memory_limit=before), Amounts(memory_limit=after)).memory_limit_shrinks


# ---- what is done ----


def test_containers_are_changed_as_they_run_or_recreated_as_their_policies_want() -> None:
    it = pod(of("a", LARGE), of("b", LARGE, memory="RestartContainer"), policy="Never")
    observed = observe(it, running("a"), running("b"))
    allocation = replace(allocation_of(it), made={name: Made(0, SMALL_AMOUNTS) for name in ("a", "b")})
    actions = plan(it, observed, resizes=resizes(it, observed, allocation))

    assert ["a"] == [one.container.name for one in actions.to_resize]
    assert [(KillReason.RESIZED, "Container b resize requires restart")] == [
        (kill.reason, kill.message) for kill in actions.to_kill
    ]
    assert (1,) == actions.to_start
    assert ["a"] == [one.name for one in actions.staying(observed)]
    assert () == PodActions(kill_pod=True).staying(observed)


def test_a_sidecar_is_recreated_too() -> None:
    policy = (k8s.ContainerResizePolicy(resource_name="cpu", restart_policy="RestartContainer"),)
    it = pod("a", init=(sidecar("s", resources=LARGE, resize_policy=policy),))
    observed = observe(it, running("s"), running("a"))
    allocation = replace(allocation_of(it), made={"s": Made(0, SMALL_AMOUNTS)})
    actions = plan(it, observed, resizes=resizes(it, observed, allocation))

    assert ((0,), ()) == (actions.init_to_start, actions.to_resize)
    assert ["Container s resize requires restart"] == [kill.message for kill in actions.to_kill]


def test_nothing_is_resized_of_a_pod_that_starts_over() -> None:
    it = pod(of("a", LARGE))
    observed = dataclasses.replace(observe(it, running("a")), sandboxes=())
    allocation = replace(allocation_of(it), made={"a": Made(0, SMALL_AMOUNTS)})
    actions = plan(it, observed, resizes=resizes(it, observed, allocation))

    assert actions.create_sandbox
    assert () == actions.to_resize


# ---- whether it can be had ----

SWAPPING = NodeFacts("n", memory_bytes=1 << 33, memory=MemoryRules(swap_bytes=1 << 30, swap_controlled=True))


@pytest.mark.parametrize(
    ("expected", "facts", "memory", "policy"),
    [
        (None, NodeFacts("n"), "128Mi", ""),
        (None, SWAPPING, "64Mi", ""),
        (SWAPS, SWAPPING, "128Mi", ""),
        (None, SWAPPING, "128Mi", "RestartContainer"),
    ],
    ids=["nobody swaps", "another memory is not asked for", "it may swap", "it is recreated for it"],
)
def test_memory_of_what_may_swap_is_never_changed(
    expected: Infeasible | None, facts: NodeFacts, memory: str, policy: str
) -> None:
    before, after = (pod(of("a", needs({"memory": amount, "cpu": "1"}), memory=policy)) for amount in ("64Mi", memory))

    assert expected == infeasible_reason(after, before, facts)


@pytest.mark.parametrize(
    ("expected", "before", "after"),
    [
        (None, SMALL, LARGE),
        (
            "A pod that is Guaranteed cannot be made Burstable in place: it must be recreated.",
            SMALL,
            needs({"cpu": "1"}),
        ),
        (
            "A pod that is BestEffort cannot be made Burstable in place: it must be recreated.",
            None,
            needs({"cpu": "1"}),
        ),
        (
            'Only cpu and memory can be resized in place, and another resource of container "a" differs.',
            both(**{"cpu": "1", "memory": "1Mi", "hugepages-2Mi": "2Mi"}),
            both(**{"cpu": "1", "memory": "1Mi", "hugepages-2Mi": "4Mi"}),
        ),
        (
            'Only cpu and memory can be resized in place, and another resource of container "a" differs.',
            SMALL,
            replace(LARGE, claims=(k8s.ResourceClaim(name="c"),)),
        ),
        (None, both(cpu="1", memory="1Mi", x="1024"), both(cpu="2", memory="1Mi", x="1Ki")),
    ],
)
def test_what_no_resize_can_change_is_never_changed(
    expected: str | None, before: k8s.ResourceRequirements | None, after: k8s.ResourceRequirements
) -> None:
    infeasible = infeasible_reason(pod(of("a", after)), pod(of("a", before)), NodeFacts("n"))

    assert expected == (infeasible and infeasible.message)


def test_nor_of_what_is_the_whole_pods() -> None:
    before, after = (
        pod(of("a", SMALL), resources=both(**{"cpu": "1", "memory": "1Gi", "hugepages-2Mi": amount}))
        for amount in ("2Mi", "4Mi")
    )

    assert "Only cpu and memory can be resized in place, and another resource of the pod's own differs." == (
        (infeasible := infeasible_reason(after, before, NodeFacts("n"))) and infeasible.message
    )


def test_they_are_asked_about_by_what_they_free_their_priority_their_class_and_their_age() -> None:
    def waiting(name: str, to: k8s.ResourceRequirements, since: str = "", **spec: Any) -> Waiting:
        return Waiting(pod(of(name, to), **spec), pod(of(name, SMALL)), since)

    burstable = needs({"cpu": "400m"}, {"cpu": "500m"})
    found = sorted(
        [
            waiting("new", burstable),
            waiting("late", burstable, "2027-01-02T00:00:00Z"),
            waiting("early", burstable, "2027-01-01T00:00:00Z"),
            waiting("guaranteed", LARGE),
            waiting("important", burstable, priority=10),
            waiting("smaller", both(cpu="50m", memory="1Mi")),
        ],
        key=turn,
    )

    assert ["smaller", "important", "guaranteed", "early", "late", "new"] == [
        one.pod.spec.containers[0].name for one in found
    ]


# ---- what is told ----


def test_both_conditions_are_there_while_they_are_true_and_of_what_they_have_seen() -> None:
    observed = observe(GROWN, running("a"))
    allocation = replace(small("a"), generation=2)
    waits = Pending(DEFERRED, "no room", 3)

    assert [] == list(resize_conditions(GROWN, observed, ResizeFacts()))
    assert [(PENDING, DEFERRED, "no room", 3), (IN_PROGRESS, "", "", 2)] == list(
        resize_conditions(GROWN, observed, ResizeFacts(allocation, waits))
    )
    assert [(IN_PROGRESS, "Error", "no", 2)] == list(
        resize_conditions(GROWN, observed, ResizeFacts(allocation, error="no"))
    )


def test_events_report_the_end_and_each_new_problem() -> None:
    plain, failing, other = (
        status("Running", condition(IN_PROGRESS, message=message, observed_generation=2)) for message in ("", "a", "b")
    )

    def events(before: k8s.PodStatus | None, now: k8s.PodStatus) -> list[str]:
        return [reason for _, reason, _ in happened(GROWN, before, now)]

    assert [[], [], ["ResizeError"], [], ["ResizeError"], ["ResizeCompleted"], []] == [
        events(*pair)
        for pair in (
            (None, status()),
            (None, plain),
            (plain, failing),
            (failing, failing),
            (failing, other),
            (other, status()),
            (status(), status()),
        )
    ]


def test_an_event_has_upstreams_form() -> None:
    it = pod(of("a", needs({"cpu": "0.1"})), "b", init=("i",))

    assert (
        'Pod resize Deferred: {"initContainers":[{"name":"i","resources":{}}],"containers":[{"name":"a","resources":'
        '{"requests":{"cpu":"100m"}}},{"name":"b","resources":{}}],"generation":0,"error":"no room"}'
    ) == event_message("Deferred", it, 0, "no room")
