"""The CRI's log lines: ``<time> <stream> <F or P>[:tags] <text>``. P marks a part of a longer line."""

from __future__ import annotations

from typing import NamedTuple


class LogLine(NamedTuple):
    """One record. ``text`` ends with a newline when the line is whole."""

    time: str
    stream: str
    text: bytes


def parse_line(raw: bytes) -> LogLine | None:
    """One record, or None when it is not one (a torn write, a foreign file)."""
    parts = raw.rstrip(b"\n").split(b" ", 3)
    if len(parts) < 3 or parts[1] not in (b"stdout", b"stderr"):
        return None
    text = parts[3] if len(parts) == 4 else b""
    whole = not parts[2].startswith(b"P")
    return LogLine(parts[0].decode(errors="replace"), parts[1].decode(), text + b"\n" if whole else text)


def plain_lines(raw: bytes) -> list[bytes]:
    """The texts of a piece of a log; a first line that was cut is left out."""
    parsed = [parse_line(line) for line in raw.splitlines()]
    return [line.text for line in parsed if line is not None]
