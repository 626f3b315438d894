"""Encodes a large outgoing reply: gRPC's prefix and the pieces of one message, split into DATA frames.

h2 takes about 30 µs per frame and needs the message in one piece; a list of 36 MB has 2,200 frames. ``Wire.send_bulk``
gets them from here in batches, and obeys flow control. The frames are as long as those of Go's servers, even if the
client would accept longer ones, so that measurements with our server hold for others.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

FRAME_BYTES: Final = 16_384
_DATA: Final = b"\x00\x00"
"""A frame's type and its flags."""


class BulkMessage:
    """Owns the unsent rest of one message. ``left``: its bytes."""

    def __init__(self, stream_id: int, pieces: Sequence[bytes]) -> None:
        length = sum(map(len, pieces))
        self.stream_id = stream_id
        self.left = length + 5
        self._rest = deque(memoryview(piece) for piece in (b"\x00" + length.to_bytes(4, "big"), *pieces))
        self._ending = _DATA + stream_id.to_bytes(4, "big")
        self._full = self._header(FRAME_BYTES)

    def take(self, size: int) -> bytes:
        """Return frames with the next ``size`` bytes of the message; at least that many must be left."""
        parts: list[bytes | memoryview] = []
        self.left -= size
        while size >= FRAME_BYTES:
            parts.append(self._full)
            self._cut(FRAME_BYTES, parts)
            size -= FRAME_BYTES
        if size:
            parts.append(self._header(size))
            self._cut(size, parts)
        return b"".join(parts)

    def _header(self, size: int) -> bytes:
        return size.to_bytes(3, "big") + self._ending

    def _cut(self, size: int, parts: list[bytes | memoryview]) -> None:
        while size:
            piece = self._rest.popleft()
            if len(piece) > size:
                self._rest.appendleft(piece[size:])
                piece = piece[:size]
            parts.append(piece)
            size -= len(piece)
