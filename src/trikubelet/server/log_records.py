"""The records of a container's log in the order they were written, across rotations, and on into the future.

    rotated parts, oldest first ─► the file being written ─► [nothing new: is it over? was it rotated?] ─┐
                                          ▲                                                              │
                                          └─── the new file, after any part that was missed ◄── rotated ─┤
                                                                               over ─► end    wait ◄─────┘

A record is a whole line of the file: what follows the last newline is being written, or was torn by a crash, and is no
record. Whether the container is over is asked before the last look, so nothing it wrote can be missed. The file being
written was opened when the parts were listed: whatever is rotated while those are read, no lines lie between.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, aclosing
from typing import IO, TYPE_CHECKING

import trio

from trikubelet.core.log_rotation import PACKED, stem
from trikubelet.server.log_files import BROKEN, after, is_packed, is_still, last_write_ns, open_log
from trikubelet.server.log_tail import BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

    from trikubelet.server.log_lines import Place
    from trikubelet.server.log_tail import Start

log = logging.getLogger(__name__)

FOLLOW_SECONDS = 0.2
"""How often a followed file is looked at again."""
RECORD_BYTES_MAX = 1024 * 1024
"""A record is some 16 KiB; what is longer than this is no log, and is left out up to its newline."""

Batch = list[tuple[bytes, "Place"]]


class _Tape:
    """Holds how far one open file was read. ``number`` is the file's, for the places of its records; ``end`` is how far
    to read, None for as far as it goes: a container may write faster than its log is read."""

    def __init__(self, file: IO[bytes], number: int, offset: int = 0, end: int | None = None) -> None:
        self._file = file
        self._left = None if end is None else max(0, end - offset)
        self._number = number
        self._offset = offset
        self._torn = b""
        self._dropping = False
        file.seek(offset)

    def read(self) -> tuple[Batch, bool]:
        """The records of the next block, and whether there was anything to read."""
        block = self._file.read(BLOCK_BYTES if self._left is None else min(BLOCK_BYTES, self._left))
        if self._left is not None:
            self._left -= len(block)
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
        return batch, bool(block)


async def read_records(
    path: str,
    files: Sequence[str],
    written: IO[bytes] | None,
    start: Start,
    since_ns: int,
    is_over: Callable[[], bool] | None,
) -> AsyncGenerator[Batch, None]:
    """The records from ``start`` on, in batches of a block. ``files`` are the parts of the log at ``path``, oldest
    first, and the last of them was opened as ``written``, if it was there; rotated parts last written before
    ``since_ns`` are left out. ``is_over``: follow until it says so; None: do not follow. Raises OSError when the file
    being written cannot be read; of a rotated part that cannot, the rest is left out, and that is said. A file that is
    gone counts as empty.
    """
    first, offset = start.begin
    current = len(files) - 1
    for number in range(first, current):
        if last_write_ns(files[number]) >= since_ns:
            async with aclosing(_whole_file(files[number], number, offset)) as batches:
                async for batch in batches:
                    yield batch
        offset = 0
    known = {stem(part) for part in files[:-1]}
    number = current
    while written is not None or await _is_there(path, is_over):
        with ExitStack() as stack:
            try:
                file = stack.enter_context(written or open_log(path))
            except FileNotFoundError:
                continue
            written = None
            end = os.fstat(file.fileno()).st_size if is_over is None else None
            async with aclosing(_until_rotated(path, file, _Tape(file, number, offset, end), is_over)) as batches:
                async for batch in batches:
                    yield batch
            if is_over is None or is_still(path, file):
                return
            missed = list(_missed(path, file, known))
        for part in missed:
            number += 1
            async with aclosing(_whole_file(part, number, 0)) as batches:
                async for batch in batches:
                    yield batch
        number, offset = number + 1, 0


async def _is_there(path: str, is_over: Callable[[], bool] | None) -> bool:
    """Wait for the file when it is followed; whether it is there."""
    while last_write_ns(path) == 0:
        if is_over is None or is_over():
            return False
        await trio.sleep(FOLLOW_SECONDS)
    return True


async def _whole_file(path: str, number: int, offset: int) -> AsyncGenerator[Batch, None]:
    try:
        file = open_log(path)
    except FileNotFoundError:
        return  # removed, as the oldest part, since it was listed
    except OSError as error:
        log.warning("A part of a log cannot be read, so it is not shown: %s", error)
        return
    with file:
        try:
            await _skip(file, offset)
            tape = _Tape(file, number, offset)
            more = True
            while more:
                await trio.lowlevel.checkpoint()
                batch, more = tape.read()
                yield batch
        except (OSError, *BROKEN) as error:
            log.warning("%s is not whole, so not all of it can be shown: %s", path, error)


async def _skip(file: IO[bytes], offset: int) -> None:
    """Go forwards to ``offset`` a block at a time, where the file cannot seek there at once."""
    left = offset if is_packed(file) else 0
    while left and (block := file.read(min(BLOCK_BYTES, left))):
        left -= len(block)
        await trio.lowlevel.checkpoint()


async def _until_rotated(
    path: str, file: IO[bytes], tape: _Tape, is_over: Callable[[], bool] | None
) -> AsyncGenerator[Batch, None]:
    """The file's records until its end, or, followed, until the path names another file or the container is over."""
    is_left = False
    while True:
        await trio.lowlevel.checkpoint()
        # A runtime opens the new file before it leaves the old one, so there is one more look after the rotation.
        ends = is_over is None or is_over() or is_left
        is_left = not is_still(path, file)
        batch, more = tape.read()
        while more:
            yield batch
            await trio.lowlevel.checkpoint()
            batch, more = tape.read()
        if ends:
            return
        await trio.sleep(FOLLOW_SECONDS)


def _missed(path: str, file: IO[bytes], known: set[str]) -> Iterator[str]:
    """The parts that came after the open file and before the one that ``path`` names now. ``known`` is brought up to
    date: it holds every part up to these."""
    newer = after(path, known)
    known.update(map(stem, newer))
    # The first new part is the file we had open, unless that was removed meanwhile.
    if newer and (newer[0].endswith(PACKED) or is_still(newer[0], file)):
        newer = newer[1:]
    yield from newer
