"""Finds the beginning of a log's last lines from its end, without reading the rest.

It reads backwards, block by block, and looks only at the head of each record. A line's place is that of its last part,
so the last N lines are known at the Nth end from the back. Their first parts may be further back, between parts of the
other stream. So the search continues until the first part of each of these lines is known, but no further than
``LOOKBACK_BYTES_MAX``. The reader receives the place to begin at, and the place from which ends of lines count.

A compressed file cannot be read backwards. It is read forwards once, one block at a time, because a file that unpacks
to a thousand times its size may have no newline. Nine bytes are kept of each record that may be needed, for at most
``HEADS_MAX`` records: a client that requests more lines of such a file gets fewer.

The search is a generator that stops before each file and after each block, so that a thread can run a few blocks of it
at a time. So a step is bounded whatever the files contain, and the search may be closed wherever it stops. Errors of
closing a file are suppressed, so that they do not hide the reason of the end.

Unreadable data is counted as the reader shows it (``log_records``): a compressed part has the records before it.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from trikubelet.host.logs import LogLine, parse_line
from trikubelet.model.frozen import Frozen
from trikubelet.server.log_files import open_log
from trikubelet.server.packed_log import PackedLog

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from typing import BinaryIO

    from trikubelet.server.log_lines import Place

BLOCK_BYTES = 64 * 1024
HEAD_BYTES_MAX = 256
"""Bytes of a record that are examined here; time, stream and tag are shorter."""
LOOKBACK_BYTES_MAX = 1024 * 1024
"""Distance before the last lines within which their beginnings are searched."""
HEADS_MAX = 4 * 1024 * 1024
"""Records of a compressed file that are known at the same time, in about 40 MB."""
_HEADS_KEPT_MIN = 128 * 1024
_HEADS_PER_STEP = 4096


class Start(Frozen):
    """``begin``: where to begin to read; ``count_from``: lines that end before this place are not shown."""

    begin: Place = (0, 0)
    count_from: Place = (0, 0)


class _Search(msgspec.Struct):
    """The state of the search backwards. ``wanted``: lines still to be found; ``open``: streams whose earliest wanted
    line may have parts further back; ``seen``: all streams found."""

    wanted: int
    begin: Place
    count_from: Place
    looked_back: int = 0
    open: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)

    def take(self, stream: str, at: Place, *, ends: bool, size: int) -> bool:
        """Take the previous record, of ``size`` bytes. Return true if the search has ended."""
        if not self.wanted:
            self.looked_back += size
        # The newest record of a stream is the last part of a line, even if the line was never finished.
        if ends or stream not in self.seen:
            self.seen.add(stream)
            self.open.discard(stream)
            if self.wanted:
                self.wanted -= 1
                self.open.add(stream)
                self.begin = self.count_from = at
        elif stream in self.open:
            self.begin = at
        return not self.wanted and (not self.open or self.looked_back > LOOKBACK_BYTES_MAX)


def find_tail(files: Sequence[str], lines: int) -> Generator[None, None, Start]:
    """Return where the last ``lines`` lines of ``files`` (oldest first) begin. A file that cannot be opened has none.
    Yields before each file, and after each block that was read."""
    last = len(files) - 1
    if lines <= 0:
        end = (last, _bytes_of(files[last]))
        return Start(end, end)
    search = _Search(lines, (last, 0), (last, 0))
    for number in range(last, -1, -1):
        yield
        try:
            file = open_log(files[number])
        except OSError:
            continue
        try:
            heads = _heads_of_packed(file, search.wanted) if isinstance(file, PackedLog) else _heads_back(file)
            is_over = yield from _search(heads, number, search)
        finally:
            with suppress(OSError):
                file.close()
        if is_over:
            break
    return Start(search.begin, search.count_from)


def _bytes_of(file: str | int) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return 0


def _search(heads: Iterator[tuple[int, str, bool] | None], number: int, search: _Search) -> Generator[None, None, bool]:
    """Search one file. Return true if the search has ended."""
    before = 0
    for head in heads:
        if head is None:  # a block was read
            yield
            continue
        offset, stream, ends = head
        if search.take(stream, (number, offset), ends=ends, size=max(0, before - offset)):
            return True
        before = offset
    return False


def _heads_back(file: BinaryIO) -> Iterator[tuple[int, str, bool] | None]:
    """Yield the whole records of a file from its last to its first: the byte where each begins, its stream, and whether
    it ends a line. Yields None after each block that was read. Stops at a block that cannot be read."""
    at = _bytes_of(file.fileno())
    carry: bytes | None = None  # the head of the first record in the blocks behind; None behind the last newline
    while at:
        size = min(BLOCK_BYTES, at)
        at -= size
        block = _block_at(file, at, size)
        if len(block) < size:
            return
        first, *others = block.split(b"\n")
        offset = at + size
        for piece in reversed(others):
            offset -= len(piece)
            yield from _head(offset, None if carry is None else (piece + carry)[:HEAD_BYTES_MAX])
            carry = b""
            offset -= 1
        carry = None if carry is None else (first + carry)[:HEAD_BYTES_MAX]
        yield None
    yield from _head(0, carry)


def _block_at(file: BinaryIO, at: int, size: int) -> bytes:
    """Read a block. It is shorter if it cannot be read or the file was cut meanwhile."""
    try:
        file.seek(at)
        return file.read(size)
    except OSError:
        return b""


def _head(offset: int, raw: bytes | None) -> Iterator[tuple[int, str, bool]]:
    record = None if raw is None else parse_line(raw)
    if record is not None:
        yield offset, record.stream, _ends(record)


def _ends(record: LogLine) -> bool:
    return record.text.endswith(b"\n")


_CODES = ("stdout", False), ("stdout", True), ("stderr", False), ("stderr", True)


class _Heads:
    """Owns the beginnings and codes of the last records of a file, as many as may be needed."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._offsets = array("Q")
        self._codes = bytearray()
        self._full_at = _HEADS_KEPT_MIN

    def add(self, offset: int, code: int) -> None:
        """Add the next record."""
        self._offsets.append(offset)
        self._codes.append(code)
        if len(self._codes) >= self._full_at:
            self._drop()
            self._full_at = max(_HEADS_KEPT_MIN, min(HEADS_MAX, 2 * len(self._codes)))

    def backwards(self) -> Iterator[tuple[int, str, bool]]:
        """Yield the known records, from the last to the first."""
        for offset, code in zip(reversed(self._offsets), reversed(self._codes), strict=True):
            yield offset, *_CODES[code]

    def _drop(self) -> None:
        """Forget records further back than a search for that many lines looks."""
        index, left = len(self._codes), self._wanted
        while index and left:
            index -= 1
            left -= _CODES[self._codes[index]][1]
        if not left:
            # Plus a record: the search looks at one that is too far away before it ends.
            index = bisect_left(self._offsets, self._offsets[index] - LOOKBACK_BYTES_MAX, 0, index) - 1
        index = max(index, len(self._codes) - HEADS_MAX // 2, 0)
        del self._offsets[:index]
        del self._codes[:index]


def _heads_of_packed(file: PackedLog, wanted: int) -> Iterator[tuple[int, str, bool] | None]:
    """Yield the same for a file that can only be read forwards, for a search of ``wanted`` lines. These are the last
    lines before the first read error."""
    heads = _Heads(wanted)
    begin, before, torn = 0, 0, b""  # where the line begins, its bytes so far, and the first of them
    while block := _next_block(file):
        *whole, rest = block.split(b"\n")
        for piece in whole:
            record = parse_line((torn + piece[:HEAD_BYTES_MAX])[:HEAD_BYTES_MAX])
            if record is not None:
                heads.add(begin, _CODES.index((record.stream, _ends(record))))
            begin += before + len(piece) + 1
            before, torn = 0, b""
        before += len(rest)
        torn = (torn + rest[:HEAD_BYTES_MAX])[:HEAD_BYTES_MAX]
        yield None
    for number, found in enumerate(heads.backwards()):
        yield found
        if number % _HEADS_PER_STEP == 0:
            yield None


def _next_block(file: PackedLog) -> bytes:
    """Return the next block; empty at the end or a read error."""
    try:
        return file.read(BLOCK_BYTES)
    except OSError:
        return b""
