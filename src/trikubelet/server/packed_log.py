"""A compressed part of a log, unpacked as it is read: no more at a time than is asked for, out of no more than so much.

    header ─► deflated text ─► CRC and length ─► zeros ─► end
      ▲                                            │
      └──────── another member behind it ◄─────────┘

Who has a hand in the directory of logs can leave a file there with no text in gigabytes: a name without an end, or
empty members by the million. Python's own reader looks for the next byte through all of it, in one call, and whoever
gave up waiting has left a thread there. Here one ``read`` takes little more than ``IDLE_BYTES_MAX`` of the file,
whatever is in it; so what a thread does in one step is bounded, and nobody has to tell it that its reader has gone.
"""

from __future__ import annotations

import zlib
from gzip import BadGzipFile
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from typing import Self

INPUT_BYTES: Final = 32 * 1024
"""That are read from the file at a time; of a log's text they hold two blocks or more."""
IDLE_BYTES_MAX: Final = 4 * INPUT_BYTES
"""A file with no text in so many bytes is broken. What gzip's writers put in between is a header's extra field, 64 KiB
at most. Zeros at the end may be more, on a tape; that is complained of then, and costs no text."""

_MAGIC: Final = b"\x1f\x8b\x08"  # the last of it is the method: deflate, and there is no other
_FIXED_BYTES: Final = 10
_HAS_CRC, _HAS_EXTRA, _HAS_NAME, _HAS_COMMENT = 2, 4, 8, 16
_TRAILER_BYTES: Final = 8


class PackedLog:
    """Owns an open compressed file, and how far it was unpacked: it can be read forwards only."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._input = b""  # read from the file, and not unpacked yet
        self._unpacker: zlib._Decompress | None = None  # of the member that is being read
        self._crc = self._length = 0
        self._has_members = False

    def read(self, size: int) -> bytes:
        """The next text, at most ``size`` (1 or more) bytes of it and often less; nothing at the end. Raises OSError,
        and among them BadGzipFile for a file that is not whole, once all text before that was given out."""
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
        """The compressed file's."""
        return self._file.fileno()

    def close(self) -> None:
        """Close the file. Idempotent. May raise OSError."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _unpacked(self, size: int) -> bytes | None:
        """Text; empty where something else was gone over; None where more of the file is needed."""
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
        """Go over what stands behind a member, if it is there already. Raises BadGzipFile."""
        trailer, rest = self._input[:_TRAILER_BYTES], self._input[_TRAILER_BYTES:]
        if len(trailer) < _TRAILER_BYTES:
            return False
        if trailer != self._crc.to_bytes(4, "little") + (self._length % 2**32).to_bytes(4, "little"):
            raise BadGzipFile("its checksum or its length is another")
        self._input, self._unpacker = rest, None
        return True

    def _end(self) -> bytes:
        if self._unpacker is not None or self._input:
            raise BadGzipFile("it is cut off")
        return b""


def _header_bytes(data: bytes) -> int:
    """How long the header is that ``data`` begins with; 0 where not all of it is there. Raises BadGzipFile."""
    if not _MAGIC.startswith(data[: len(_MAGIC)]):
        raise BadGzipFile(f"no gzip: {data[: len(_MAGIC)]!r}")
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
