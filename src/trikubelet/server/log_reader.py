"""Reads a container's log for the local API and the node's HTTPS API.

    the files (rotated ones too) ─► where to begin (tail) ─► records ─► lines ─► since ─► text ─► limit
                                                                ▲                            │
                                                                └── follow: wait, rotation ◄─┘

A deliberate difference: upstream reads only the file that is being written, so right after a rotation the log seems
empty. Here the rotated files are the older part of the same log.

Memory is bounded: a few blocks and the unfinished line of each stream. A log's file system may hang, so all file access
is done in threads, a few blocks at a time. Then only that reader times out (``kit.disk_steps``). Lines are made of
those blocks on the event loop, with a checkpoint after each block. Following ends once the container has ended and all
of its output was read.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.log_rotation import stem
from trikubelet.core.timestamps import parse_rfc3339
from trikubelet.host.logs import parse_line
from trikubelet.model.frozen import Frozen
from trikubelet.server.log_files import after, open_log, rotated, steps_of
from trikubelet.server.log_lines import Joiner, Piece
from trikubelet.server.log_records import Found, read_records
from trikubelet.server.log_tail import Start, find_tail
from trikubelet.server.log_tape import STEP_BLOCKS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Sequence

    from trikubelet.kit.disk_steps import DiskSteps
    from trikubelet.kit.thread_shares import ThreadShares
    from trikubelet.server.log_files import LogFile

FINDS_MAX: Final = 3
"""How often a log is listed again because it was rotated meanwhile. Rotations are several seconds apart."""


class LogQuery(Frozen):
    """The requested part of a log. ``tail_lines``: from the end, or None for all; ``since_ns``: nanoseconds since the
    epoch, 0 for no limit; ``limit_bytes``: of output, or None; ``stream``: stdout or stderr, or empty for both."""

    follow: bool = False
    tail_lines: int | None = None
    since_ns: int = 0
    limit_bytes: int | None = None
    timestamps: bool = False
    stream: str = ""


async def check_log(path: str, threads: ThreadShares) -> None:
    """Open the log at ``path`` once. Raises OSError, including DiskUnavailable, if that fails."""
    disk = steps_of(path, threads)
    try:
        await disk.run(lambda: disk.close(open_log(path)))
    finally:
        disk.leave()


async def read_log(
    path: str, query: LogQuery, is_over: Callable[[], bool], threads: ThreadShares
) -> AsyncGenerator[bytes, None]:
    """Yield the text of the log at ``path``, in blocks. ``is_over``: returns true if the container writes no more.

    A missing log is empty; if it is followed, the reader waits for it. Raises OSError, including DiskUnavailable.
    """
    left = query.limit_bytes
    disk = steps_of(path, threads)
    try:
        async with aclosing(_blocks(disk, path, query, is_over)) as blocks:
            async for block in blocks:
                if left is None:
                    yield block
                    continue
                yield block[:left]
                left -= len(block)
                if left <= 0:
                    return
    finally:
        disk.leave()


async def _blocks(
    disk: DiskSteps, path: str, query: LogQuery, is_over: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """Yield the text without a limit, in blocks that are not empty."""
    found = await _find(disk, path, query.tail_lines)
    joiner, wanted = Joiner(), _Wanted(query, found.start)
    over = is_over if query.follow else None
    async with aclosing(read_records(disk, path, found, query.since_ns, over)) as records:
        async for batch in records:
            pieces = [piece for raw, at in batch if (piece := _join(joiner, raw, at)) is not None]
            if text := b"".join(map(wanted.text, pieces)):
                yield text
            await trio.lowlevel.checkpoint()
    if text := b"".join(map(wanted.text, joiner.rest())):
        yield text


async def _find(disk: DiskSteps, path: str, tail_lines: int | None) -> Found:
    """Return the log's files, the last of them open, and where to begin. If the log is rotated between the listing and
    the opening, or during the search for the beginning, it is listed again."""
    looks = 0
    while True:
        files, written = await disk.run(partial(_list_and_open, disk, path))
        start = Start() if tail_lines is None else await _tail(disk, files, tail_lines)
        looks += 1
        if await disk.run(partial(_is_whole, disk, path, files, written, is_last=looks == FINDS_MAX)):
            return Found(files, written, start)


def _list_and_open(disk: DiskSteps, path: str) -> tuple[list[str], LogFile | None]:
    files = [*rotated(path), path]
    with suppress(FileNotFoundError):
        return files, disk.keep(open_log(path))
    return files, None


def _is_whole(disk: DiskSteps, path: str, files: Sequence[str], written: LogFile | None, *, is_last: bool) -> bool:
    """Return true if no part was added since the files were listed, or if this look must do; otherwise close the opened
    file."""
    if is_last or not after(path, set(map(stem, files[:-1]))):
        return True
    if written is not None:
        disk.close(written)
    return False


async def _tail(disk: DiskSteps, files: Sequence[str], lines: int) -> Start:
    search = disk.keep(find_tail(files, lines))
    while (start := await disk.run(partial(_search_on, disk, search))) is None:
        pass
    return start


def _search_on(disk: DiskSteps, search: Generator[None, None, Start]) -> Start | None:
    """Search the next blocks. Return where to begin, once it is found."""
    try:
        for _ in range(STEP_BLOCKS):
            next(search)
    except StopIteration as end:
        disk.close(search)
        start: Start = end.value
        return start
    return None


def _join(joiner: Joiner, raw: bytes, at: tuple[int, int]) -> Piece | None:
    record = parse_line(raw)
    return None if record is None else joiner.feed(record, at)


class _Wanted(Frozen):
    query: LogQuery
    start: Start

    def text(self, piece: Piece) -> bytes:
        """Return the shown text of a piece; empty if it was not requested."""
        query = self.query
        if piece.at < self.start.count_from or (query.stream and piece.stream != query.stream):
            return b""
        if query.since_ns and _written_ns(piece.time) < query.since_ns:
            return b""
        return piece.time.encode() + b" " + piece.text if query.timestamps and piece.starts else piece.text


def _written_ns(time: str) -> int:
    try:
        return parse_rfc3339(time)
    except ValueError:
        return 0
