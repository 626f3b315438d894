"""The state with which the memory manager starts: the one of the file, or what is valid in it.

Upstream refuses to start where the machine of the file is not exactly the present one. Here the blocks are checked
against the present machine: a size that differs by a few pages after a boot changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trikubelet.core.numa_memory.checkpoint import NONE, STATIC
from trikubelet.core.numa_memory.state import MemoryState, assign, usage, violates_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trikubelet.core.numa_memory.checkpoint import MemoryCheckpoint
    from trikubelet.core.numa_memory.state import Blocks
    from trikubelet.core.numa_memory.supply import Supply

DRIFT_PERCENT_MAX: Final = 1
"""The share of a node's memory by which it may have become smaller, because the kernel keeps another amount for itself
at each boot."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The file fits, or there is none yet."""

    state: MemoryState


@dataclass(frozen=True, slots=True)
class Migrated:
    """The file does not fit: ``state`` has what is valid in it. ``reasons``: the first fault of each pod that lost its
    memory, or of the policy. ``drained``: the UIDs of these pods; they run as they are until they are drained."""

    state: MemoryState
    reasons: tuple[str, ...]
    drained: tuple[str, ...]


def start_static(supplied: Supply, file: MemoryCheckpoint | None) -> Kept | Migrated:
    """Return the state for the static policy. ``file``: None if there is none."""
    if file is None:
        return Kept(MemoryState())
    reasons = list(_policy_problems(file, STATIC))
    state = MemoryState()
    drained = []
    for uid, containers in sorted(file.state.blocks.items()):
        if problem := next(_problems(supplied, state, uid, containers), ""):
            reasons.append(f"[memorymanager] {problem}")
            drained.append(uid)
        else:
            state = assign(state, uid, containers)
    return Migrated(state, tuple(reasons), tuple(drained)) if reasons else Kept(state)


def start_none(file: MemoryCheckpoint | None) -> Kept | Migrated:
    """Return the state without a policy: no memory is assigned. Pods that had some keep it until they are drained."""
    if file is None or file.policy == NONE:
        return Kept(MemoryState())
    return Migrated(MemoryState(), tuple(_policy_problems(file, NONE)), tuple(sorted(file.state.blocks)))


def _policy_problems(file: MemoryCheckpoint, configured: str) -> Iterator[str]:
    if file.policy != configured:
        yield (f'[memorymanager] configured policy "{configured}" differs from state checkpoint policy "{file.policy}"')


def _problems(supplied: Supply, state: MemoryState, uid: str, containers: Mapping[str, Blocks]) -> Iterator[str]:
    """Yield the faults of a pod's blocks, which are to be added to a valid state."""
    used = usage(supplied, state)
    groups = set()
    for name, blocks in sorted(containers.items()):
        for block in blocks:
            start = f"(pod: {uid}, container: {name}) the memory assignment uses"
            if not supplied.keys() >= set(block.nodes):
                yield f"{start} the NUMA that does not exist"
                return
            if not all(block.resource in supplied[node] for node in block.nodes):
                yield f"{start} memory resource that does not exist"
                return
            if violates_groups(used, block.nodes):
                yield f"{start} NUMA nodes {list(block.nodes)}, which another pod uses in another group"
            groups.add(block.nodes)
    if len({node for group in groups for node in group}) != sum(map(len, groups)):
        yield f"(pod: {uid}) the memory assignment uses a NUMA node in two groups"
    for node, after in usage(supplied, assign(state, uid, containers)).items():
        for name, free in after.free_bytes.items():
            if free < -supplied[node][name].total_bytes * DRIFT_PERCENT_MAX // 100:
                yield f"(pod: {uid}) the memory assignment exceeds the {name} of NUMA node {node} by {-free} bytes"
