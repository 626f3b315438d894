"""A problem: one objection of a validation to one field, before its line in a file is known.

The validations are generators of problems; ``load`` turns each into a fault. The sentences begin like Kubernetes' own
field errors (Required value, Invalid value, …), so that users and tools recognise them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trikubelet.core.document.shown import shown
from trikubelet.model.faults import nearest
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable


NOT_FOUND = "Not found"


class Problem(Frozen):
    """One problem. ``path``: the field's; ``text``: the fault; ``remedy``: what to do, if the text does not imply
    it."""

    path: str
    text: str
    remedy: str = ""


Problems = Iterator[Problem]


def required(path: str, detail: str = "") -> Problem:
    """Return the problem of a missing value."""
    return Problem(path, f"Required value: {detail}" if detail else "Required value")


def invalid(path: str, value: object, detail: str, remedy: str = "") -> Problem:
    """Return the problem of an invalid value, with what it must be."""
    return Problem(path, f"Invalid value: {shown(value)}: {detail}", remedy)


def too_long(path: str, chars_max: int, unit: str = "characters") -> Problem:
    """Return the problem of a text of more than ``chars_max``."""
    return Problem(path, f"Too long: must be no more than {chars_max} {unit}")


def too_many(path: str, items_max: int) -> Problem:
    """Return the problem of a list of more than ``items_max``."""
    return Problem(path, f"Too many: must not have more than {items_max}")


def unsupported(path: str, value: str, supported: Iterable[str]) -> Problem:
    """Return the problem of a value that is none of the supported ones."""
    words = tuple(supported)
    return Problem(
        path, f"Unsupported value: {shown(value)}: must be one of {', '.join(map(shown, words))}", nearest(value, words)
    )


def duplicate(path: str, value: object) -> Problem:
    """Return the problem of the second of two values that must differ."""
    return Problem(path, f"Duplicate value: {shown(value)}")


def not_found(path: str, name: str, known: Iterable[str], detail: str, remedy: str) -> Problem:
    """Return the problem of a name that must exist elsewhere; ``remedy`` if no known name is similar."""
    return Problem(path, f"{NOT_FOUND}: {shown(name)}: {detail}", nearest(name, known) or remedy)


def forbidden(path: str, detail: str, remedy: str = "") -> Problem:
    """Return the problem of a value that must not be here at all."""
    return Problem(path, f"Forbidden: {detail}", remedy)


def named(path: str, value: str, problem: str) -> Problems:
    """Yield the problem that a rule of ``model.names`` found in a required value."""
    if not value:
        yield required(path)
    elif problem:
        yield invalid(path, value, problem)


def one_of(path: str, value: str, supported: Iterable[str]) -> Problems:
    """Yield a problem if a value is set and is none of these."""
    words = tuple(supported)
    if value and value not in words:
        yield unsupported(path, value, words)


def not_negative(path: str, value: int | None) -> Problems:
    """Yield a problem if a number is set and below 0."""
    if value is not None and value < 0:
        yield invalid(path, value, "must be 0 or more")


def positive(path: str, value: int | None) -> Problems:
    """Yield a problem if a number is set and below 1."""
    if value is not None and value < 1:
        yield invalid(path, value, "must be 1 or more")
