"""``$(VAR)`` in commands, arguments, environment values and paths.

A reference to a name that is known becomes its value; one that is not stays as it is written. ``$$`` is one dollar sign
and keeps what follows from being a reference (upstream: third_party/forked/golang/expansion).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace every reference in ``text``."""
    out: list[str] = []
    at = 0
    while at < len(text):
        dollar = text.find("$", at)
        if dollar < 0 or dollar + 1 == len(text):
            break
        out.append(text[at:dollar])
        following = text[dollar + 1]
        if following == "$":
            out.append("$")
            at = dollar + 2
            continue
        closing = text.find(")", dollar) if following == "(" else -1
        if closing < 0:
            out.append(text[dollar : dollar + 2])
            at = dollar + 2
            continue
        name = text[dollar + 2 : closing]
        out.append(values.get(name, f"$({name})"))
        at = closing + 1
    out.append(text[at:])
    return "".join(out)
