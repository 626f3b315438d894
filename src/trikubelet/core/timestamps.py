"""Times in the API's notation: RFC 3339 in UTC, whole seconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

SECOND_NS = 1_000_000_000
_SECOND = timedelta(seconds=1)
_EPOCH = datetime.fromtimestamp(0, UTC)
_RFC3339 = re.compile(
    r"(?P<whole>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d+))?(?P<offset>Z|[+-]\d\d:\d\d)", re.ASCII
)


def rfc3339(ns: int) -> str:
    """Return nanoseconds since the epoch as ``2026-11-21T07:01:02Z``; "" for 0, which means "has not happened"."""
    if ns == 0:
        return ""
    return f"{_seconds(ns // SECOND_NS)}Z"


def rfc3339_nano(ns: int) -> str:
    """Return them with nanoseconds and without trailing zeros, like container logs and annotations."""
    whole, fraction = divmod(ns, SECOND_NS)
    text = _seconds(whole)
    digits = f"{fraction:09d}".rstrip("0")
    return f"{text}.{digits}Z" if digits else f"{text}Z"


def rfc3339_micro(ns: int) -> str:
    """Return them with microseconds, always six digits, like leases and events (the API's MicroTime). Raises ValueError
    beyond the year 9999, which RFC 3339 cannot express."""
    whole, fraction = divmod(ns, SECOND_NS)
    return f"{_seconds(whole)}.{fraction // 1000:06d}Z"


def _seconds(whole: int) -> str:
    # strftime reads the local time zone from disk each time, although it is not needed.
    return datetime.fromtimestamp(whole, UTC).isoformat()[:19]


def parse_rfc3339(text: str) -> int:
    """Return nanoseconds since the epoch, exactly. Raises ValueError on anything but RFC 3339: a time without an
    offset, for example, differs from machine to machine. Digits beyond nanoseconds are dropped."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is not a time of RFC 3339, such as "2026-11-21T07:01:02Z"')
    offset = "+00:00" if match["offset"] == "Z" else match["offset"]
    whole = datetime.fromisoformat(match["whole"] + offset)
    return (whole - _EPOCH) // _SECOND * SECOND_NS + int((match["fraction"] or "").ljust(9, "0")[:9])
