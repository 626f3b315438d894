"""Decodes values of a request's query; both servers of the node and its log queries use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

COUNT_MAX: Final = 10**12 - 1
"""More than any count of bytes or seconds, and far from overflows. Clients write values up to the largest integer of
the API for "all"; these count as this one."""
_API_DIGITS: Final = len(str(2**63 - 1))


class Unprocessable(ValueError):
    """The value can be decoded but not served: a number out of its bounds, or an option that excludes another
    (upstream: 422; and 400 for undecodable values)."""


def flag(query: Mapping[str, str], name: str) -> bool:
    """Return a boolean, in the spellings Go reads; a name without a value is true. Raises ValueError."""
    word = query.get(name, "false").lower()
    if word in ("", "1", "t", "true"):
        return True
    if word in ("0", "f", "false"):
        return False
    raise ValueError(f"{name}={word}: write true or false")


def whole(query: Mapping[str, str], name: str, least: int = 0, most: int = COUNT_MAX) -> int | None:
    """Return a number within bounds, both included; None if it is absent. Raises ValueError, and Unprocessable for a
    number out of bounds."""
    word = query.get(name, "")
    if not word:
        return None
    bounds = f"a whole number, {least} or more" if most == COUNT_MAX else f"a whole number from {least} to {most}"
    said = f"{name}={word}: write {bounds}"
    digits = word.removeprefix("-")
    # Python refuses to read thousands of digits, with an error text of its own.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _API_DIGITS and -(2**63) <= int(word) < 2**63):
        raise ValueError(said)
    number = min(int(word), COUNT_MAX) if most == COUNT_MAX else int(word)
    if not least <= number <= most:
        raise Unprocessable(said)
    return number
