"""The blocks of memory that containers have, and the use of the NUMA nodes that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from trikubelet.core.numa_memory.supply import Supply


@dataclass(frozen=True, slots=True)
class Block:
    """An amount of one resource from NUMA nodes, in ascending order."""

    nodes: tuple[int, ...]
    resource: str
    size_bytes: int


Blocks = tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class MemoryState:
    """The blocks of containers, by pod UID and name. The block of an init container is what later containers of its pod
    have not taken over."""

    blocks: Mapping[str, Mapping[str, Blocks]] = field(default_factory=dict)

    def of_pod(self, uid: str) -> Mapping[str, Blocks]:
        """Return the blocks of a pod's containers."""
        return self.blocks.get(uid, {})

    def each(self) -> Iterator[Block]:
        """Yield all blocks, in an order that a restart repeats."""
        for _, containers in sorted(self.blocks.items()):
            for _, blocks in sorted(containers.items()):
                yield from blocks


@dataclass(frozen=True, slots=True)
class NodeUse:
    """The use of one NUMA node. ``group``: the nodes with which it gives memory: itself alone, or those of blocks with
    several nodes. ``free_bytes``: by resource."""

    assignments: int
    group: tuple[int, ...]
    free_bytes: Mapping[str, int]


Usage = dict[int, NodeUse]


def usage(supplied: Supply, state: MemoryState) -> Usage:
    """Return the use of each node. A block takes from its nodes in ascending order."""
    free = {node: {name: one.allocatable_bytes for name, one in amounts.items()} for node, amounts in supplied.items()}
    assignments = dict.fromkeys(supplied, 0)
    groups: dict[int, tuple[int, ...]] = {node: (node,) for node in supplied}
    for block in state.each():
        missing = block.size_bytes
        for node in block.nodes:
            taken = min(missing, max(free[node][block.resource], 0))
            free[node][block.resource] -= taken
            missing -= taken
            assignments[node] += 1
            groups[node] = block.nodes
        # More than there is, by a drift of the machine's memory: it is missing from the last node.
        free[block.nodes[-1]][block.resource] -= missing
    return {node: NodeUse(assignments[node], groups[node], free[node]) for node in supplied}


def violates_groups(used: Mapping[int, NodeUse], nodes: tuple[int, ...]) -> bool:
    """True if the nodes cannot be a group: one of them gives memory alone, or with other nodes."""
    return any(used[node].assignments and used[node].group != nodes for node in nodes)


def assign(state: MemoryState, uid: str, containers: Mapping[str, Blocks]) -> MemoryState:
    """Return the state in which these containers of a pod have these blocks."""
    return MemoryState({**state.blocks, uid: {**state.of_pod(uid), **containers}})


def release(state: MemoryState, uids: AbstractSet[str]) -> MemoryState:
    """Return the state after these pods gave back their memory."""
    return MemoryState({uid: containers for uid, containers in state.blocks.items() if uid not in uids})


def release_containers(state: MemoryState, uid: str, names: Collection[str]) -> MemoryState:
    """Return the state after these containers of a pod gave back their memory."""
    rest = {name: blocks for name, blocks in state.of_pod(uid).items() if name not in names}
    others = release(state, {uid})
    return assign(others, uid, rest) if rest else others
