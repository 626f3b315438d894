"""The merge of hints: the NUMA nodes that all resources of a container or pod can come from together.

By definition, every combination of one hint of each resource is tried: the intersection of its masks is the result,
preferred if all its hints are preferred and name the same nodes. The number of combinations grows exponentially with
the number of resources (255 to the power of four on eight nodes), so the same result is found in two steps:

1. *Preferred*: the masks that every resource prefers. If there are some, the best one wins.
2. *Not preferred*: the masks that are the intersection of some combination. Their number is bounded by the sets of
   nodes. They are found for all resources at once: for each set of nodes, the combinations are counted whose masks all
   contain it, which is a product of sums; taking those of larger sets off again leaves the combinations that have
   exactly this intersection.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from operator import add, mul, sub
from typing import TYPE_CHECKING, Final

from trikubelet.core.topology.hints import Hint, mask_of, nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trikubelet.core.topology.hints import Hints
    from trikubelet.model.machine import NumaNode

NODES_MAX: Final = 12
"""The most NUMA nodes for which step 2 is done; it takes time and memory for each set of nodes. On larger machines,
hints without a common preferred mask are not aligned at all."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """The NUMA nodes of a machine. ``distances``: mean distances decide between equally many nodes if this is given
    (prefer-closest-numa-nodes)."""

    ids: tuple[int, ...]
    distances: Mapping[int, Mapping[int, int]] = field(default_factory=dict)

    @property
    def all(self) -> int:
        """The mask of all nodes."""
        return mask_of(self.ids)

    def rank(self, mask: int) -> tuple[float, int]:
        """Return the order among masks with equally many nodes: the mean distance over all pairs, each node paired with
        itself, too, then the number."""
        if not self.distances:
            return (0, mask)
        ids = nodes_of(mask)
        return (sum(self.distances[one].get(other, 0) for one in ids for other in ids) / len(ids) ** 2, mask)


def closest_first(numa_nodes: Mapping[int, NumaNode]) -> Nodes:
    """Return the nodes of a machine, of which the closest ones are preferred."""
    return Nodes(tuple(numa_nodes), {node: memory.distances for node, memory in numa_nodes.items()})


def merge(answers: Sequence[Hints], nodes: Nodes) -> Hint:
    """Return the best hint for all resources. ``answers``: the hints for each resource, of which none is empty."""
    if (agreed := preferred(answers, nodes)) is not None:
        return Hint(agreed, is_preferred=True)
    return Hint(best_mask(_reachable(answers, nodes), enough_nodes(answers), nodes), is_preferred=False)


def preferred(answers: Sequence[Hints], nodes: Nodes) -> int | None:
    """Return the best mask that every resource prefers; None if they agree on none. A preferred hint for any nodes
    agrees with each mask."""
    masks = [{hint.mask for hint in hints if hint.is_preferred} for hints in answers]
    candidates = {mask for found in masks for mask in found if mask}
    common = {mask for mask in candidates if all(mask in found or None in found for found in masks)}
    if all(None in found for found in masks):
        common.add(nodes.all)
    if not common:
        return None
    fewest = min(map(int.bit_count, common))
    return min((mask for mask in common if mask.bit_count() == fewest), key=nodes.rank)


def enough_nodes(answers: Sequence[Hints]) -> int:
    """Return the number of nodes that suffices for each resource alone: the largest of their narrowest masks."""
    return max((min(sizes) for hints in answers if (sizes := _sizes(hints))), default=0)


def best_mask(masks: Iterable[int], enough: int, nodes: Nodes) -> int:
    """Return the best of masks that are not preferred, all nodes if there are none. The best number of nodes is
    ``enough``, then the next smaller ones, then the next larger ones."""
    sizes: defaultdict[tuple[bool, int], list[int]] = defaultdict(list)
    for mask in masks:
        surplus = mask.bit_count() - enough
        sizes[surplus > 0, abs(surplus)].append(mask)
    return min(sizes[min(sizes)], key=nodes.rank) if sizes else nodes.all


def _sizes(hints: Hints) -> list[int]:
    return [hint.mask.bit_count() for hint in hints if hint.mask is not None]


def _reachable(answers: Sequence[Hints], nodes: Nodes) -> list[int]:
    """Return the masks, without the empty one, that are the intersection of one hint of each resource."""
    if len(nodes.ids) > NODES_MAX:
        return []
    bits = _places(nodes.ids)
    total = 1 << len(nodes.ids)
    counts = [1] * total
    for hints in answers:
        containing = [0] * total
        for mask in {nodes.all if hint.mask is None else hint.mask & nodes.all for hint in hints}:
            containing[_translated(mask, bits)] = 1
        counts = list(map(mul, counts, _pairwise(containing, add)))
    back = {place: node for node, place in bits.items()}
    return [_translated(mask, back) for mask, count in enumerate(_pairwise(counts, sub)) if mask and count]


def _pairwise(counts: list[int], combine: Callable[[int, int], int]) -> list[int]:
    """Return the count of each mask combined with that of the mask with one node more, node after node."""
    found = counts[:]
    bit = 1
    while bit < len(found):
        for start in range(0, len(found), 2 * bit):
            middle, end = start + bit, start + 2 * bit
            found[start:middle] = map(combine, found[start:middle], found[middle:end])
        bit *= 2
    return found


def _places(ids: Iterable[int]) -> Mapping[int, int]:
    """Return the bit of each node's place among all, for its own bit; nothing where they are the same. Some machines
    have gaps between the ids."""
    found = {1 << node: 1 << place for place, node in enumerate(sorted(ids))}
    return {} if all(node == place for node, place in found.items()) else found


def _translated(mask: int, bits: Mapping[int, int]) -> int:
    return sum(new for old, new in bits.items() if mask & old) if bits else mask
