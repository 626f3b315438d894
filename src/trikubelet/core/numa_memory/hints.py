"""The NUMA nodes that memory and huge pages of a container or pod can come from. Held memory needs no hints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.numa_memory.needs import container_needs, pod_needs
from trikubelet.core.numa_memory.reuse import reusable
from trikubelet.core.numa_memory.state import usage, violates_groups
from trikubelet.core.topology.hints import Hint, mask_of, node_sets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.numa_memory.needs import Needs
    from trikubelet.core.numa_memory.reuse import Reusable
    from trikubelet.core.numa_memory.state import MemoryState, NodeUse
    from trikubelet.core.numa_memory.supply import Supply
    from trikubelet.core.topology.hints import Hints
    from trikubelet.model import k8s


def container_hints(supplied: Supply, state: MemoryState, pod: k8s.Pod, container: k8s.Container) -> dict[str, Hints]:
    """Return the hints for each resource of a container; nothing if it gets none from NUMA nodes."""
    needs = container_needs(pod, container)
    again = reusable(pod, container.name, state.of_pod(pod.metadata.uid))
    return dict.fromkeys(needs, memory_hints(supplied, state, needs, again))


def pod_hints(supplied: Supply, state: MemoryState, pod: k8s.Pod) -> dict[str, Hints]:
    """Return the hints for each resource of all containers of a pod together."""
    needs = pod_needs(pod)
    return dict.fromkeys(needs, memory_hints(supplied, state, needs))


def memory_hints(supplied: Supply, state: MemoryState, needs: Needs, again: Reusable | None = None) -> Hints:
    """Return the sets of NUMA nodes that have enough free memory. ``again``: memory of ended init containers. A set is
    preferred if no smaller one could give the memory on an idle machine."""
    if not needs:
        return ()
    used = usage(supplied, state)
    found: list[Hint] = []
    fewest = len(supplied)
    for nodes in node_sets(supplied):
        if not all(_idle_bytes(supplied, nodes, name) >= size for name, size in needs.items()):
            continue
        fewest = min(fewest, len(nodes))
        if is_possible(used, nodes) and has_enough(used, nodes, needs, again or {}):
            found.append(Hint(mask_of(nodes), is_preferred=len(nodes) == fewest))
    return tuple(found)


def _idle_bytes(supplied: Supply, nodes: tuple[int, ...], resource: str) -> int:
    return sum(supplied[node][resource].allocatable_bytes for node in nodes if resource in supplied[node])


def is_possible(used: Mapping[int, NodeUse], nodes: tuple[int, ...]) -> bool:
    """True if the nodes can give memory together: a node of a group does so only with the others of the group."""
    if len(nodes) == 1:
        return len(used[nodes[0]].group) == 1
    return not violates_groups(used, nodes)


def has_enough(used: Mapping[int, NodeUse], nodes: tuple[int, ...], needs: Needs, again: Reusable) -> bool:
    """True if the free memory of the nodes suffices, with the memory that is taken over."""
    return all(
        sum(used[node].free_bytes.get(name, 0) for node in nodes) + again.get((nodes, name), 0) >= size
        for name, size in needs.items()
    )
