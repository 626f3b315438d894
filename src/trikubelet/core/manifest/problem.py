"""A problem: one thing a validation has against one field, before it is known in which line of which file it stands.

The validations are generators of problems; ``load`` turns each into a fault. The sentences begin as Kubernetes' own
field errors begin (Required value, Invalid value, …), so that people and tools recognise them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.document.shown import shown
from trikubelet.model.faults import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable


NOT_FOUND = "Not found"


@dataclass(frozen=True, slots=True)
class Problem:
    """``path`` is the field's, ``text`` what is wrong, ``remedy`` what to do where the text does not say it."""

    path: str
    text: str
    remedy: str = ""


Problems = Iterator[Problem]


def required(path: str, detail: str = "") -> Problem:
    """Something must be there and is not."""
    return Problem(path, f"Required value: {detail}" if detail else "Required value")


def invalid(path: str, value: object, detail: str, remedy: str = "") -> Problem:
    """A value that cannot be, and what it must be."""
    return Problem(path, f"Invalid value: {shown(value)}: {detail}", remedy)


def too_long(path: str, chars_max: int, unit: str = "characters") -> Problem:
    """A text of more than ``chars_max``."""
    return Problem(path, f"Too long: must be no more than {chars_max} {unit}")


def too_many(path: str, items_max: int) -> Problem:
    """A list of more than ``items_max``."""
    return Problem(path, f"Too many: must not have more than {items_max}")


def unsupported(path: str, value: str, supported: Iterable[str]) -> Problem:
    """A value that is none of the possible ones."""
    words = tuple(supported)
    return Problem(
        path, f"Unsupported value: {shown(value)}: must be one of {', '.join(map(shown, words))}", nearest(value, words)
    )


def duplicate(path: str, value: object) -> Problem:
    """The second of two that must differ."""
    return Problem(path, f"Duplicate value: {shown(value)}")


def not_found(path: str, name: str, known: Iterable[str], detail: str, remedy: str) -> Problem:
    """A name that should stand somewhere else too; ``remedy`` where none of the known ones is near."""
    return Problem(path, f"{NOT_FOUND}: {shown(name)}: {detail}", nearest(name, known) or remedy)


def forbidden(path: str, detail: str, remedy: str = "") -> Problem:
    """Something that may not be here at all."""
    return Problem(path, f"Forbidden: {detail}", remedy)


def named(path: str, value: str, problem: str) -> Problems:
    """The verdict of a rule of ``model.names`` on a value that must be there."""
    if not value:
        yield required(path)
    elif problem:
        yield invalid(path, value, problem)


def one_of(path: str, value: str, supported: Iterable[str]) -> Problems:
    """A value, where there is one, must be one of these."""
    words = tuple(supported)
    if value and value not in words:
        yield unsupported(path, value, words)


def not_negative(path: str, value: int | None) -> Problems:
    """A number, where there is one, must be 0 or more."""
    if value is not None and value < 0:
        yield invalid(path, value, "must be 0 or more")


def positive(path: str, value: int | None) -> Problems:
    """A number, where there is one, must be 1 or more."""
    if value is not None and value < 1:
        yield invalid(path, value, "must be 1 or more")
