"""The decision of the static memory policy about one container: blocks from NUMA nodes, none, or a refusal.

A container that has its blocks already keeps them, so the decision can be asked for at each start of a container.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.numa_memory.hints import has_enough, is_possible, memory_hints
from trikubelet.core.numa_memory.needs import container_needs
from trikubelet.core.numa_memory.reuse import reusable, taken_over
from trikubelet.core.numa_memory.state import Block, assign, usage
from trikubelet.core.topology.hints import mask_of, nodes_of
from trikubelet.core.topology.refusal import Refused, unexpected

if TYPE_CHECKING:
    from trikubelet.core.numa_memory.needs import Needs
    from trikubelet.core.numa_memory.reuse import Reusable
    from trikubelet.core.numa_memory.state import MemoryState
    from trikubelet.core.numa_memory.supply import Supply
    from trikubelet.core.topology.policy import Affinity
    from trikubelet.model import k8s


@dataclass(frozen=True, slots=True)
class MemoryGiven:
    """The container's memory comes from ``nodes``, or from anywhere if there are none. ``state``: the state
    afterwards."""

    state: MemoryState
    nodes: frozenset[int]


def allocate(
    supplied: Supply, state: MemoryState, pod: k8s.Pod, container: k8s.Container, wanted: Affinity
) -> MemoryGiven | Refused:
    """Return the decision. ``wanted``: the NUMA nodes that the topology manager chose."""
    uid, name = pod.metadata.uid, container.name
    held = state.of_pod(uid)
    if name in held:
        return MemoryGiven(state, nodes_given(state, uid, name))
    needs = container_needs(pod, container)
    if not needs:
        return MemoryGiven(state, frozenset())
    again = reusable(pod, name, held)
    nodes = _chosen(supplied, state, needs, again, wanted)
    if isinstance(nodes, Refused):
        return nodes
    blocks = {**held, name: tuple(Block(nodes, resource, size) for resource, size in needs.items())}
    after = assign(state, uid, blocks | taken_over(pod, name, blocks))
    return MemoryGiven(after, frozenset(nodes))


def nodes_given(state: MemoryState, uid: str, container: str) -> frozenset[int]:
    """Return the NUMA nodes that a container's memory comes from; none if it may come from anywhere."""
    return frozenset(node for block in state.of_pod(uid).get(container, ()) for node in block.nodes)


def _chosen(
    supplied: Supply, state: MemoryState, needs: Needs, again: Reusable, wanted: Affinity
) -> tuple[int, ...] | Refused:
    """Return the wanted nodes if they have enough memory, else the best ones that include them."""
    nodes = tuple(sorted(wanted.nodes))
    used = usage(supplied, state)
    if not nodes or not has_enough(used, nodes, needs, again):
        within = mask_of(nodes)
        hints = [
            hint
            for hint in memory_hints(supplied, state, needs, again)
            if hint.mask is not None and hint.mask & within == within
        ]
        if not hints:
            return _refused(
                "failed to find NUMA nodes to extend the current topology hint"
                if nodes
                else "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
            )
        best = min(hints, key=lambda hint: (not hint.is_preferred, (hint.mask or 0).bit_count(), hint.mask))
        if wanted.is_preferred and not best.is_preferred:
            kind = "extended" if nodes else "default"
            return _refused(f"failed to find the {kind} preferred hint")
        nodes = tuple(sorted(nodes_of(best.mask or 0)))
    if not is_possible(used, nodes):
        return _refused("preferred hint violates NUMA node allocation")
    return nodes


def _refused(problem: str) -> Refused:
    return unexpected(f"[memorymanager] {problem}")
