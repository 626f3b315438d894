"""A table of fields: what works, proved by which test since which version; what does not, and what is said of it.

An entry speaks for its field and for all below it that has no entry of its own. Paths are the API's names below the
spec (or the configuration), with ``[]`` for each of a list.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class State(Enum):
    """What becomes of a field."""

    WORKS = "works"
    LIMITED = "works with limits"
    REPORTED = "reported as unsupported"
    REFUSED = "refused"
    ELSEWHERE = "not the node's"


@dataclass(frozen=True, slots=True)
class Works:
    """Fields that do what their user means. ``proof`` is the test that shows it, live or simulated, as
    ``tests/live/test_x.py::test_y``; ``limit`` says where that ends, for all ``paths`` alike. The test speaks of each
    field by its name, or by the words of ``by``: of ``beside`` ones it does not, and shows their like."""

    proof: str
    paths: tuple[str, ...]
    limit: str = ""
    since: str = "0.1.0"
    by: tuple[str, ...] = ()
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """What is reported to whoever uses the field ``path``; ``when`` says which values count (of a map: which keys), and
    ``within`` in which records. A path that works too works with this limit."""

    path: str
    why: str
    when: Callable[[Any], bool] = bool
    within: Callable[[Any], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class FieldSupport:
    """What a table says of one field. ``why`` is empty where nothing is left to say; ``shown``, which says since when
    and by which test, is None where the field does not work."""

    state: State
    why: tuple[str, ...] = ()
    shown: Works | None = None


@dataclass(frozen=True)
class Table:
    """Everything known of the fields of one kind. ``same`` names lists whose items are of the same kind as another's:
    what holds for the other's fields holds for theirs. ``limits`` are those of fields, and of all below them, that have
    a test elsewhere."""

    works: tuple[Works, ...]
    rows: tuple[Row, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)

    def support_of(self, path: str) -> FieldSupport | None:
        """What becomes of a field, or None where neither it nor what it stands in has an entry."""
        found = next((self._entries[name] for name in self._names(path) if name in self._entries), None)
        more = tuple(dict.fromkeys(self.limits[name] for name in self._names(path) if name in self.limits))
        if found is None or found.shown is None or not more:
            return found
        return replace(found, state=State.LIMITED, why=(*found.why, *more))

    @property
    def paths(self) -> frozenset[str]:
        """Every field that something is said of in its own name."""
        return frozenset(self._entries) | frozenset(self.limits)

    def _names(self, path: str) -> Iterator[str]:
        """The names a field may be listed under, the nearest first: what is said of its own list counts before what is
        said of another's."""
        first, dot, rest = path.partition(".")
        for name in dict.fromkeys((path, self.same.get(first, first) + dot + rest)):
            while name:
                yield name
                name = name.rpartition(".")[0].removesuffix("[]")  # noqa: PLW2901 - that is how one goes up

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
