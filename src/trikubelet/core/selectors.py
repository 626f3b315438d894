"""Label and field selectors in the notation of command lines and the API.

    app=web,tier!=db                         labels: is, is not (an object without the label is not)
    app in (web, api)                        one of; ``notin`` the opposite
    app,!old                                 has the label, has it not
    status.phase!=Failed,spec.nodeName=n1    fields; ``==`` is ``=``

All terms must hold. In a field's value a comma, an equals sign or a backslash is escaped by a backslash; each kind of
object defines its own fields. The grammars are upstream's (apimachinery, labels.Parse and fields.ParseSelector) without
``<`` and ``>`` of labels, which have no use here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    Selector = Callable[[Mapping[str, str]], bool]

_LABEL_TERM: Final = re.compile(
    r"""\s*(?: (?P<key>[\w./-]+) \s* (?P<compare>==|!=|=) \s* (?P<value>[\w.-]*)
         | (?P<of>[\w./-]+) \s+ (?P<set>in|notin) \s* \( (?P<values>[^()]*) \)
         | (?P<absent>!\s*)? (?P<name>[\w./-]+) )\s*(?:,|$)""",
    re.VERBOSE,
)


def parse_selector(text: str) -> Selector:
    """Return the test that a selector describes; an empty one matches everything. Raises ValueError naming the term."""
    tests = []
    place = 0
    while place < len(text):
        found = _LABEL_TERM.match(text, place)
        if found is None:
            raise ValueError(f"{text[place:]!r} is no label selector: write KEY=VALUE, KEY!=VALUE, KEY in (A,B) or KEY")
        tests.append(_test(found))
        place = found.end()
    return lambda labels: all(test(labels) for test in tests)


def _test(found: re.Match[str]) -> Selector:
    if key := found["key"]:
        wanted, value = found["compare"] != "!=", found["value"]
        return lambda labels: (labels.get(key) == value) is wanted
    if of := found["of"]:
        wanted, values = found["set"] == "in", {one.strip() for one in found["values"].split(",")}
        return lambda labels: (labels.get(of) in values) is wanted
    name, wanted = found["name"], not found["absent"]
    return lambda labels: (name in labels) is wanted


_FIELD_TERM: Final = re.compile(r"(?P<path>[\w.]+)(?P<compare>!=|==|=)(?P<value>(?:\\[\\,=]|[^\\,=])*)(?:,|$)")


class FieldTerm(NamedTuple):
    """The value that a field must have, or, if not ``wanted``, must not have."""

    path: str
    value: str
    wanted: bool


def parse_field_selector(text: str, known: Container[str]) -> tuple[FieldTerm, ...]:
    """Return the terms of a selector; none for an empty one. ``known``: the fields that it may name. Raises ValueError
    naming the term."""
    terms = []
    place = 0
    while place < len(text):
        found = _FIELD_TERM.match(text, place)
        if found is None:
            raise ValueError(f"{text[place:]!r} is no field selector: write FIELD=VALUE or FIELD!=VALUE")
        if found["path"] not in known:
            raise ValueError(f"field label not supported: {found['path']}")
        value = re.sub(r"\\(.)", r"\1", found["value"])
        terms.append(FieldTerm(found["path"], value, found["compare"] != "!="))
        place = found.end()
    return tuple(terms)
