"""One open file of a container's log, read forwards: blocks in a thread, records of them on the event loop.

Making records is most of the work, and because of the GIL threads would not make it faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.server.log_tail import BLOCK_BYTES
from trikubelet.server.packed_log import PackedLog

if TYPE_CHECKING:
    from trikubelet.server.log_files import LogFile
    from trikubelet.server.log_lines import Place

RECORD_BYTES_MAX = 1024 * 1024
"""A record has about 16 KiB. Longer data is not a log, and is skipped up to its newline."""
STEP_BLOCKS: Final = 16
"""Blocks read or skipped in one step: with fewer, switching between threads is noticeable."""

Batch = list[tuple[bytes, "Place"]]


class Tape:
    """Owns the read position in one open file. ``at``: where to begin, with the file's number for the places of its
    records; ``end``: where to stop, None for its end. It is needed because a container may write faster than its log is
    read."""

    def __init__(self, file: LogFile, at: Place, end: int | None = None) -> None:
        self.file = file
        self._number, self._offset = at
        self._left = None if end is None else max(0, end - self._offset)
        self._torn = b""
        self._dropping = False
        self._failure: OSError | None = None
        # A compressed file can only be read from its beginning: the blocks before are skipped one at a time.
        self._ahead = 0
        if isinstance(file, PackedLog):
            self._ahead = self._offset
        else:
            file.seek(self._offset)

    def read(self) -> tuple[list[bytes], bool]:
        """Runs in a thread: return the next blocks, and whether there may be more. Raises OSError, after all data
        before the error was returned."""
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
        """Return the records that end in the next block."""
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
