"""``$(VAR)`` in commands, arguments, environment values and paths.

A reference to a name that is known becomes its value; one that is not stays as it is written. ``$$`` is one dollar sign
and keeps what follows from being a reference (upstream: third_party/forked/golang/expansion).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_DOLLAR_OR_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace every reference in ``text``."""
    return _DOLLAR_OR_REFERENCE.sub(lambda found: "$" if found[1] is None else values.get(found[1], found[0]), text)


def without_value(text: str, values: Mapping[str, str]) -> list[str]:
    """The names that ``text`` refers to and that are not known, or empty; sorted."""
    names = {found[1] for found in _DOLLAR_OR_REFERENCE.finditer(text) if found[1] is not None}
    return sorted(name for name in names if not values.get(name))
