"""A table of fields: those that work, with their test and version; and those that do not, with the report to users.

An entry covers its field and all below it that have no entry of their own. Paths are the API's names below the spec (or
the configuration), with ``[]`` for each item of a list.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import field

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class State(Enum):
    """The support of a field."""

    WORKS = "works"
    LIMITED = "works with limits"
    REPORTED = "reported as unsupported"
    REFUSED = "refused"
    ELSEWHERE = "not the node's"


class Works(Frozen):
    """Fields that work. ``proof``: the test that shows it, live or simulated, as ``tests/live/test_x.py::test_y``;
    ``limit``: the limit of the support, for all ``paths`` alike. The test contains each field's name, or the words of
    ``by``; it does not contain those of ``beside``, but shows similar ones."""

    proof: str
    paths: tuple[str, ...]
    limit: str = ""
    since: str = "0.1.0"
    by: tuple[str, ...] = ()
    beside: bool = False


class Row(Frozen):
    """A report to users of the field ``path``. ``when``: the values that it concerns (for a map: the keys); ``within``:
    the records. A path that also works has this limit."""

    path: str
    why: str
    when: Callable[[Any], bool] = bool
    within: Callable[[Any], bool] = lambda _: True


class FieldSupport(Frozen):
    """A table's entry for one field. ``why`` is empty if there is nothing to report; ``shown``, which has the version
    and the test, is None if the field does not work."""

    state: State
    why: tuple[str, ...] = ()
    shown: Works | None = None


class Table(Frozen, dict=True):
    """Owns the entries for the fields of one kind. ``same``: lists whose items are of the same kind as another's, so
    that the other's entries hold for them. ``limits``: those of fields, and of all below them, that have a test
    elsewhere."""

    works: tuple[Works, ...]
    rows: tuple[Row, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)

    def support_of(self, path: str) -> FieldSupport | None:
        """Return the support of a field; None if neither it nor an enclosing field has an entry."""
        found = next((self._entries[name] for name in self._names(path) if name in self._entries), None)
        more = tuple(dict.fromkeys(self.limits[name] for name in self._names(path) if name in self.limits))
        if found is None or found.shown is None or not more:
            return found
        return replace(found, state=State.LIMITED, why=(*found.why, *more))

    @property
    def paths(self) -> frozenset[str]:
        """Every field that has an entry of its own."""
        return frozenset(self._entries) | frozenset(self.limits)

    def _names(self, path: str) -> Iterator[str]:
        """Yield the names under which a field may be listed, the nearest first: an entry of its own list counts before
        one of another's."""
        first, dot, rest = path.partition(".")
        for name in dict.fromkeys((path, self.same.get(first, first) + dot + rest)):
            while name:
                yield name
                name = name.rpartition(".")[0].removesuffix("[]")  # noqa: PLW2901 - the way up to the enclosing field

    @cached_property
    def _entries(self) -> dict[str, FieldSupport]:
        reasons: dict[str, tuple[str, ...]] = {}
        for row in self.rows:
            reasons[row.path] = (*reasons.get(row.path, ()), row.why)
        found = {path: FieldSupport(State.REPORTED, why) for path, why in reasons.items()}
        for one in self.works:
            limit = (one.limit,) if one.limit else ()
            for path in one.paths:
                why = (*limit, *reasons.get(path, ()))
                found[path] = FieldSupport(State.LIMITED if why else State.WORKS, why, one)
        found |= {path: FieldSupport(State.REFUSED, (why,)) for path, why in self.refused.items()}
        return found | {path: FieldSupport(State.ELSEWHERE, (why,)) for path, why in self.elsewhere.items()}
