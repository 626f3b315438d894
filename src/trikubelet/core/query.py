"""Words of a request's query, as what they stand for: both servers of the node ask here, and so do its log queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

COUNT_MAX: Final = 10**12 - 1
"""Enough for every byte and second there is, and far from where numbers overflow. What clients write for "all", up to
the largest whole number of the API, counts as this."""
_API_DIGITS: Final = len(str(2**63 - 1))


class Unprocessable(ValueError):
    """What is written can be read, and is not to be had: a number out of its bounds, or an option beside another
    (upstream: 422, and 400 for what cannot be read)."""


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean, in the spellings Go reads; a name without a value is one that is true. Raises ValueError."""
    word = query.get(name, "false").lower()
    if word in ("", "1", "t", "true"):
        return True
    if word in ("0", "f", "false"):
        return False
    raise ValueError(f"{name}={word}: write true or false")


def whole(query: Mapping[str, str], name: str, least: int = 0, most: int = COUNT_MAX) -> int | None:
    """A number within bounds, both included, or None where there is none. Raises ValueError, Unprocessable for a number
    out of them."""
    word = query.get(name, "")
    if not word:
        return None
    bounds = f"a whole number, {least} or more" if most == COUNT_MAX else f"a whole number from {least} to {most}"
    said = f"{name}={word}: write {bounds}"
    digits = word.removeprefix("-")
    # Python refuses to read thousands of digits, with words of its own.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _API_DIGITS and -(2**63) <= int(word) < 2**63):
        raise ValueError(said)
    number = min(int(word), COUNT_MAX) if most == COUNT_MAX else int(word)
    if not least <= number <= most:
        raise Unprocessable(said)
    return number
