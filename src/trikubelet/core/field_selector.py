"""Field selectors as clients of the API write them: which fields an object must have.

    status.phase!=Failed,spec.nodeName=n1        all terms must hold; ``==`` is ``=``

A comma, an equals sign or a backslash that belongs to a value has a backslash before it. Upstream's grammar
(apimachinery, fields.ParseSelector); which fields there are, each kind of object says for itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container

_TERM: Final = re.compile(r"(?P<path>[\w.]+)(?P<compare>!=|==|=)(?P<value>(?:\\[\\,=]|[^\\,=])*)(?:,|$)")


class FieldTerm(NamedTuple):
    """What one field must be, or, where that is not ``wanted``, what it must not be."""

    path: str
    value: str
    wanted: bool


def parse_field_selector(text: str, known: Container[str]) -> tuple[FieldTerm, ...]:
    """The terms of a selector; none for an empty one. ``known``: the fields that may be named. Raises ValueError naming
    the term."""
    terms = []
    place = 0
    while place < len(text):
        found = _TERM.match(text, place)
        if found is None:
            raise ValueError(f"{text[place:]!r} is no field selector: write FIELD=VALUE or FIELD!=VALUE")
        if found["path"] not in known:
            raise ValueError(f"field label not supported: {found['path']}")
        value = re.sub(r"\\(.)", r"\1", found["value"])
        terms.append(FieldTerm(found["path"], value, found["compare"] != "!="))
        place = found.end()
    return tuple(terms)
