"""Reading a container's log, as the local API and the node's HTTPS API serve it.

    which files (rotated ones too) ─► where to begin (tail) ─► records ─► lines ─► since ─► text ─► limit
                                                                 ▲                            │
                                                                 └── follow: wait, rotation ◄─┘

Differs from upstream on purpose: upstream reads only the file that is being written, so right after a rotation the log
seems empty. Here the rotated files count as what they are, the older part of the same log.

Memory is bounded: one block, the unfinished line of each stream, nothing else. Reads are of at most a block, with a
checkpoint after each; the log directory is a local disk. Following ends once the container is over and everything it
wrote was read.
"""

from __future__ import annotations

from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

from trikubelet.core.log_rotation import stem
from trikubelet.core.timestamps import parse_rfc3339
from trikubelet.host.logs import parse_line
from trikubelet.server.log_files import after, open_log, rotated
from trikubelet.server.log_lines import Joiner, Piece
from trikubelet.server.log_records import read_records
from trikubelet.server.log_tail import Start, find_tail

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

FINDS_MAX: Final = 3
"""So often a log is looked at again because it was rotated meanwhile, which it is every few seconds at most."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What of a log is wanted. ``tail_lines`` from the end, or None for all; ``since_ns`` nanoseconds since the epoch,
    0 for no limit; ``limit_bytes`` of output, or None; ``stream`` is stdout or stderr, or empty for both."""

    follow: bool = False
    tail_lines: int | None = None
    since_ns: int = 0
    limit_bytes: int | None = None
    timestamps: bool = False
    stream: str = ""


async def read_log(path: str, query: LogQuery, is_over: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """The text of the log at ``path``, in blocks. ``is_over``: whether the container writes no more.

    A log that does not exist is empty, or, followed, awaited. Raises OSError when it cannot be read.
    """
    left = query.limit_bytes
    async with aclosing(_blocks(path, query, is_over)) as blocks:
        async for block in blocks:
            if left is None:
                yield block
                continue
            yield block[:left]
            left -= len(block)
            if left <= 0:
                return


async def _blocks(path: str, query: LogQuery, is_over: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """The text without a limit, in blocks that are not empty."""
    with ExitStack() as held:
        files, written, start = await _find(path, query.tail_lines, held)
        joiner, wanted = Joiner(), _Wanted(query, start)
        over = is_over if query.follow else None
        async with aclosing(read_records(path, files, written, start, query.since_ns, over)) as records:
            async for batch in records:
                pieces = [piece for raw, at in batch if (piece := _join(joiner, raw, at)) is not None]
                if text := b"".join(map(wanted.text, pieces)):
                    yield text
        if text := b"".join(map(wanted.text, joiner.rest())):
            yield text


async def _find(path: str, tail_lines: int | None, held: ExitStack) -> tuple[list[str], IO[bytes] | None, Start]:
    """The log's files, the last of them open for as long as ``held`` is, and where to begin. Files and opening are one
    step of the process that rotates logs; a rotation while the beginning is looked for makes another look."""
    looks = 0
    while True:
        held.close()
        files, written = [*rotated(path), path], None
        with suppress(FileNotFoundError):
            written = held.enter_context(open_log(path))
        start = Start() if tail_lines is None else await find_tail(files, tail_lines)
        looks += 1
        if looks == FINDS_MAX or not after(path, set(map(stem, files[:-1]))):
            return files, written, start


def _join(joiner: Joiner, raw: bytes, at: tuple[int, int]) -> Piece | None:
    record = parse_line(raw)
    return None if record is None else joiner.feed(record, at)


@dataclass(frozen=True, slots=True)
class _Wanted:
    query: LogQuery
    start: Start

    def text(self, piece: Piece) -> bytes:
        """What is shown of a piece; nothing when it is not wanted."""
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
