"""The decision of the static CPU policy about one container: CPUs of its own, the shared pool, or a refusal.

A container that has its CPUs already keeps them, so the decision can be asked for at each start of a container.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.cpus.distributed import distributed
from trikubelet.core.cpus.layout import Level
from trikubelet.core.cpus.needs import exclusive_count
from trikubelet.core.cpus.options import CpuOption
from trikubelet.core.cpus.packed import packed
from trikubelet.core.cpus.state import assign
from trikubelet.core.handover import handed_over
from trikubelet.core.topology.refusal import SMT_ALIGNMENT, Refused, unexpected

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from trikubelet.core.cpus.layout import Layout
    from trikubelet.core.cpus.options import CpuOptions
    from trikubelet.core.cpus.state import CpuRules, CpuState
    from trikubelet.model import k8s


@dataclass(frozen=True, slots=True)
class CpusGiven:
    """The container has ``cpus`` for itself, or none and runs on the shared pool. ``state``: the state afterwards."""

    state: CpuState
    cpus: frozenset[int]


def allocate(
    rules: CpuRules,
    state: CpuState,
    pod: k8s.Pod,
    container: k8s.Container,
    wanted_nodes: AbstractSet[int] = frozenset(),
) -> CpusGiven | Refused:
    """Return the decision. ``wanted_nodes``: the NUMA nodes that the topology manager chose; none if it has no
    preference."""
    uid = pod.metadata.uid
    count = exclusive_count(pod, container)
    if not count:
        return CpusGiven(state, frozenset())
    if held := state.of_pod(uid).get(container.name):
        return CpusGiven(state, held)
    free = available(rules, state) | handed_over(pod, container.name, state.of_pod(uid))
    cpus = choose(rules, free, count, wanted_nodes)
    return cpus if isinstance(cpus, Refused) else CpusGiven(assign(state, uid, container.name, cpus), cpus)


def available(rules: CpuRules, state: CpuState) -> frozenset[int]:
    """Return the CPUs that a container can get for itself."""
    return state.shared - rules.reserved


def choose(
    rules: CpuRules, free: AbstractSet[int], count: int, wanted_nodes: AbstractSet[int]
) -> frozenset[int] | Refused:
    """Return ``count`` of the free CPUs: those on the wanted NUMA nodes first."""
    if CpuOption.FULL_CORES in rules.options:
        whole = rules.layout.whole(Level.CORE, free)
        if problem := _alignment_problem(rules.layout, len(whole), count):
            return problem
        free = whole
    if count > len(free):
        return unexpected(f"not enough cpus available to satisfy request: requested={count}, available={len(free)}")
    if not wanted_nodes:
        return _take(rules, free, count)
    inside = free & _wanted(rules, wanted_nodes)
    found = _take(rules, inside, min(count, len(inside)), nodes_wanted=len(wanted_nodes))
    return found | _take(rules, free - found, count - len(found))


def _alignment_problem(shown: Layout, available: int, count: int) -> Refused | None:
    threads = shown.threads_per_core
    if count % threads:
        problem = f"requested {count} cpus not multiple cpus per core = {threads}"
    elif count > available:
        problem = (
            f"not enough free physical CPUs: available physical CPUs = {available}, requested CPUs = {count}, "
            f"CPUs per core = {threads}"
        )
    else:
        return None
    return Refused(SMT_ALIGNMENT, f"SMT Alignment Error: {problem}")


def _wanted(rules: CpuRules, nodes: AbstractSet[int]) -> frozenset[int]:
    found = rules.layout.within(Level.NUMA_NODE, nodes)
    if CpuOption.ALIGN_BY_SOCKET in rules.options:
        return rules.layout.within(Level.SOCKET, rules.layout.spanned(Level.SOCKET, found))
    return found


def _take(rules: CpuRules, free: AbstractSet[int], count: int, *, nodes_wanted: int = 0) -> frozenset[int]:
    options: CpuOptions = rules.options
    if CpuOption.ACROSS_NUMA in options:
        return distributed(rules.layout, free, count, options, nodes_wanted=nodes_wanted)
    return packed(rules.layout, free, count, options)
