"""Unpacks a compressed part of a log while it is read, with bounds on the output and the input of each read.

    header ─► deflated text ─► CRC and length ─► zeros ─► end
      ▲                                            │
      └──────── another member behind it ◄─────────┘

A container that may write to the directory of logs can leave a file there with gigabytes of no text: a name without an
end, or millions of empty members. Python's own reader searches all of it for the next byte, in one call, and a caller
that times out leaves a thread there. Here one ``read`` takes little more than ``IDLE_BYTES_MAX`` of the file, whatever
it contains. So each step of a thread is bounded, and the thread needs no signal that its reader has gone.
"""

from __future__ import annotations

import zlib
from gzip import BadGzipFile
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from typing import Self

INPUT_BYTES: Final = 32 * 1024
"""Bytes that are read from the file at a time; they hold two blocks or more of a log's text."""
IDLE_BYTES_MAX: Final = 4 * INPUT_BYTES
"""A file with that many bytes without text is broken. Gzip's writers put at most a header's extra field of 64 KiB in
between. A tape may have more zeros at the end; that causes an error then, but loses no text."""

_MAGIC: Final = b"\x1f\x8b\x08"  # the last byte is the method: deflate is the only one
_FIXED_BYTES: Final = 10
_HAS_CRC, _HAS_EXTRA, _HAS_NAME, _HAS_COMMENT = 2, 4, 8, 16
_TRAILER_BYTES: Final = 8


class PackedLog:
    """Owns an open compressed file and its position: it can only be read forwards."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._input = b""  # read from the file, and not unpacked yet
        self._unpacker: zlib._Decompress | None = None  # of the current member
        self._crc = self._length = 0
        self._has_members = False

    def read(self, size: int) -> bytes:
        """Return the next text, at most ``size`` (1 or more) bytes and often less; empty at the end. Raises OSError, or
        BadGzipFile for a damaged file, after all text before the damage was returned."""
        idle = 0
        while idle <= IDLE_BYTES_MAX:
            text = self._unpacked(size)
            if text:
                return text
            if text is None:
                more = self._file.read(INPUT_BYTES)
                if not more:
                    return self._end()
                idle += len(more)
                self._input += more
        raise BadGzipFile(f"there is no text in {IDLE_BYTES_MAX} bytes of it")

    def fileno(self) -> int:
        """Return the compressed file's descriptor."""
        return self._file.fileno()

    def close(self) -> None:
        """Close the file. Idempotent. May raise OSError."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _unpacked(self, size: int) -> bytes | None:
        """Return text; empty if other data was skipped; None if more of the file is needed."""
        if self._unpacker is None:
            if self._has_members:
                self._input = self._input.lstrip(b"\0")
            header = _header_bytes(self._input)
            if not header:
                return None
            self._input = self._input[header:]
            self._unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
            self._crc = self._length = 0
            self._has_members = True
        if self._unpacker.eof:
            return b"" if self._ends_well() else None
        return self._inflated(self._unpacker, size)

    def _inflated(self, unpacker: zlib._Decompress, size: int) -> bytes | None:
        try:
            text = unpacker.decompress(self._input, size)  # also without input: there may be text in its window
        except zlib.error as error:
            raise BadGzipFile(str(error)) from error
        self._input = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
        self._crc = zlib.crc32(text, self._crc)
        self._length += len(text)
        return text if text or unpacker.eof else None

    def _ends_well(self) -> bool:
        """Skip the trailer of a member, if it was read already. Raises BadGzipFile."""
        trailer, rest = self._input[:_TRAILER_BYTES], self._input[_TRAILER_BYTES:]
        if len(trailer) < _TRAILER_BYTES:
            return False
        if trailer != self._crc.to_bytes(4, "little") + (self._length % 2**32).to_bytes(4, "little"):
            raise BadGzipFile("its checksum or length is wrong")
        self._input, self._unpacker = rest, None
        return True

    def _end(self) -> bytes:
        if self._unpacker is not None or self._input:
            raise BadGzipFile("it is truncated")
        return b""


def _header_bytes(data: bytes) -> int:
    """Return the length of the header at the beginning of ``data``; 0 if it is incomplete. Raises BadGzipFile."""
    if not _MAGIC.startswith(data[: len(_MAGIC)]):
        raise BadGzipFile(f"not a gzip file: {data[: len(_MAGIC)]!r}")
    if len(data) < _FIXED_BYTES:
        return 0
    flags, end = data[3], _FIXED_BYTES
    if flags & _HAS_EXTRA:
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for text in (_HAS_NAME, _HAS_COMMENT):
        if flags & text:
            end = data.find(b"\0", end) + 1
            if not end:
                return 0
    if flags & _HAS_CRC:
        end += 2
    return end if end <= len(data) else 0
