"""The decision about all NUMA resources of a pod: aligned as the topology policy demands, and repeatable."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.machines import GIB, machine
from core.podkit import container, pod, sidecar
from trikubelet.core.cpus.layout import Level, layout
from trikubelet.core.cpus.state import CpuRules, CpuState
from trikubelet.core.numa_memory.state import MemoryState
from trikubelet.core.numa_memory.static import nodes_given
from trikubelet.core.numa_memory.supply import supply
from trikubelet.core.placement import POD, NumaState, Placed, PlacementRules, place, release
from trikubelet.core.topology.hints import Hint, Hints
from trikubelet.core.topology.merge import Nodes
from trikubelet.core.topology.policy import REFUSED, TopologyPolicy, TopologyScope
from trikubelet.core.topology.refusal import UNEXPECTED, Refused
from trikubelet.model import k8s

MACHINE = machine(sockets=2, cores=4, memory_gib={0: 8, 1: 8})
SHOWN = layout(MACHINE)
CPUS = CpuRules(SHOWN, frozenset({0}))
EMPTY = NumaState(CpuState(SHOWN.cpus))
UID = "12345678"
ON_ONE: Hints = (Hint(0b10, is_preferred=True), Hint(0b11, is_preferred=False))


def rules(policy: str, scope: str = "container") -> PlacementRules:
    return PlacementRules(
        Nodes((0, 1)), TopologyPolicy(policy), TopologyScope(scope), CPUS, supply(MACHINE, {0: {"memory": GIB}})
    )


def needs(cpu: int, gib: int) -> k8s.ResourceRequirements:
    return k8s.ResourceRequirements(limits={"cpu": cpu, "memory": f"{gib}Gi"})


def app(name: str, cpu: int, gib: int) -> k8s.Container:
    return container(name, resources=needs(cpu, gib))


def nodes(state: NumaState, name: str, uid: str = UID) -> tuple[set[int], set[int]]:
    """The NUMA nodes of a container's CPUs and of its memory."""
    cpus = state.cpus.of_pod(uid).get(name, frozenset())
    return set(SHOWN.spanned(Level.NUMA_NODE, cpus)), set(nodes_given(state.memory, uid, name))


def placed(decision: Placed | Refused) -> NumaState:
    assert isinstance(decision, Placed), decision
    return decision.state


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
def test_cpus_and_memory_come_from_one_node(policy: str) -> None:
    # Node 0 has three CPUs to give, so only node 1 has four.
    state = placed(place(rules(policy), EMPTY, pod(app("a", 4, 2)), {}))
    assert ({1}, {1}) == nodes(state, "a")


def test_devices_decide_where_the_rest_comes_from() -> None:
    decision = place(rules("single-numa-node"), EMPTY, pod(app("a", 1, 1)), {"a": [ON_ONE]})
    assert ({1}, {1}) == nodes(placed(decision), "a")
    assert isinstance(decision, Placed)
    assert {1} == decision.affinities["a"].nodes


@pytest.mark.parametrize(
    ("policy", "expected"), [("none", True), ("best-effort", True), ("restricted", False), ("single-numa-node", False)]
)
def test_resources_that_cannot_be_aligned_are_refused_by_strict_policies(policy: str, expected: bool) -> None:
    state = placed(place(rules("none"), EMPTY, pod(app("other", 4, 1), meta={"uid": "other"}), {}))
    decision = place(rules(policy), state, pod(app("a", 3, 1)), {"a": [ON_ONE]})
    assert expected == isinstance(decision, Placed)
    if not expected:
        assert decision == REFUSED


def test_scope_of_the_pod_gives_all_containers_the_same_nodes() -> None:
    asking = pod(app("a", 2, 3), app("b", 2, 3), init=(app("i", 1, 1),))
    state = placed(place(rules("single-numa-node", "pod"), EMPTY, asking, {POD: [None]}))
    assert [({1}, {1})] * 3 == [nodes(state, name) for name in "iab"]
    too_large = pod(app("a", 2, 3), app("b", 3, 3))
    assert REFUSED == place(rules("single-numa-node", "pod"), EMPTY, too_large, {})
    assert isinstance(place(rules("single-numa-node"), EMPTY, too_large, {}), Placed)


