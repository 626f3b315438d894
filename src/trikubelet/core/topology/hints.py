"""Hints: sets of NUMA nodes that a resource of a container or pod can come from.

A set is a mask: bit n stands for NUMA node n. Some machines have nodes with ids above 63, so masks may have any number
of bits.
"""

from __future__ import annotations

from itertools import chain, combinations, islice
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MASKS_MAX: Final = 16_384
"""The most masks that are tried for a hint: all of those of 14 nodes. On machines with more nodes the smallest ones; of
16 nodes at least all masks of the preferred size."""


class Hint(NamedTuple):
    """NUMA nodes that can give a resource. ``mask``: None stands for any nodes. ``is_preferred``: no smaller set could
    ever give it."""

    mask: int | None
    is_preferred: bool


Hints = tuple[Hint, ...]
NO_PREFERENCE: Final[Hints] = (Hint(None, is_preferred=True),)
"""The answer for a resource that comes from no NUMA node."""
IMPOSSIBLE: Final[Hints] = (Hint(None, is_preferred=False),)
"""The answer for a resource that no set of NUMA nodes can give."""


def mask_of(nodes: Iterable[int]) -> int:
    """Return the mask of these nodes."""
    mask = 0
    for node in nodes:
        mask |= 1 << node
    return mask


def nodes_of(mask: int) -> frozenset[int]:
    """Return the nodes of a mask."""
    return frozenset(node for node in range(mask.bit_length()) if mask >> node & 1)


def node_sets(nodes: Iterable[int], fewest: int = 1) -> Iterator[tuple[int, ...]]:
    """Yield the sets of at least ``fewest`` of these nodes, small ones first, at most MASKS_MAX."""
    ids = sorted(nodes)
    sizes = range(fewest, len(ids) + 1)
    return islice(chain.from_iterable(combinations(ids, size) for size in sizes), MASKS_MAX)
