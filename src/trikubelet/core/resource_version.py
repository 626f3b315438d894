"""Compares two versions of one object.

Resource versions are decimal numbers that grow with every write, and since v1.35 the API guarantees that they can be
compared as such.
"""

from __future__ import annotations


def is_older(version: str, than: str) -> bool:
    """True if ``version`` is older than the other. False if they are not both numbers, because then it is unknown."""
    return version.isdecimal() and than.isdecimal() and _rank(version) < _rank(than)


def may_be_newer(version: str, than: str) -> bool:
    """True if an object of ``version`` may be newer than one of the other: it differs, and is not known to be older."""
    return version != than and not is_older(version, than)


def _rank(version: str) -> tuple[int, str]:
    """Return a sort key for numbers of any length; Python's int rejects long ones."""
    digits = version.lstrip("0")
    return len(digits), digits
