"""The NUMA nodes that CPUs of a container's or pod's own can come from. CPUs that are held already need no hints."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from trikubelet.core.cpus.layout import Level
from trikubelet.core.cpus.needs import exclusive_count, pod_count
from trikubelet.core.cpus.options import CpuOption
from trikubelet.core.cpus.static import available
from trikubelet.core.handover import handed_over
from trikubelet.core.topology.hints import Hint, mask_of, node_sets

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from trikubelet.core.cpus.layout import Layout
    from trikubelet.core.cpus.state import CpuRules, CpuState
    from trikubelet.core.topology.hints import Hints
    from trikubelet.model import k8s


def container_hints(rules: CpuRules, state: CpuState, pod: k8s.Pod, container: k8s.Container) -> Hints | None:
    """Return the hints for a container; None if it gets no CPUs of its own."""
    count = exclusive_count(pod, container)
    if not count:
        return None
    reusable = handed_over(pod, container.name, state.of_pod(pod.metadata.uid))
    return cpu_hints(rules, available(rules, state), count, reusable)


def pod_hints(rules: CpuRules, state: CpuState, pod: k8s.Pod) -> Hints | None:
    """Return the hints for all containers of a pod together."""
    count = pod_count(pod)
    return cpu_hints(rules, available(rules, state), count) if count else None


def cpu_hints(rules: CpuRules, free: AbstractSet[int], count: int, reusable: AbstractSet[int] = frozenset()) -> Hints:
    """Return the sets of NUMA nodes that have enough free CPUs. ``reusable``: CPUs of ended init containers, all of
    which must be used again. A set is preferred if no smaller one could give the CPUs on an idle machine."""
    members = rules.layout.members[Level.NUMA_NODE]
    usable = {node: len(cpus & (free | reusable)) for node, cpus in members.items()}
    must = mask_of(rules.layout.spanned(Level.NUMA_NODE, reusable))
    fewest = _fewest_nodes(members, count)
    found = []
    for nodes in node_sets(members, fewest):
        mask = mask_of(nodes)
        if must & ~mask or sum(usable[node] for node in nodes) < count:
            continue
        found.append(Hint(mask, _is_preferred(rules, nodes, fewest)))
    return tuple(found)


def _fewest_nodes(members: Mapping[int, frozenset[int]], count: int) -> int:
    """Return the number of nodes that an idle machine would need; all of them if even those do not suffice."""
    total = 0
    for number, size in enumerate(sorted(map(len, members.values()), reverse=True), 1):
        total += size
        if total >= count:
            return number
    return len(members)


def _is_preferred(rules: CpuRules, nodes: tuple[int, ...], fewest: int) -> bool:
    if CpuOption.ALIGN_BY_SOCKET not in rules.options:
        return len(nodes) == fewest
    sockets = rules.layout.spanned(Level.SOCKET, rules.layout.within(Level.NUMA_NODE, nodes))
    return len(sockets) == ceil(fewest / _nodes_per_socket(rules.layout))


def _nodes_per_socket(shown: Layout) -> int:
    """Return the number of NUMA nodes in a socket: at least 1, because align-by-socket excludes larger nodes."""
    return max(len(shown.members[Level.NUMA_NODE]) // len(shown.members[Level.SOCKET]), 1)
