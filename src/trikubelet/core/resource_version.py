"""Which of two versions of one object is newer.

Resource versions are decimal numbers that grow with every write, and since v1.35 the API says that they may be compared
as such.
"""

from __future__ import annotations


def is_older(version: str, than: str) -> bool:
    """Whether ``version`` was there before the other. Of two that are not both numbers it is unknown: False."""
    return version.isdecimal() and than.isdecimal() and _rank(version) < _rank(than)


def may_be_newer(version: str, than: str) -> bool:
    """Whether what has ``version`` may say more than what has the other: it is another, and not an older one."""
    return version != than and not is_older(version, than)


def _rank(version: str) -> tuple[int, str]:
    """Orders numbers of any length, which Python's int does not read."""
    digits = version.lstrip("0")
    return len(digits), digits
