"""The choice of free CPUs that spreads them evenly over NUMA nodes (distribute-cpus-across-numa).

For each number of nodes, from the fewest that can hold the CPUs, each combination of nodes is scored: the same number
of CPUs is taken from every node of it, the remainder group by group. The combination after which the free CPUs of all
nodes differ least wins. Upstream scores by the standard deviation; its mean is the same for all, so the sum of squares
gives the same order, in whole numbers.
"""

from __future__ import annotations

from itertools import combinations, repeat
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from trikubelet.core.cpus.layout import Level, in_order
from trikubelet.core.cpus.options import CpuOption
from trikubelet.core.cpus.packed import packed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from trikubelet.core.cpus.layout import Layout
    from trikubelet.core.cpus.options import CpuOptions


class _Shares(NamedTuple):
    """The number of CPUs to take from each node: at least ``even``, and the remainder in groups. ``score``: if they are
    in one socket, where that matters (0), and the unevenness afterwards. The least wins."""

    score: tuple[int, int]
    even: int
    group: int
    of_nodes: Mapping[int, int]


class _Supply(NamedTuple):
    """Per NUMA node: ``free`` CPUs, and how many of these form whole groups (``usable``)."""

    group: int
    free: Mapping[int, int]
    usable: Mapping[int, int]


def distributed(
    shown: Layout, free: AbstractSet[int], count: int, options: CpuOptions, *, nodes_wanted: int = 0
) -> frozenset[int]:
    """Return ``count`` of the free CPUs, of which there must be enough. ``nodes_wanted``: the number of NUMA nodes that
    the topology manager chose. CPUs that cannot be spread are chosen by ``packed``."""
    group = shown.threads_per_core if CpuOption.FULL_CORES in options else 1
    if count % group:
        return packed(shown, free, count, options)
    nodes = in_order(shown, free, Level.NUMA_NODE)
    supply = _supply(shown, free, group)
    for size in _sizes(shown, count // group, group, nodes, nodes_wanted):
        if shares := _best(shown, nodes, supply, count, size, options):
            return _taken(shown, free, shares, options)
    return packed(shown, free, count, options)


def _supply(shown: Layout, free: AbstractSet[int], group: int) -> _Supply:
    """Return the supply of each node. Groups of more than one CPU are whole cores: a free thread of a broken core is
    not usable."""
    usable = shown.whole(Level.CORE, free) if group > 1 else free
    members = shown.members[Level.NUMA_NODE]
    return _Supply(
        group,
        {node: len(cpus & free) for node, cpus in members.items()},
        {node: len(cpus & usable) // group * group for node, cpus in members.items()},
    )


def _sizes(shown: Layout, groups: int, group: int, nodes: list[int], nodes_wanted: int) -> range:
    """Return the numbers of nodes to try, from the fewest that could hold the groups if all were free."""
    per_node = ceil(ceil(len(shown.cpus) / group) / len(shown.members[Level.NUMA_NODE]))
    fewest = max(ceil(groups / per_node), 1)
    most = min(groups, len(nodes))
    return range(nodes_wanted if fewest < nodes_wanted <= most else fewest, most + 1)


def _best(
    shown: Layout, nodes: list[int], supply: _Supply, count: int, size: int, options: CpuOptions
) -> _Shares | None:
    best: _Shares | None = None
    for chosen in combinations(nodes, size):
        aligned = CpuOption.ALIGN_BY_SOCKET in options and _is_in_one_socket(shown, chosen)
        if sum(supply.usable[node] for node in chosen) < count:
            continue
        share = count // size // supply.group * supply.group
        least = min(supply.usable[node] for node in chosen)
        if aligned:
            share = min(share, least)
        if share > least:
            continue
        rank = 0 if aligned else 1
        for shares in _with_remainder(supply, chosen, share, count - share * size, rank, best):
            best = shares
    return best


def _is_in_one_socket(shown: Layout, nodes: Iterable[int]) -> bool:
    return len(shown.spanned(Level.SOCKET, shown.within(Level.NUMA_NODE, nodes))) == 1


def _with_remainder(
    supply: _Supply, chosen: tuple[int, ...], even: int, remainder: int, rank: int, best: _Shares | None
) -> Iterator[_Shares]:
    """Yield shares that include the remainder, each better than the one before and than ``best``. Subsets of the nodes
    get the remainder in turn, larger subsets first."""
    shares = dict.fromkeys(chosen, even)
    if best is not None and (rank, _least_unevenness(supply, shares, remainder)) >= best.score:
        return
    nodes = [node for node in chosen if supply.usable[node] - even >= supply.group]
    for size in range(len(nodes), 0, -1) if remainder else (0,):
        for subset in combinations(nodes, size):
            if (found := _in_turn(supply, shares, remainder, subset)) is None:
                continue
            made = _Shares((rank, _unevenness(supply, found)), even, supply.group, found)
            if best is None or made.score < best.score:
                best = made
                yield made


def _in_turn(
    supply: _Supply, shares: Mapping[int, int], remainder: int, subset: tuple[int, ...]
) -> Mapping[int, int] | None:
    if sum(supply.usable[node] - shares[node] for node in subset) < remainder:
        return None
    found = dict(shares)
    while remainder > 0:
        for node in subset:
            if remainder > 0 and supply.usable[node] - found[node] >= supply.group:
                found[node] += supply.group
                remainder -= supply.group
    return found


def _unevenness(supply: _Supply, shares: Mapping[int, int]) -> int:
    return sum((free - shares.get(node, 0)) ** 2 for node, free in supply.free.items())


def _least_unevenness(supply: _Supply, shares: Mapping[int, int], remainder: int) -> int:
    """Return a bound that no way to give the remainder goes below: each group from the node with the most free CPUs.
    It spares the subsets of most combinations, of which sixteen nodes have millions."""
    found = dict(shares)
    for _ in range(remainder // supply.group):
        node = max(found, key=lambda one: supply.free[one] - found[one])
        found[node] += supply.group
    return _unevenness(supply, found)


def _taken(shown: Layout, free: AbstractSet[int], shares: _Shares, options: CpuOptions) -> frozenset[int]:
    """Return the CPUs of the shares. As in upstream, the remainder is chosen after the even share, group by group."""
    found: set[int] = set()
    for node, share in shares.of_nodes.items():
        here = shown.members[Level.NUMA_NODE][node] & free
        for count in (shares.even, *repeat(shares.group, (share - shares.even) // shares.group)):
            found |= packed(shown, here - found, count, options)
    return frozenset(found)
