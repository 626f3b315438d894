"""The static memory policy: the NUMA nodes of a container's memory and huge pages, mostly by upstream's own cases."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.machines import GIB, machine
from core.podkit import container, pod, sidecar
from trikubelet.core.numa_memory.hints import container_hints, memory_hints, pod_hints
from trikubelet.core.numa_memory.needs import container_needs, pod_needs
from trikubelet.core.numa_memory.state import (
    Block,
    MemoryState,
    assign,
    release,
    release_containers,
    usage,
    violates_groups,
)
from trikubelet.core.numa_memory.static import MemoryGiven, allocate, nodes_given
from trikubelet.core.numa_memory.supply import Amount, Supply, check_reserved, reserved_memory, supply
from trikubelet.core.topology.hints import Hints, nodes_of
from trikubelet.core.topology.policy import Affinity
from trikubelet.core.topology.refusal import UNEXPECTED, Refused
from trikubelet.model import k8s
from trikubelet.model.kubelet_configuration import MemoryReservation
from trikubelet.model.machine import Machine, NumaNode

HP = "hugepages-1Gi"
MIB = 1024**2
UID = "12345678"
ANY = Affinity(is_preferred=False)


def nodes_with(*amounts: tuple[float, float]) -> Supply:
    """NUMA nodes with this memory and these huge pages to allocate, in Gi."""

    def amount(gib: float) -> Amount:
        return Amount(int(gib * GIB), 0, int(gib * GIB))

    return {node: {HP: amount(pages), "memory": amount(memory)} for node, (memory, pages) in enumerate(amounts)}


def resources(memory: float, pages: float = 0) -> k8s.ResourceRequirements:
    limits: dict[str, Any] = {"cpu": "1", "memory": int(memory * GIB)}
    return k8s.ResourceRequirements(limits=limits | ({HP: int(pages * GIB)} if pages else {}))


def app(name: str, memory: float, pages: float = 0) -> k8s.Container:
    return container(name, resources=resources(memory, pages))


def side(name: str, memory: float, pages: float = 0) -> k8s.Container:
    return sidecar(name, resources=resources(memory, pages))


def other(*nodes: int, gib: float) -> MemoryState:
    """The state in which another pod has memory of these nodes."""
    return MemoryState({f"other{nodes}": {"c": (Block(nodes, "memory", int(gib * GIB)),)}})


def both(*states: MemoryState) -> MemoryState:
    return MemoryState({uid: containers for state in states for uid, containers in state.blocks.items()})


def wants(*nodes: int, is_preferred: bool = True) -> Affinity:
    return Affinity(frozenset(nodes), is_preferred)


def tried(supplied: Supply, state: MemoryState, asking: k8s.Pod, wanted: Affinity = ANY) -> MemoryGiven | Refused:
    return allocate(supplied, state, asking, asking.spec.containers[0], wanted)


def all_given(supplied: Supply, asking: k8s.Pod, wanted: Affinity = ANY) -> MemoryState:
    state = MemoryState()
    for one in (*asking.spec.init_containers, *asking.spec.containers):
        decision = allocate(supplied, state, asking, one, wanted)
        assert isinstance(decision, MemoryGiven)
        state = decision.state
    return state


def free_gib(supplied: Supply, state: MemoryState, node: int = 0, name: str = "memory") -> float:
    return usage(supplied, state)[node].free_bytes[name] / GIB


def test_memory_and_huge_pages_come_from_one_node() -> None:
    supplied = nodes_with((1.5, 1))
    state = all_given(supplied, pod(app("a", 1, 1)))
    assert (0.5, 0) == (free_gib(supplied, state), free_gib(supplied, state, name=HP))
    assert (2, (0,)) == (usage(supplied, state)[0].assignments, usage(supplied, state)[0].group)
    assert {0} == nodes_given(state, UID, "a")


def test_request_for_two_nodes_takes_from_the_lower_one_first() -> None:
    supplied = nodes_with(*[(0.5, 1)] * 4)
    used = usage(supplied, all_given(supplied, pod(app("a", 1, 1))))
    assert [0, 0] == [used[node].free_bytes["memory"] for node in (0, 1)]
    assert [0, GIB] == [used[node].free_bytes[HP] for node in (0, 1)]
    assert [(2, (0, 1))] * 2 == [(used[node].assignments, used[node].group) for node in (0, 1)]


HALF = nodes_with((1, 0), (0.5, 0), (0.5, 0))
OF_FIRST = other(0, gib=0.5)


@pytest.mark.parametrize(
    ("supplied", "state", "memory", "wanted", "problem"),
    [
        (
            nodes_with((1.5, 1)),
            other(0, gib=1),
            1,
            ANY,
            "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available",
        ),
        (HALF, OF_FIRST, 1, wants(), "failed to find the default preferred hint"),
        (HALF, OF_FIRST, 1, wants(1), "failed to find the extended preferred hint"),
        (
            nodes_with(*[(0.5, 0)] * 3),
            other(1, 2, gib=0.75),
            1,
            wants(0, is_preferred=False),
            "failed to find NUMA nodes to extend the current topology hint",
        ),
        (
            nodes_with((1, 0), (1, 0)),
            other(0, gib=0.25),
            1.5,
            wants(0, 1),
            "preferred hint violates NUMA node allocation",
        ),
        (
            nodes_with((1, 0), (1, 0)),
            other(0, 1, gib=1.25),
            0.5,
            wants(1),
            "preferred hint violates NUMA node allocation",
        ),
    ],
)
def test_refusal_has_upstreams_text(
    supplied: Supply, state: MemoryState, memory: float, wanted: Affinity, problem: str
) -> None:
    message = f"Allocate failed due to [memorymanager] {problem}, which is unexpected"
    assert Refused(UNEXPECTED, message) == tried(supplied, state, pod(app("a", memory)), wanted)


def test_wanted_nodes_without_enough_memory_are_extended() -> None:
    found = tried(HALF, OF_FIRST, pod(app("a", 1)), wants(1, is_preferred=False))
    assert isinstance(found, MemoryGiven)
    assert {1, 2} == found.nodes


@pytest.mark.parametrize(
    ("gib", "init", "apps", "blocks", "free"),
    [
        (7.5, (app("i", 1, 1), app("j", 2, 2)), (app("a", 3, 3), app("b", 4, 4)), (0, 0, 3, 4), 0.5),
        (7.5, (app("i", 4, 4), app("j", 3, 3)), (app("a", 2, 2), app("b", 1, 1)), (0, 1, 2, 1), 3.5),
        (7.5, (app("i", 7, 7), app("j", 4, 4)), (app("a", 4, 4), app("b", 3, 3)), None, 0.5),
        (10, (app("i", 7, 7), app("j", 4, 4)), (app("a", 5, 5), app("b", 2, 2)), None, 3),
        (
            7,
            (app("i", 1, 1), side("s", 2, 2), app("j", 3, 3), side("t", 4, 4)),
            (app("a", 1, 1),),
            (0, 2, 0, 4, 1),
            0,
        ),
    ],
)
def test_memory_of_init_containers_is_taken_over(
    gib: float, init: tuple[k8s.Container, ...], apps: tuple[k8s.Container, ...], blocks: tuple[float, ...] | None,
    free: float,
) -> None:  # fmt: skip
    supplied = nodes_with((gib, gib))
    state = all_given(supplied, pod(*apps, init=init))
    if blocks is not None:
        found = [state.of_pod(UID)[one.name][1].size_bytes / GIB for one in (*init, *apps)]
        assert list(blocks) == found
    assert (free, free) == (free_gib(supplied, state), free_gib(supplied, state, name=HP))
    assert 2 * (len(init) + len(apps)) == usage(supplied, state)[0].assignments


def digits(found: Hints) -> str:
    return " ".join(
        f"{''.join(map(str, sorted(nodes_of(hint.mask or 0))))}{'+' if hint.is_preferred else '-'}" for hint in found
    )


@pytest.mark.parametrize(
    ("supplied", "state", "memory", "pages", "expected"),
    [
        (nodes_with(*[(2, 1)] * 4), other(0, 1, gib=4), 1, 1, "2+ 3+ 23-"),
        (nodes_with((1, 1), (1, 1)), other(0, 1, gib=0.5), 1, 0, "01-"),
        (nodes_with((1, 1), (1, 1)), MemoryState(), 1, 0, "0+ 1+ 01-"),
        (nodes_with((1, 1), (1, 1)), other(0, gib=0.5), 1, 0, "1+"),
        (nodes_with((1, 1), (1, 1)), MemoryState(), 3, 0, ""),
        (nodes_with((1, 0), (1, 1)), MemoryState(), 1, 1, "1+ 01-"),
    ],
)
def test_hints_leave_groups_together(
    supplied: Supply, state: MemoryState, memory: float, pages: float, expected: str
) -> None:
    asking = pod(app("a", memory, pages))
    found = container_hints(supplied, state, asking, asking.spec.containers[0])
    assert {"memory", HP} >= found.keys()
    assert {expected} == {digits(hints) for hints in found.values()}
    assert found == pod_hints(supplied, state, asking)


def test_memory_of_an_init_container_counts_for_the_same_nodes() -> None:
    supplied = nodes_with((2, 0), (2, 0))
    asking = pod(app("a", 2), init=(app("i", 2),))
    state = MemoryState({UID: {"i": (Block((0,), "memory", 2 * GIB),)}})
    found = container_hints(supplied, state, asking, asking.spec.containers[0])
    assert "0+ 1+" == digits(found["memory"])


@pytest.mark.parametrize(
    ("state", "nodes", "expected"),
    [
        (both(other(0, 1, gib=1), other(2, gib=1), other(3, gib=1)), (1, 2), True),
        (other(1, gib=1), (0, 1), True),
        (MemoryState(), (0, 1), False),
        (other(0, 1, gib=1), (0, 1), False),
    ],
)
def test_groups_are_violated_by_other_groups(state: MemoryState, nodes: tuple[int, ...], expected: bool) -> None:
    assert expected == violates_groups(usage(nodes_with(*[(4, 0)] * 4), state), nodes)


@pytest.mark.parametrize(
    ("asking", "memory", "pages"),
    [
        (pod(app("a", 1), app("b", 2), init=(app("i", 1), app("j", 4))), 4, 0),
        (pod(app("a", 2), app("b", 3), init=(app("i", 1), app("j", 3))), 5, 0),
        (pod(app("a", 2, 1), app("b", 3, 2), init=(app("i", 1, 1), app("j", 3, 4))), 5, 4),
        (pod(app("a", 1), app("b", 2), init=(side("s", 2), app("j", 4))), 6, 0),
        (pod(app("a", 2), app("b", 3), init=(side("s", 2), app("j", 4))), 7, 0),
    ],
)
def test_pod_needs_what_runs_at_one_time(asking: k8s.Pod, memory: int, pages: int) -> None:
    expected = {HP: pages * GIB} if pages else {}
    assert expected | {"memory": memory * GIB} == pod_needs(asking)


def test_only_guaranteed_pods_without_pod_level_resources_need_memory_of_nodes() -> None:
    burstable = pod(container("a", resources=k8s.ResourceRequirements(requests={"memory": "1Gi"})))
    pod_level = pod(app("a", 1), resources=resources(2))
    for asking in (burstable, pod_level, pod("a")):
        assert {} == container_needs(asking, asking.spec.containers[0])
        assert MemoryGiven(MemoryState(), frozenset()) == tried(nodes_with((1, 0)), MemoryState(), asking)


MACHINE = machine(sockets=2, cores=1)
MIXED = "hugepages-2Mi"


@pytest.mark.parametrize(
    ("given_memory", "node_reserved"),
    [
        ((), {}),
        ((MemoryReservation(0, {"memory": "0"}),), {}),
        (
            (
                MemoryReservation(0, {"memory": "12", MIXED: "70", HP: "13"}),
                MemoryReservation(1, {"memory": "5", MIXED: "7"}),
            ),
            {"memory": 17, MIXED: 77, HP: 13, "cpu": 1000},
        ),
    ],
)
def test_reservation_that_adds_up_is_taken(
    given_memory: tuple[MemoryReservation, ...], node_reserved: dict[str, int]
) -> None:
    found = reserved_memory(given_memory, MACHINE, node_reserved)
    assert sum(amounts.get("memory", 0) for amounts in found.values()) == node_reserved.get("memory", 0)


@pytest.mark.parametrize(
    ("given_memory", "node_reserved", "message"),
    [
        ((MemoryReservation(0, {"memory": "12"}),), {}, '"12" of type "memory" is not equal to the value "0"'),
        (
            (MemoryReservation(0, {"memory": "12"}),),
            {"memory": 5},
            '"12" of type "memory" is not equal to the value "5"',
        ),
        ((), {MIXED: 5}, '"0" of type "hugepages-2Mi" is not equal to the value "5"'),
        (
            (MemoryReservation(0, {"memory": "1Gi"}),),
            {"memory": GIB + 1},
            '"1Gi" of type "memory" is not equal to the value "1073741825"',
        ),
        (
            (MemoryReservation(0, {"memory": "12"}), MemoryReservation(2, {"memory": "5"})),
            {"memory": 17},
            "the reserved memory configuration references a NUMA node 2 that does not exist on this machine",
        ),
    ],
)
def test_wrong_reservation_raises_upstreams_text(
    given_memory: tuple[MemoryReservation, ...], node_reserved: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=r"reserved memory|the total amount") as raised:
        reserved_memory(given_memory, MACHINE, node_reserved)
    assert message in str(raised.value)


def test_static_policy_demands_reserved_memory() -> None:
    check_reserved({0: {"memory": 1}})
    with pytest.raises(ValueError, match="you should specify the system reserved memory"):
        check_reserved({0: {"memory": 0}, 1: {HP: GIB}})


def test_supply_is_the_machine_without_reserved_memory_and_huge_pages() -> None:
    shown = Machine({}, {0: NumaNode(10 * GIB, {GIB: 2, 2 * MIB: 512}), 1: NumaNode(GIB, {GIB: 2})})
    found = supply(shown, {0: {"memory": GIB, HP: GIB}})
    assert Amount(10 * GIB, GIB, 6 * GIB) == found[0]["memory"]
    assert Amount(2 * GIB, GIB, GIB) == found[0][HP]
    assert Amount(GIB, 0, GIB) == found[0][MIXED]
    assert 0 == found[1]["memory"].allocatable_bytes


def test_block_of_several_nodes_is_given_back_to_them() -> None:
    supplied = nodes_with((1, 0), (1, 0))
    state = all_given(supplied, pod(app("a", 2)))
    assert (0, 1) == usage(supplied, state)[1].group
    for after in (release(state, {UID}), release_containers(state, UID, ["a"])):
        assert MemoryState() == after
        assert [(0,), (1,)] == [one.group for one in usage(supplied, after).values()]


def test_repeated_decision_changes_nothing() -> None:
    supplied = nodes_with((4, 4))
    asking = pod(app("a", 1), init=(app("i", 2),))
    state = all_given(supplied, asking)
    again = allocate(supplied, state, asking, asking.spec.init_containers[0], wants(0))
    assert MemoryGiven(state, frozenset({0})) == again


PODS = st.builds(
    lambda uid, apps, inits: pod(
        *(app(f"a{n}", memory, pages) for n, (memory, pages) in enumerate(apps)),
        init=tuple(app(f"i{n}", memory, pages) for n, (memory, pages) in enumerate(inits)),
        meta={"uid": uid},
    ),
    st.sampled_from("uvwx"),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=2),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), max_size=2),
)


@given(st.lists(st.tuples(PODS, st.frozensets(st.integers(0, 2)), st.booleans()), max_size=5))
def test_no_memory_is_given_twice_and_groups_never_overlap(
    asking: list[tuple[k8s.Pod, frozenset[int], bool]],
) -> None:
    supplied = nodes_with((4, 2), (4, 2), (3, 0))
    state = MemoryState()
    for one, wanted, is_preferred in asking:
        for each in (*one.spec.init_containers, *one.spec.containers):
            decision = allocate(supplied, state, one, each, Affinity(wanted, is_preferred))
            if isinstance(decision, Refused):
                break
            state = decision.state
    used = usage(supplied, state)
    assert all(free >= 0 for one in used.values() for free in one.free_bytes.values())
    for node, one in used.items():
        assert node in one.group
        assert {one.group} == {used[each].group for each in one.group}
    assert MemoryState() == release(state, {"u", "v", "w", "x"})


def test_hints_of_nothing_are_none() -> None:
    assert () == memory_hints(nodes_with((1, 0)), MemoryState(), {})
    assert {} == pod_hints(nodes_with((1, 0)), MemoryState(), pod("a"))
    assert MemoryState({"u": {"c": ()}}) == assign(MemoryState(), "u", {"c": ()})
