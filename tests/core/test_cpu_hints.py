"""The NUMA nodes that CPUs can come from."""

from __future__ import annotations

from core.machines import POWER9, B, D
from core.podkit import container, pod
from trikubelet.core.cpus.hints import container_hints, cpu_hints, pod_hints
from trikubelet.core.cpus.layout import layout
from trikubelet.core.cpus.options import CpuOption
from trikubelet.core.cpus.state import CpuRules, CpuState, assign
from trikubelet.core.topology.cpu_list import parse_list
from trikubelet.core.topology.hints import Hint, nodes_of
from trikubelet.model import k8s

RULES = CpuRules(layout(D), frozenset())
SOCKETS = CpuRules(layout(D), frozenset(), frozenset({CpuOption.ALIGN_BY_SOCKET}))
OF_B = CpuRules(layout(B), frozenset({0}))
UID = "12345678"


def app(name: str, cpu: int) -> k8s.Container:
    return container(name, resources=k8s.ResourceRequirements(limits={"cpu": cpu, "memory": "1Gi"}))


def preferred(found: tuple[Hint, ...] | None) -> list[set[int]]:
    assert found is not None
    return [set(nodes_of(hint.mask or 0)) for hint in found if hint.is_preferred]


def test_sets_with_enough_free_cpus_are_hints_and_the_smallest_are_preferred() -> None:
    found = cpu_hints(RULES, parse_list("2,3,11"), 2)
    assert [{0}] == preferred(found)
    assert 8 == len(found)
    assert all(hint.mask and hint.mask & 1 for hint in found)


def test_align_by_socket_prefers_all_sets_within_as_few_sockets() -> None:
    assert [{0}, {0, 1}] == preferred(cpu_hints(SOCKETS, parse_list("2,3,11"), 2))
    assert [{0, 1, 2}, {0, 1, 2, 3}] == preferred(cpu_hints(SOCKETS, parse_list("0-28,40-57"), 41))


def test_preferred_size_is_that_of_an_idle_machine() -> None:
    found = cpu_hints(RULES, parse_list("0-8,10-18"), 10)
    assert [] == preferred(found)
    assert Hint(0b11, is_preferred=False) in found


def test_request_beyond_the_machine_has_no_hint() -> None:
    assert () == cpu_hints(RULES, RULES.layout.cpus, 81)


def test_reusable_cpus_must_be_within_the_set() -> None:
    reusable = parse_list("1,7")
    assert [{1}] == preferred(cpu_hints(OF_B, parse_list("2-5,8-11"), 2, reusable))


def test_regular_container_is_hinted_to_the_nodes_of_the_init_container() -> None:
    asking = pod(app("a", 2), init=(app("i", 4),))
    state = assign(CpuState(OF_B.layout.cpus), UID, "i", parse_list("1,3,7,9"))
    assert [{1}] == preferred(container_hints(OF_B, state, asking, asking.spec.containers[0]))


def test_shared_containers_have_no_preference() -> None:
    asking = pod("a")
    assert None is container_hints(OF_B, CpuState(), asking, asking.spec.containers[0])
    assert None is pod_hints(OF_B, CpuState(), asking)


def test_reserved_cpus_are_not_free() -> None:
    asking = pod(app("a", 6))
    state = CpuState(OF_B.layout.cpus)
    assert [{1}] == preferred(container_hints(OF_B, state, asking, asking.spec.containers[0]))
    assert [{1}] == preferred(pod_hints(OF_B, state, asking))


def test_nodes_without_cpus_are_in_no_hint() -> None:
    shown = layout(POWER9)
    found = cpu_hints(CpuRules(shown, frozenset()), shown.cpus, 4)
    assert [{0}, {8}, {0, 8}] == [set(nodes_of(hint.mask or 0)) for hint in found]
