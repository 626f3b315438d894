"""gRPC messages in a stream of bytes: five bytes of prefix (a compression flag, a length), then the message.

The assembler is fed DATA as it comes, one byte or a megabyte at a time. It keeps the pieces of a large message as they
are and joins them once, so that 100 MB cost one copy, and it refuses a message by its announced length, before a byte
of it is kept.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_PREFIX: Final = struct.Struct(">BI")


class Refusal(NamedTuple):
    """Why a message is rejected: it is longer than the limit, or compressed without agreement."""

    text: str
    too_large: bool


def frame(message: bytes) -> bytes:
    """Return ``message`` with its prefix."""
    return _PREFIX.pack(0, len(message)) + message


class Assembler:
    """Owns the message that is arriving. ``refusal`` is set by a rejected message, and stays."""

    def __init__(self, message_bytes_max: int) -> None:
        self.refusal: Refusal | None = None
        self._message_bytes_max = message_bytes_max
        self._prefix = b""
        self._length: int | None = None  # of the message arriving; None while its prefix is incomplete
        self._pieces: list[bytes] = []
        self._missing = 0

    @property
    def between_messages(self) -> bool:
        """True if the stream could end here without cutting a message."""
        return self._length is None and not self._prefix

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that ``data`` completes, in order; none after a refusal."""
        complete: list[bytes] = []
        position = 0
        while position < len(data) and self.refusal is None:
            if self._length is None:
                position = self._take_prefix(data, position)
                if self._length is None:
                    break
            end = min(position + self._missing, len(data))
            if end > position:
                # A whole frame of a large message is kept as it is, not copied.
                self._pieces.append(data if end - position == len(data) else data[position:end])
                self._missing -= end - position
                position = end
            if self._missing == 0:
                complete.append(self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces))
                self._pieces, self._length = [], None
        return complete

    def _take_prefix(self, data: bytes, position: int) -> int:
        end = position + _PREFIX.size - len(self._prefix)
        self._prefix += data[position:end]
        if len(self._prefix) == _PREFIX.size:
            flag, length = _PREFIX.unpack(self._prefix)
            limit = self._message_bytes_max
            if flag:
                self.refusal = Refusal("the message is compressed, which was not agreed on", too_large=False)
            elif length > limit:
                self.refusal = Refusal(f"a message of {length} bytes is larger than max {limit}", too_large=True)
            else:
                self._prefix, self._length, self._missing = b"", length, length
        return end
