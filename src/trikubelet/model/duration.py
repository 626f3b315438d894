"""Durations as Go writes them: ``1m30s``, ``500ms``, ``2h45m0s``.

Kubernetes configuration and messages use this form everywhere. Seconds are floats here; the text is exact to the
nanosecond up to some hundred days, where a float ends.
"""

from __future__ import annotations

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_NANO = 1_000_000_000
_SECONDS_MAX = (2**63 - 1) / _NANO
"""Some 292 years; Go counts nanoseconds in 64 bits."""


def parse_duration(text: str) -> float:
    """Seconds. Raises ValueError, saying what a duration looks like."""
    body = text.lstrip("+-")
    if body == "0":
        return 0.0
    parts = _PART.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body or len(text) - len(body) > 1:
        raise ValueError(f"{text!r} is not a duration: write numbers with units such as 300ms, 20s or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds > _SECONDS_MAX:
        raise ValueError(f"{text!r} is longer than any duration can be (292 years)")
    return -seconds if text.startswith("-") else seconds


def parse_span(text: str) -> float:
    """Parse a duration that cannot be negative. Raises ValueError for a negative one, too."""
    seconds = parse_duration(text)
    if seconds < 0:
        raise ValueError(f"{text!r} is negative: write how long it may last, such as 30s")
    return seconds


def format_duration(seconds: float) -> str:
    """The way Go prints it: ``0s``, ``1.5ms``, ``10s``, ``1m20s``, ``5m0s``, ``1h0m0s``."""
    nanos = round(abs(seconds) * _NANO)
    sign = "-" if seconds < 0 and nanos else ""
    if nanos == 0:
        return "0s"
    for unit, size in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000)):
        if nanos < size * 1000:
            return f"{sign}{_trimmed(nanos, size)}{unit}"
    minutes, rest = divmod(nanos, 60 * _NANO)
    hours, minutes = divmod(minutes, 60)
    text = f"{_trimmed(rest, _NANO)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _trimmed(nanos: int, size: int) -> str:
    whole, fraction = divmod(nanos, size)
    digits = f"{fraction:0{len(str(size)) - 1}d}".rstrip("0") if fraction else ""
    return f"{whole}.{digits}" if digits else str(whole)
