"""The decision about all NUMA resources of a pod: the nodes for each container, then its CPUs and its memory.

Admission tries it and drops the result; the first sync of the pod's worker carries it out; each making of a container
asks again. A container keeps what it holds, and is not moved.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from trikubelet.core.cpus import hints as cpu_hints
from trikubelet.core.cpus import state as cpu_state
from trikubelet.core.cpus import static as cpu_policy
from trikubelet.core.cpus.layout import Level
from trikubelet.core.cpus.state import CpuState
from trikubelet.core.names import all_containers
from trikubelet.core.numa_memory import hints as memory_hints
from trikubelet.core.numa_memory import state as memory_state
from trikubelet.core.numa_memory import static as memory_policy
from trikubelet.core.numa_memory.state import MemoryState
from trikubelet.core.topology.policy import Affinity, TopologyPolicy, TopologyScope, affinity
from trikubelet.core.topology.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from trikubelet.core.cpus.state import CpuRules
    from trikubelet.core.numa_memory.supply import Supply
    from trikubelet.core.topology.hints import Hints
    from trikubelet.core.topology.merge import Nodes
    from trikubelet.model import k8s

POD: Final = ""
"""The name of the pod as a whole, among those of its containers."""


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """The policies. ``cpus`` and ``memory``: None where the policy is ``none``."""

    nodes: Nodes
    policy: TopologyPolicy = TopologyPolicy.NONE
    scope: TopologyScope = TopologyScope.CONTAINER
    cpus: CpuRules | None = None
    memory: Supply | None = None


@dataclass(frozen=True, slots=True)
class NumaState:
    """The CPUs and the memory that containers hold."""

    cpus: CpuState = field(default_factory=CpuState)
    memory: MemoryState = field(default_factory=MemoryState)


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod's containers have their resources. ``affinities``: the NUMA nodes of each container, for its devices."""

    state: NumaState
    affinities: Mapping[str, Affinity]


def place(
    rules: PlacementRules, state: NumaState, pod: k8s.Pod, devices: Mapping[str, Sequence[Hints | None]]
) -> Placed | Refused:
    """Return the decision about a pod. ``devices``: the hints for the devices of each container, or of the pod, under
    the name POD, if that is the scope. Devices that are held already need none."""
    affinities: dict[str, Affinity] = {}
    for container in all_containers(pod):
        chosen = _affinity(rules, state, pod, container, devices)
        if isinstance(chosen, Refused):
            return chosen
        found = _allocated(rules, state, pod, container, chosen)
        if isinstance(found, Refused):
            return found
        state, affinities[container.name] = found, chosen
    return Placed(state, affinities)


def _affinity(
    rules: PlacementRules,
    state: NumaState,
    pod: k8s.Pod,
    container: k8s.Container,
    devices: Mapping[str, Sequence[Hints | None]],
) -> Affinity | Refused:
    """Return the NUMA nodes for a container. Its holdings already decide them, or those of its pod's containers if
    that is the scope: the choice is not stored. So a running pod is not refused after a change of the policy."""
    if rules.policy is TopologyPolicy.NONE:
        return affinity(rules.policy, (), rules.nodes)
    is_pod = rules.scope is TopologyScope.POD
    names = [one.name for one in all_containers(pod)] if is_pod else [container.name]
    if nodes := _held_nodes(rules, state, pod.metadata.uid, names):
        return Affinity(nodes, is_preferred=False)
    hints = _pod_hints(rules, state, pod) if is_pod else _container_hints(rules, state, pod, container)
    return affinity(rules.policy, (*devices.get(POD if is_pod else container.name, ()), *hints), rules.nodes)


def _container_hints(
    rules: PlacementRules, state: NumaState, pod: k8s.Pod, container: k8s.Container
) -> Iterator[Hints | None]:
    if rules.cpus is not None:
        yield cpu_hints.container_hints(rules.cpus, state.cpus, pod, container)
    if rules.memory is not None:
        yield from memory_hints.container_hints(rules.memory, state.memory, pod, container).values()


def _pod_hints(rules: PlacementRules, state: NumaState, pod: k8s.Pod) -> Iterator[Hints | None]:
    if rules.cpus is not None:
        yield cpu_hints.pod_hints(rules.cpus, state.cpus, pod)
    if rules.memory is not None:
        yield from memory_hints.pod_hints(rules.memory, state.memory, pod).values()


def _held_nodes(rules: PlacementRules, state: NumaState, uid: str, names: Iterable[str]) -> frozenset[int]:
    cpus, memory = state.cpus.of_pod(uid), state.memory.of_pod(uid)
    found = {node for name in names for block in memory.get(name, ()) for node in block.nodes}
    if rules.cpus is not None:
        held = frozenset().union(*(cpus.get(name, frozenset()) for name in names))
        found |= rules.cpus.layout.spanned(Level.NUMA_NODE, held)
    return frozenset(found)


def _allocated(
    rules: PlacementRules, state: NumaState, pod: k8s.Pod, container: k8s.Container, chosen: Affinity
) -> NumaState | Refused:
    if rules.cpus is not None:
        cpus = cpu_policy.allocate(rules.cpus, state.cpus, pod, container, chosen.nodes)
        if isinstance(cpus, Refused):
            return cpus
        state = replace(state, cpus=cpus.state)
    if rules.memory is not None:
        memory = memory_policy.allocate(rules.memory, state.memory, pod, container, chosen)
        if isinstance(memory, Refused):
            return memory
        state = replace(state, memory=memory.state)
    return state


def release(state: NumaState, uids: AbstractSet[str]) -> NumaState:
    """Return the state after these pods gave back what they held."""
    return NumaState(cpu_state.release(state.cpus, uids), memory_state.release(state.memory, uids))
