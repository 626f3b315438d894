"""Times as the API writes them: RFC 3339 in UTC, whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime

SECOND_NS = 1_000_000_000


def rfc3339(ns: int) -> str:
    """Nanoseconds since the epoch as ``2026-11-21T07:01:02Z``; empty for 0, which means "has not happened"."""
    if ns == 0:
        return ""
    return datetime.fromtimestamp(ns // SECOND_NS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_nano(ns: int) -> str:
    """The same with nanoseconds and without trailing zeros, as container logs and annotations have it."""
    whole, fraction = divmod(ns, SECOND_NS)
    text = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{fraction:09d}".rstrip("0")
    return f"{text}.{digits}Z" if digits else f"{text}Z"


def parse_rfc3339(text: str) -> int:
    """Nanoseconds since the epoch. Raises ValueError on anything but RFC 3339."""
    head, dot, fraction = text.removesuffix("Z").partition(".")
    if not text.endswith("Z") or (dot and not fraction.isdigit()):
        moment = datetime.fromisoformat(text)
        return int(moment.timestamp() * SECOND_NS)
    whole = datetime.fromisoformat(head).replace(tzinfo=UTC)
    return int(whole.timestamp()) * SECOND_NS + int((fraction + "0" * 9)[:9] if dot else 0)
