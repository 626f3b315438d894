"""One open file of a container's log, read forwards: blocks in a thread, and records of them on the event loop.

Making records is most of the work, and in threads it would take turns with the event loop all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.server.log_tail import BLOCK_BYTES
from trikubelet.server.packed_log import PackedLog

if TYPE_CHECKING:
    from trikubelet.server.log_files import LogFile
    from trikubelet.server.log_lines import Place

RECORD_BYTES_MAX = 1024 * 1024
"""A record is some 16 KiB; what is longer than this is no log, and is left out up to its newline."""
STEP_BLOCKS: Final = 16
"""So many are read, or gone over, in one step: with less the hand-over from thread to thread shows."""

Batch = list[tuple[bytes, "Place"]]


class Tape:
    """Holds how far one open file was read. ``at`` is where to begin, with the file's number for the places of its
    records; ``end`` is how far to read, None for as far as it goes: a container may write faster than its log is
    read."""

    def __init__(self, file: LogFile, at: Place, end: int | None = None) -> None:
        self.file = file
        self._number, self._offset = at
        self._left = None if end is None else max(0, end - self._offset)
        self._torn = b""
        self._dropping = False
        self._failure: OSError | None = None
        # What is compressed cannot be begun but at its beginning: it is gone over, a block at a time.
        self._ahead = 0
        if isinstance(file, PackedLog):
            self._ahead = self._offset
        else:
            file.seek(self._offset)

    def read(self) -> tuple[list[bytes], bool]:
        """In a thread: the next blocks, and whether there may be more. Raises OSError, once all before it was given
        out."""
        if self._failure is not None:
            raise self._failure
        blocks: list[bytes] = []
        try:
            for _ in range(STEP_BLOCKS):
                size = min(BLOCK_BYTES, self._ahead or BLOCK_BYTES)
                block = self.file.read(size if self._left is None else min(size, self._left))
                if self._ahead:
                    self._ahead -= len(block)
                elif block:
                    blocks.append(block)
                    if self._left is not None:
                        self._left -= len(block)
                if not block:
                    return blocks, False
        except OSError as error:
            self._failure = error
        return blocks, True

    def records(self, block: bytes) -> Batch:
        """The records that end in the next block."""
        *whole, torn = (self._torn + block).split(b"\n")
        batch: Batch = []
        for raw in whole:
            if not self._dropping:
                batch.append((raw + b"\n", (self._number, self._offset)))
            self._dropping = False
            self._offset += len(raw) + 1
        if len(torn) > RECORD_BYTES_MAX:
            self._dropping = True
            self._offset += len(torn)
            torn = b""
        self._torn = torn
        return batch
