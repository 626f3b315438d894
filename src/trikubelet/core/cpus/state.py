"""The state of the static CPU policy: which CPUs are shared, and which ones belong to a container."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from collections.abc import Set as AbstractSet

    from trikubelet.core.cpus.layout import Layout
    from trikubelet.core.cpus.options import CpuOptions


@dataclass(frozen=True, slots=True)
class CpuRules:
    """The facts that decisions about CPUs are made by. ``reserved``: CPUs for the system, which no container gets for
    itself."""

    layout: Layout
    reserved: frozenset[int]
    options: CpuOptions = frozenset()


@dataclass(frozen=True, slots=True)
class CpuState:
    """The CPUs of the shared pool, and those of containers, by pod UID and name. Init containers may have the same CPUs
    as later containers of their pod. ``pods``: CPUs of whole pods, with PodLevelResourceManagers."""

    shared: frozenset[int] = frozenset()
    assigned: Mapping[str, Mapping[str, frozenset[int]]] = field(default_factory=dict)
    pods: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def of_pod(self, uid: str) -> Mapping[str, frozenset[int]]:
        """Return the CPUs of a pod's containers."""
        return self.assigned.get(uid, {})

    @property
    def exclusive(self) -> frozenset[int]:
        """All CPUs outside the shared pool."""
        held = (cpus for containers in self.assigned.values() for cpus in containers.values())
        return frozenset().union(*held, *self.pods.values())


def assign(state: CpuState, uid: str, container: str, cpus: frozenset[int]) -> CpuState:
    """Return the state in which the container has these CPUs."""
    containers = {**state.of_pod(uid), container: cpus}
    return replace(state, shared=state.shared - cpus, assigned={**state.assigned, uid: containers})


def release(state: CpuState, uids: AbstractSet[str]) -> CpuState:
    """Return the state after these pods gave back their CPUs."""
    return _returned(
        state,
        {uid: containers for uid, containers in state.assigned.items() if uid not in uids},
        {uid: cpus for uid, cpus in state.pods.items() if uid not in uids},
    )


def release_containers(state: CpuState, uid: str, names: Collection[str]) -> CpuState:
    """Return the state after these containers of a pod gave back their CPUs, unless others of the pod have them."""
    rest = {name: cpus for name, cpus in state.of_pod(uid).items() if name not in names}
    assigned = {pod: containers for pod, containers in state.assigned.items() if pod != uid}
    pods = state.pods if rest else {pod: cpus for pod, cpus in state.pods.items() if pod != uid}
    return _returned(state, assigned | ({uid: rest} if rest else {}), pods)


def _returned(
    state: CpuState, assigned: Mapping[str, Mapping[str, frozenset[int]]], pods: Mapping[str, frozenset[int]]
) -> CpuState:
    kept = CpuState(frozenset(), assigned, pods).exclusive
    return CpuState(state.shared | (state.exclusive - kept), assigned, pods)
