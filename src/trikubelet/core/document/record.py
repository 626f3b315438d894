"""A document that was read: its value, and the places of its fields.

The readers (``yaml_text``, ``json_text``) fill it; ``core.structure`` and the validations look up lines. Places and
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
"""The limit for the nesting of a document; a pod with all its fields stays below 20. The place of every value is kept,
as long as its nesting is deep. A file has room for two million values, so the limit bounds their memory."""

PATH_CHARS_MAX = 1000
"""The limit for the total length of the keys on the way to a field. Every fault spells them out, and a file has room
for a key of megabytes with a hundred thousand faults in it; no API needs half as much."""
PATH_TOO_LONG = f"this key and those around it have more than {PATH_CHARS_MAX} characters"


_DUPLICATE_KEY = "the key is given twice"


def duplicate_key(source: str, place: Place, first: int, again: int) -> Fault:
    """Return the fault of a key in line ``first`` that is repeated in line ``again``."""
    problem = f"{_DUPLICATE_KEY}, first in line {first}"
    return Fault(source, again, path_of(place), problem, "remove one of the two")


def is_duplicate_key(fault: Fault) -> bool:
    """True for a fault of ``duplicate_key``: the document has the last of the values."""
    return fault.problem.startswith(_DUPLICATE_KEY)


def is_path_too_long(place: Place) -> bool:
    """True if the path to a field exceeds ``PATH_CHARS_MAX``."""
    return sum(map(len, place)) > PATH_CHARS_MAX


@dataclass(frozen=True, slots=True)
class Document:
    """One document. ``source``: the name of its text; its index there, from 0; ``lines``: the line (from 1) of every
    place in it; ``doubted``: the places of duplicate keys, which have the last of the values; ``unread``: the places of
    unreadable values, which are None. ``written``: the text of values that YAML converts, such as ``yes``; ``at``: the
    place of this value in ``written``."""

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
        # This is computed once because every item of a list needs it, and both may be many.
        items = frozenset(place[:2] for place in self.doubted | self.unread)
        object.__setattr__(self, "_doubted_items", items)
        object.__setattr__(self, "_doubted_members", frozenset(place[:1] for place in items))

    def is_doubted(self, place: Place = ()) -> bool:
        """True if a duplicate or unreadable value is in this item of a list (``place``: two steps), or outside the
        list; without a place: anywhere."""
        members, mine = self._doubted_members, place[:1]
        beside = len(members) > (mine in members) or mine in self._doubted_items
        return beside or (bool(place) and place in self._doubted_items)

    def written_at(self, path: str) -> str:
        """Return the author's text for a field's value; "" if it equals the value."""
        return self.written.get((*self.at, *place_of(path)), "")

    def line(self, path: str) -> int | None:
        """Return the line of a field path, or of the nearest enclosing value that has one; None if there is none."""
        place = place_of(path)
        for length in range(len(place), -1, -1):
            if (line := self.lines.get(place[:length])) is not None:
                return line
        return None
