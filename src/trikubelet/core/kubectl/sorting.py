"""Sorts objects by a field (``--sort-by``), by kubectl's rules.

Objects without the field come first. Numbers are compared as numbers, quantities (``64Mi``, ``500m``) by their amounts,
and other texts in their natural order, in which ``web-2`` comes before ``web-10``. Pure: plain data in, an order out.
"""

from __future__ import annotations

import re
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trikubelet.core.jsonpath import OutOfBounds
from trikubelet.model import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trikubelet.core.jsonpath import Path

T = TypeVar("T")

_CHUNK: Final = re.compile(r"[0-9]+|[^0-9]+")


def in_order_of(path: Path, things: Iterable[T], plain: Callable[[T], Any]) -> list[T]:
    """Return the objects sorted by the value at ``path``; ``plain`` converts one to plain data. The sort is stable.
    Raises ValueError if no object has the field, or if its values cannot be compared."""
    valued = [(_value(path, plain(thing)), thing) for thing in things]
    known = [value for value, _ in valued if value is not None]
    if valued and not known:
        raise ValueError("couldn't find any field with this path in the list of objects")
    key = _key(known)
    sortable = [one for one in valued if one[0] is not None]
    sortable.sort(key=lambda one: key(one[0]))
    return [thing for value, thing in valued if value is None] + [thing for _, thing in sortable]


def _value(path: Path, data: Any) -> Any:
    """Return the first value at the path; None if there is none."""
    try:
        return next(iter(path.of(data)), None)
    except OutOfBounds:
        return None


def _key(values: Sequence[Any]) -> Callable[[Any], Any]:
    """Return the sort key for values of this kind. Raises ValueError."""
    if all(isinstance(value, int | float) for value in values):
        return lambda value: value
    if not all(isinstance(value, str) for value in values):
        found = next(value for value in values if not isinstance(value, str))
        raise ValueError(f"unsortable type: {type(found).__name__}")
    try:
        amounts = {value: quantity.parse(value) for value in values}
    except ValueError:
        return cmp_to_key(_natural)
    return amounts.__getitem__


def _natural(one: str, other: str) -> int:
    """Compare two texts; negative if ``one`` comes first. Consecutive digits are a number."""
    for left, right in zip(_CHUNK.findall(one), _CHUNK.findall(other), strict=False):
        if left == right:
            continue
        if left.isdecimal() and right.isdecimal() and (order := _as_number(left, right)):
            return order
        return -1 if left < right else 1
    return len(one) - len(other)


def _as_number(left: str, right: str) -> int:
    """Compare two numbers of any length, which may exceed an integer; 0 for equal ones."""
    left, right = left.lstrip("0"), right.lstrip("0")
    return len(left) - len(right) or (left > right) - (left < right)
