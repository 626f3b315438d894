"""Lines made of the records of a container's log.

The runtime cuts long lines: every part but the last is marked P, and parts of stdout and stderr may alternate. A line
is one stream's text up to its newline; its place is that of its last part. The joiner holds at most one unfinished line
for each stream, and at most ``LINE_BYTES_MAX`` of it; a longer line comes out in pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.host.logs import LogLine

LINE_BYTES_MAX = 1024 * 1024

Place = tuple[int, int]
"""The place of a record: the number of its file, and the byte where it begins."""


class Piece(Frozen):
    """A line, or a piece of one that is too long to hold. ``time``: when its first part was written; ``at``: the place
    of its last part. ``starts``: this is the first piece of the line. A line that was never finished has no newline."""

    time: str
    stream: str
    text: bytes
    at: Place
    starts: bool = True


class _Open(msgspec.Struct):
    """An unfinished line; ``has_parts``: some of it arrived after the previous piece."""

    time: str
    starts: bool = True
    has_parts: bool = False
    at: Place = (0, 0)
    # Not a list of parts: a container that can write its log may write any number of empty parts.
    text: bytearray = field(default_factory=bytearray)

    def piece(self, stream: str) -> Piece:
        return Piece(self.time, stream, bytes(self.text), self.at, self.starts)


class Joiner:
    """Owns the unfinished line of each stream."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def feed(self, record: LogLine, at: Place) -> Piece | None:
        """Take the next record. Return the piece that it completes, or None."""
        held = self._open.get(record.stream)
        if held is None:
            if record.text.endswith(b"\n"):
                return Piece(record.time, record.stream, record.text, at)  # nearly every line is one record
            held = self._open[record.stream] = _Open(record.time)
        held.text += record.text
        held.has_parts, held.at = True, at
        if record.text.endswith(b"\n"):
            del self._open[record.stream]
            return held.piece(record.stream)
        if len(held.text) < LINE_BYTES_MAX:
            return None
        self._open[record.stream] = _Open(held.time, starts=False)
        return held.piece(record.stream)

    def rest(self) -> Iterator[Piece]:
        """Yield the unfinished lines, in the order of their last parts. Nothing is held afterwards."""
        left = sorted(((held.at, stream) for stream, held in self._open.items() if held.has_parts))
        yield from [self._open[stream].piece(stream) for _, stream in left]
        self._open.clear()
