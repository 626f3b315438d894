"""Formats a value for a fault: close to its notation in the document, and short."""

from __future__ import annotations

import msgspec

SHOWN_CHARS_MAX = 60

_STRUCTURES: dict[type, str] = {list: "a list", tuple: "a list", dict: "an object"}
_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1


def shown(value: object) -> str:
    """Return the value as JSON, cut if it is long; ``a list`` and ``an object`` for those."""
    if type(value) in _STRUCTURES:
        return _STRUCTURES[type(value)]
    if isinstance(value, int) and not _INT64_MIN <= value <= _UINT64_MAX:
        value = float(value)
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"
