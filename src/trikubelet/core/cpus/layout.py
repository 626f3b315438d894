"""CPUs grouped by their core, last-level cache, NUMA node and socket, in the order in which they are taken."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from trikubelet.model.machine import Machine


class Level(Enum):
    """The kinds of parts of a machine that CPUs belong to."""

    NUMA_NODE = "numa_node"
    SOCKET = "socket"
    UNCORE = "uncore"
    CORE = "core"


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of a machine. ``part_of``: the part of each CPU; ``members``: the CPUs of each part."""

    part_of: Mapping[Level, Mapping[int, int]]
    members: Mapping[Level, Mapping[int, frozenset[int]]]

    @property
    def cpus(self) -> frozenset[int]:
        """All CPUs."""
        return frozenset(self.part_of[Level.CORE])

    @property
    def outer(self) -> tuple[Level, Level]:
        """The two largest levels, the larger one first. A NUMA node has one socket or several, or a socket has several
        NUMA nodes."""
        sockets, nodes = self.members[Level.SOCKET], self.members[Level.NUMA_NODE]
        return (Level.NUMA_NODE, Level.SOCKET) if len(sockets) >= len(nodes) else (Level.SOCKET, Level.NUMA_NODE)

    @property
    def threads_per_core(self) -> int:
        """The number of threads of the largest core. Hybrid processors have smaller ones, too."""
        return max(map(len, self.members[Level.CORE].values()))

    def within(self, level: Level, ids: Iterable[int]) -> frozenset[int]:
        """Return the CPUs of these parts. Parts without CPUs, such as NUMA nodes of memory, add none."""
        parts = self.members[level]
        return frozenset().union(*(parts.get(part, frozenset()) for part in ids))

    def spanned(self, level: Level, cpus: Iterable[int]) -> frozenset[int]:
        """Return the parts that these CPUs belong to."""
        part_of = self.part_of[level]
        return frozenset(part_of[cpu] for cpu in cpus)

    def whole(self, level: Level, cpus: AbstractSet[int]) -> frozenset[int]:
        """Return those of the CPUs whose part is in ``cpus`` with all its CPUs."""
        parts = (self.members[level][part] for part in self.spanned(level, cpus))
        return frozenset().union(*(part for part in parts if part <= cpus))


_KINDS: Final = tuple(Level)


def layout(machine: Machine) -> Layout:
    """Return the parts of the machine."""
    part_of = {level: {cpu: getattr(place, level.value) for cpu, place in machine.cpus.items()} for level in _KINDS}
    members = {}
    for level, parts in part_of.items():
        found: defaultdict[int, set[int]] = defaultdict(set)
        for cpu, part in parts.items():
            found[part].add(cpu)
        members[level] = {part: frozenset(cpus) for part, cpus in sorted(found.items())}
    return Layout(part_of, members)


def split(shown: Layout, cpus: Iterable[int], level: Level) -> list[tuple[int, list[int]]]:
    """Return the CPUs by their part of the level, with the parts that have the fewest of them first, then by id."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for cpu in sorted(cpus):
        found[shown.part_of[level][cpu]].append(cpu)
    return sorted(found.items(), key=lambda item: (len(item[1]), item[0]))


def outer_groups(shown: Layout, free: AbstractSet[int]) -> list[list[int]]:
    """Return the free CPUs by the two largest levels: parts that are nearly taken come first, and keep together."""
    first, second = shown.outer
    return [inner for _, outer in split(shown, free, first) for _, inner in split(shown, outer, second)]


def in_order(shown: Layout, free: AbstractSet[int], level: Level) -> list[int]:
    """Return the parts of a level that have free CPUs, in the order in which they are taken."""
    first, second = shown.outer
    if level is first:
        groups = [sorted(free)]
    elif level is second:
        groups = [cpus for _, cpus in split(shown, free, first)]
    else:
        groups = outer_groups(shown, free)
    return list(dict.fromkeys(part for group in groups for part, _ in split(shown, group, level)))
