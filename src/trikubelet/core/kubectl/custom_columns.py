"""A table with user-defined columns: ``-o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image``.

Headings, cells and error texts are kubectl's: several values share a cell, separated by commas, and a missing value is
``<none>``. Pure: plain data in, text out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from trikubelet.core.jsonpath import parse_relaxed
from trikubelet.core.kubectl.words import NONE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.core.jsonpath import Path


class CustomColumn(msgspec.Struct, frozen=True):
    """A heading, and the path of the values below it."""

    heading: str
    path: Path


def parse_columns(text: str) -> tuple[CustomColumn, ...]:
    """Return the columns of a specification. Raises ValueError."""
    if not text:
        raise ValueError("custom-columns format specified but no custom columns given")
    return tuple(map(_column, _parts(text)))


def custom_cells(columns: Iterable[CustomColumn], data: Any) -> tuple[str, ...]:
    """Return the cells of one object, given as plain data. Raises OutOfBounds."""
    return tuple(",".join(map(_text, column.path.of(data))) or NONE for column in columns)


def _column(part: str) -> CustomColumn:
    heading, colon, path = part.partition(":")
    if not colon:
        raise ValueError(f"unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>")
    return CustomColumn(heading, parse_relaxed(path))


def _parts(text: str) -> list[str]:
    """Split at commas between columns; commas in brackets, as in a filter or in ``['a','b']``, belong to a path."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _text(value: Any) -> str:
    """Return a value like Go prints it, as kubectl does: lists and objects by their members, without quotes."""
    match value:
        case str():
            return value
        case dict():
            return f"map[{' '.join(f'{name}:{_text(member)}' for name, member in sorted(value.items()))}]"
        case list() | tuple():
            return f"[{' '.join(map(_text, value))}]"
        case None:
            return "<nil>"
        case _:
            return json.dumps(value)
