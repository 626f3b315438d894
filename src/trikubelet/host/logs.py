"""The CRI's log lines: ``<time> <stream> <F or P>[:tags] <text>``. P marks a part of a longer line."""

from __future__ import annotations

from typing import NamedTuple


class LogLine(NamedTuple):
    """One record. ``text`` ends with a newline when the line is whole."""

    time: str
    stream: str
    text: bytes


def parse_line(raw: bytes) -> LogLine | None:
    """Return one record, or None for data that is not one (a torn write, a foreign file)."""
    parts = raw.rstrip(b"\n").split(b" ", 3)
    if len(parts) < 3 or parts[1] not in (b"stdout", b"stderr"):
        return None
    text = parts[3] if len(parts) == 4 else b""
    whole = not parts[2].startswith(b"P")
    return LogLine(parts[0].decode(errors="replace"), parts[1].decode(), text + b"\n" if whole else text)


RECORD_BYTES_MAX = 16 * 1024 + 64
"""The longest record that runtimes write by default, with its prefix."""


def end_of_log(raw: bytes, lines_max: int, bytes_max: int, *, is_cut: bool) -> bytes:
    """Return the texts of the last lines of a piece of a log. ``is_cut``: its first record may have begun before. That
    one is left out, unless it is longer than the whole piece: then its end is the last that was written."""
    first, *others = raw.split(b"\n")  # and at nothing else: a program may write a carriage return
    parsed = [parse_line(line) for line in (first, *others)]
    texts = [line.text for line in parsed if line is not None]
    if is_cut and parsed[0] is None and len(first) >= RECORD_BYTES_MAX:
        texts.insert(0, first + b"\n")
    return b"".join(texts[-lines_max:])[-bytes_max:]
