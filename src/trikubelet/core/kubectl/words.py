"""kubectl's placeholders for missing values, and its ages.

An age has at most two units, and gets coarser as it grows:

0s … 119s   2m … 9m59s   10m … 179m   3h … 7h59m   8h … 47h   2d … 7d23h   8d … 729d   2y … 7y364d   8y …
"""

from __future__ import annotations

from typing import Final

from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339

NONE: Final = "<none>"
"""The value does not exist."""
UNKNOWN: Final = "<unknown>"
"""The value exists but is unknown."""
_INVALID: Final = "<invalid>"


def human_duration(seconds: int) -> str:
    """Return a length of time given in whole seconds. ``<invalid>`` if it is negative by more than a second."""
    if seconds < 0:
        return "0s" if seconds == -1 else _INVALID
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def since(time: str, now_ns: int) -> str:
    """Return the age of an event at ``time`` (RFC 3339); ``<unknown>`` if that is empty."""
    if not time:
        return UNKNOWN
    # Towards zero, so that an event half a second from now is not "in the future".
    return human_duration(int((now_ns - parse_rfc3339(time)) / SECOND_NS))
