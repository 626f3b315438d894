"""Label selectors as people write them on a command line: which labels an object must have.

    app=web,tier!=db        is, is not (an object without the label is not)
    app in (web, api)       one of; ``notin`` the opposite
    app,!old                has the label, has it not

All terms must hold. Upstream's grammar (apimachinery, labels.Parse) but for ``<`` and ``>``, which nobody uses here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Selector = Callable[[Mapping[str, str]], bool]

_TERM: Final = re.compile(
    r"""\s*(?: (?P<key>[\w./-]+) \s* (?P<compare>==|!=|=) \s* (?P<value>[\w.-]*)
         | (?P<of>[\w./-]+) \s+ (?P<set>in|notin) \s* \( (?P<values>[^()]*) \)
         | (?P<absent>!\s*)? (?P<name>[\w./-]+) )\s*(?:,|$)""",
    re.VERBOSE,
)


def parse_selector(text: str) -> Selector:
    """The test that a selector describes; an empty one holds for everything. Raises ValueError naming the term."""
    tests = []
    place = 0
    while place < len(text):
        found = _TERM.match(text, place)
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
