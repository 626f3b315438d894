"""The choice of free CPUs that keeps as much of the machine whole as it can: upstream's default.

Whole NUMA nodes or sockets first, then whole cores, then single threads. On each level the parts with the fewest free
CPUs come first, so that what is broken already is used up before something whole is broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.cpus.layout import Level, in_order, outer_groups, split
from trikubelet.core.cpus.options import CpuOption

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from trikubelet.core.cpus.layout import Layout
    from trikubelet.core.cpus.options import CpuOptions


def packed(shown: Layout, free: AbstractSet[int], count: int, options: CpuOptions = frozenset()) -> frozenset[int]:
    """Return ``count`` of the free CPUs, of which there must be enough."""
    choice = _Choice(shown, free, count)
    for level in shown.outer:
        choice.take_whole(level)
    if CpuOption.PREFER_UNCORE in options:
        choice.take_whole(Level.UNCORE)
        choice.take_part_of_one_uncore()
    if CpuOption.ACROSS_CORES in options:
        choice.take(_cores_in_turn(shown, choice.free))
    choice.take_whole(Level.CORE)
    choice.take(_threads(shown, choice.free))
    return frozenset(choice.taken)


class _Choice:
    """The CPUs taken so far, and those still free; lives for one call of ``packed``."""

    def __init__(self, shown: Layout, free: AbstractSet[int], count: int) -> None:
        self._shown = shown
        self._count = count
        self.free = set(free)
        self.taken: set[int] = set()

    def _missing(self) -> int:
        return self._count - len(self.taken)

    def take(self, cpus: Iterable[int]) -> None:
        """Take CPUs one after the other, until there are enough."""
        for cpu in cpus:
            if not self._missing():
                return
            self.taken.add(cpu)
            self.free.discard(cpu)

    def take_whole(self, level: Level) -> None:
        """Take the parts of a level that are wholly free and not larger than the rest of the need."""
        for part in in_order(self._shown, self.free, level):
            members = self._shown.members[level][part]
            if len(members) <= self._missing() and members <= self.free:
                self.take(members)

    def take_part_of_one_uncore(self) -> None:
        """Take all that is missing from one last-level cache, if one has a fitting part: as many cores as needed, those
        with the lowest ids."""
        for part in in_order(self._shown, self.free, Level.UNCORE):
            if not (missing := self._missing()):
                return
            by_core = split(self._shown, self._shown.members[Level.UNCORE][part] & self.free, Level.CORE)
            cores = sorted(by_core)[: -(-missing // self._shown.threads_per_core)]
            fitting = sorted(cpu for _, cpus in cores for cpu in cpus)
            if missing % 2 and self._shown.threads_per_core > 1 and len(fitting) > missing:
                fitting.pop()
            if len(fitting) == missing:
                self.take(fitting)


def _threads(shown: Layout, free: AbstractSet[int]) -> list[int]:
    return [cpu for core in in_order(shown, free, Level.CORE) for cpu in sorted(shown.members[Level.CORE][core] & free)]


def _cores_in_turn(shown: Layout, free: AbstractSet[int]) -> Iterator[int]:
    """Yield a thread of each core of the first outer group, then the next thread of each; then the other groups."""
    for group in outer_groups(shown, free):
        cores = [cpus for _, cpus in split(shown, group, Level.CORE)]
        for turn in range(max(map(len, cores))):
            yield from (cpus[turn] for cpus in cores if turn < len(cpus))
