"""What a document is once it was read: its value, and where each of its fields stood.

The readers (``yaml_text``, ``json_text``) fill it; ``core.structure`` and the validations ask it for lines. Places and
field paths: ``core.field_path``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trikubelet.core.field_path import path_of, place_of
from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.field_path import Place

DEPTH_MAX = 32
"""Nesting of a document; a pod with everything in it stays below 20. The place of every value is kept, and is as long
as that: a file has room for two million values, so it decides how much memory they can take."""

PATH_CHARS_MAX = 1000
"""Length of the keys on the way to a field, together. Every fault spells them out, and a file has room for a key of
megabytes with a hundred thousand faults in it; no API takes half as much."""
PATH_TOO_LONG = f"this key and those around it have more than {PATH_CHARS_MAX} characters"


_DUPLICATE_KEY = "the key is given twice"


def duplicate_key(source: str, place: Place, first: int, again: int) -> Fault:
    """The fault of a key that stands in line ``first`` and once more in line ``again``."""
    problem = f"{_DUPLICATE_KEY}, first in line {first}"
    return Fault(source, again, path_of(place), problem, "remove one of the two")


def is_duplicate_key(fault: Fault) -> bool:
    """True for a fault of ``duplicate_key``: the document has the last of the values."""
    return fault.problem.startswith(_DUPLICATE_KEY)


def is_path_too_long(place: Place) -> bool:
    """Whether the way to a field is longer than any may be."""
    return sum(map(len, place)) > PATH_CHARS_MAX


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its value, the text it came from (``source``), its number in it, counted from 0, ``lines``, the
    line (from 1) of every place in it, ``doubted``, the places of keys that were given twice: what stands there is only
    the last of the values, and ``unread``, those of values that cannot be: None stands there instead. ``written``: the
    text of values that stand for something else in YAML, such as ``yes``; ``at``: the place where this value is among
    those."""

    value: object
    source: str
    index: int
    lines: Mapping[Place, int] = field(default_factory=dict)
    doubted: frozenset[Place] = frozenset()
    unread: frozenset[Place] = frozenset()
    written: Mapping[Place, str] = field(default_factory=dict)
    at: Place = ()
    _doubted_items: frozenset[Place] = field(init=False, repr=False)
    _doubted_members: frozenset[Place] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # There may be as many as there are items of a list, and each of these asks.
        items = frozenset(place[:2] for place in self.doubted | self.unread)
        object.__setattr__(self, "_doubted_items", items)
        object.__setattr__(self, "_doubted_members", frozenset(place[:1] for place in items))

    def is_doubted(self, place: Place = ()) -> bool:
        """Whether a value that was given twice or cannot be is in this item of a list (``place``: two steps), or beside
        the list; or anywhere, without a place."""
        members, mine = self._doubted_members, place[:1]
        beside = len(members) > (mine in members) or mine in self._doubted_items
        return beside or (bool(place) and place in self._doubted_items)

    def written_at(self, path: str) -> str:
        """How its author wrote the value of a field; empty where that is what it is."""
        return self.written.get((*self.at, *place_of(path)), "")

    def line(self, path: str) -> int | None:
        """The line of a field path, or of the nearest thing around it that has one; None when there is none."""
        place = place_of(path)
        for length in range(len(place), -1, -1):
            if (line := self.lines.get(place[:length])) is not None:
                return line
        return None
