"""The memory and huge pages of each NUMA node that containers can get, after those reserved for the system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.node_status.amounts import MEMORY, huge_pages_name
from trikubelet.model import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trikubelet.model.kubelet_configuration import MemoryReservation
    from trikubelet.model.machine import Machine

Reserved = dict[int, dict[str, int]]
"""Reserved bytes by NUMA node and resource."""


@dataclass(frozen=True, slots=True)
class Amount:
    """One resource of a NUMA node, in bytes. Memory includes the huge pages in its total, but cannot give them."""

    total_bytes: int
    reserved_bytes: int
    allocatable_bytes: int


Supply = dict[int, dict[str, Amount]]
"""The amounts by NUMA node and resource."""


def supply(machine: Machine, reserved: Mapping[int, Mapping[str, int]]) -> Supply:
    """Return the amounts of each node."""
    found: Supply = {}
    for node, memory in machine.numa_nodes.items():
        totals = {huge_pages_name(size): size * pages for size, pages in memory.huge_pages.items()}
        kept = reserved.get(node, {})
        amounts = {name: _amount(total, kept.get(name, 0), 0) for name, total in totals.items()}
        amounts[MEMORY] = _amount(memory.memory_bytes, kept.get(MEMORY, 0), sum(totals.values()))
        found[node] = dict(sorted(amounts.items()))
    return found


def _amount(total_bytes: int, reserved_bytes: int, elsewhere_bytes: int) -> Amount:
    return Amount(total_bytes, reserved_bytes, max(total_bytes - reserved_bytes - elsewhere_bytes, 0))


def reserved_memory(given: Iterable[MemoryReservation], machine: Machine, node_reserved: Mapping[str, int]) -> Reserved:
    """Return the reserved bytes of each node. ``node_reserved``: the amounts that the node as a whole reserves, which
    those of the nodes must add up to. Raises ValueError with upstream's text."""
    found: Reserved = {}
    for one in given:
        if one.numa_node not in machine.numa_nodes:
            raise ValueError(
                f"the reserved memory configuration references a NUMA node {one.numa_node} that does not exist on this "
                "machine"
            )
        amounts = found.setdefault(one.numa_node, {})
        for name, text in one.limits.items():
            amounts[name] = amounts.get(name, 0) + quantity.whole(text)
    sums: dict[str, int] = {}
    for amounts in found.values():
        for name, amount in amounts.items():
            sums[name] = sums.get(name, 0) + amount
    for name in sorted(sums.keys() | {name for name in node_reserved if name.startswith((MEMORY, "hugepages-"))}):
        if (total := sums.get(name, 0)) != (wanted := node_reserved.get(name, 0)):
            raise ValueError(
                f'the total amount "{_shown(total)}" of type "{name}" is not equal to the value "{_shown(wanted)}" '
                "determined by Node Allocatable feature"
            )
    return found


def check_reserved(reserved: Mapping[int, Mapping[str, int]]) -> None:
    """Raise ValueError if no memory is reserved, which the static policy demands."""
    if not any(amounts.get(MEMORY) for amounts in reserved.values()):
        raise ValueError("[memorymanager] you should specify the system reserved memory")


def _shown(size_bytes: int) -> str:
    return quantity.canonical(f"{size_bytes // 1024}Ki") if size_bytes and not size_bytes % 1024 else str(size_bytes)