def test_rest_of_a_pod_follows_the_containers_that_hold_something() -> None:
    """As when the agent ends between two containers, or the init container's part was given back."""
    both = pod(app("a", 1, 1), app("b", 1, 1))
    policy = rules("restricted", "pod")
    first = placed(place(policy, EMPTY, pod(app("a", 1, 1)), {POD: [ON_ONE]}))
    assert [({1}, {1})] * 2 == [nodes(placed(place(policy, first, both, {})), name) for name in "ab"]


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_running_pod_keeps_its_place_after_a_change_of_the_policy(scope: str) -> None:
    asking = pod(app("a", 6, 2))
    state = placed(place(rules("none"), EMPTY, asking, {}))
    assert {0, 1} == nodes(state, "a")[0]
    assert REFUSED == place(rules("single-numa-node", scope), EMPTY, asking, {})
    assert state == placed(place(rules("single-numa-node", scope), state, asking, {}))


def test_memory_policy_that_is_new_places_the_memory_next_to_the_cpus() -> None:
    asking = pod(app("a", 4, 2))
    only_cpus = replace(rules("restricted"), memory=None)
    state = placed(place(only_cpus, EMPTY, asking, {}))
    assert ({1}, {1}) == nodes(placed(place(rules("restricted"), state, asking, {})), "a")


def test_error_of_an_allocation_is_the_decision() -> None:
    decision = place(rules("none"), EMPTY, pod(app("a", 8, 1)), {})
    assert isinstance(decision, Refused)
    assert UNEXPECTED == decision.reason
    decision = place(rules("none"), EMPTY, pod(app("a", 1, 20)), {})
    assert isinstance(decision, Refused)
    assert "[memorymanager] failed to get the default NUMA affinity" in decision.message


def test_without_policies_nothing_is_held() -> None:
    decision = place(PlacementRules(Nodes((0, 1)), TopologyPolicy.RESTRICTED), EMPTY, pod(app("a", 4, 2)), {})
    assert EMPTY == placed(decision)


PODS = st.builds(
    lambda uid, apps, inits, sides: pod(
        *(app(f"a{n}", *one) for n, one in enumerate(apps)),
        init=(
            *(app(f"i{n}", *one) for n, one in enumerate(inits)),
            *(sidecar(f"s{n}", resources=needs(*one)) for n, one in enumerate(sides)),
        ),
        meta={"uid": uid},
    ),
    st.sampled_from("uvw"),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=2),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=1),
    st.lists(st.tuples(st.integers(1, 2), st.integers(1, 2)), max_size=1),
)
RULES = st.builds(
    rules,
    st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"]),
    st.sampled_from(["container", "pod"]),
)


@given(st.lists(PODS, max_size=4, unique_by=lambda one: one.metadata.uid), RULES)
def test_repeated_decision_changes_nothing_and_release_returns_all(
    asking: list[k8s.Pod], policy: PlacementRules
) -> None:
    state = EMPTY
    for one in asking:
        decision = place(policy, state, one, {})
        if isinstance(decision, Placed):
            before, state = state, decision.state
            for uid, containers in before.cpus.assigned.items():
                assert containers == state.cpus.of_pod(uid)
            for each in one.spec.containers:
                assert placed(place(policy, state, one, {})) == state, each.name
            if policy.policy is TopologyPolicy.SINGLE_NUMA_NODE:
                for each in (*one.spec.init_containers, *one.spec.containers):
                    cpus, memory = nodes(state, each.name, one.metadata.uid)
                    assert cpus == memory
                    assert 1 == len(cpus)
    assert EMPTY == release(state, {"u", "v", "w"})
    assert MemoryState() == release(state, {"u", "v", "w"}).memory
