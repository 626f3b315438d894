"""The choice among free devices: close to the wanted NUMA nodes first, then by the plugin's advice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from trikubelet.model.devices import Device


@dataclass(frozen=True, slots=True)
class Classes:
    """Free devices by their place: on a wanted NUMA node, on others only, or on none that is known. Ids in order."""

    aligned: tuple[str, ...]
    unaligned: tuple[str, ...]
    without_topology: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """The question for the plugin (GetPreferredAllocation): ``count`` of ``available``, with all of ``must``."""

    available: tuple[str, ...]
    must: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Open:
    """A choice that can be made now. ``taken``: chosen already; ``rest``: the devices to fill up from, in order;
    ``question``: None where advice would change nothing."""

    count: int
    taken: tuple[str, ...]
    rest: tuple[str, ...]
    question: Question | None


def classes(free: Iterable[str], devices: Mapping[str, Device], wanted_nodes: AbstractSet[int]) -> Classes:
    """Return the free devices by their place. Without wanted nodes no place counts."""
    aligned, unaligned, without = [], [], []
    for name in sorted(free):
        nodes = devices[name].numa_nodes
        if not wanted_nodes or not nodes:
            without.append(name)
        elif nodes & wanted_nodes:
            aligned.append(name)
        else:
            unaligned.append(name)
    return Classes(tuple(aligned), tuple(unaligned), tuple(without))


def opened(count: int, taken: Collection[str], free: Classes) -> Open:
    """Return the choice of ``count`` devices, ``taken`` with them, of free ones that suffice. Where the aligned ones
    suffice it is made among those, else all of them are taken."""
    missing = count - len(taken)
    if missing < len(free.aligned):
        return _open(count, tuple(sorted(taken)), free.aligned, free.aligned)
    everything = (*free.aligned, *free.unaligned, *free.without_topology)
    rest = (*free.unaligned, *free.without_topology)
    return _open(count, tuple(sorted({*taken, *free.aligned})), rest, everything)


def _open(count: int, taken: tuple[str, ...], rest: tuple[str, ...], available: tuple[str, ...]) -> Open:
    if len(taken) >= count:
        return Open(count, taken, rest, None)
    return Open(count, taken, rest, Question(tuple(sorted({*available, *taken})), taken, count))


def chosen(choice: Open, advice: Iterable[str] = ()) -> frozenset[str]:
    """Return the ids chosen. ``advice``: the plugin's answer, in which ids that are not free do not count."""
    found = dict.fromkeys(choice.taken)
    advised = (name for name in advice if name in frozenset(choice.rest))
    for name in (*advised, *choice.rest):
        if len(found) >= choice.count:
            break
        found.setdefault(name)
    return frozenset(found)
