"""The records of a container's log in the order they were written, across rotations and while it grows.

    rotated parts, oldest first ─► the file being written ─► [nothing new: has it ended? was it rotated?] ┐
                                          ▲                                                             │
                                          └─── the new file, after any part that was missed ◄── rotated ─┤
                                                                             ended ─► end    wait ◄─────┘

A record is a whole line of the file. The rest after the last newline is being written, or was torn by a crash, and is
no record. ``is_over`` is called before the last look, so no output can be missed. The file being written was opened
when the parts were listed, so no lines are lost if it is rotated while those are read.

Each access to the disk is a step in a thread (``kit.disk_steps``), of enough blocks that passing them on costs little
compared with reading them; a log that is only followed costs one step for each look.
"""

from __future__ import annotations

import os
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.core.log_rotation import PACKED, stem
from trikubelet.model.frozen import Frozen
from trikubelet.server.broken_parts import BrokenParts
from trikubelet.server.log_files import after, is_still, last_write_ns, open_log
from trikubelet.server.log_tape import Tape

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

    from trikubelet.kit.disk_steps import DiskSteps
    from trikubelet.server.log_files import LogFile
    from trikubelet.server.log_lines import Place
    from trikubelet.server.log_tail import Start
    from trikubelet.server.log_tape import Batch

FOLLOW_SECONDS = 0.2
"""How often a followed file is checked, in seconds."""


class Found(Frozen):
    """The ``files`` of a log at one moment, oldest first. The last of them, which is being written, is open as
    ``written`` if it existed. ``start``: where to begin."""

    files: Sequence[str]
    written: LogFile | None
    start: Start


async def read_records(
    disk: DiskSteps, path: str, found: Found, since_ns: int, is_over: Callable[[], bool] | None
) -> AsyncGenerator[Batch, None]:
    """Yield the records of the log at ``path`` from the beginning in ``found`` on, in batches of a block. Rotated parts
    last written before ``since_ns`` are left out. ``is_over``: follow until it returns true; None: do not follow. A
    missing file counts as empty. Raises OSError, including DiskUnavailable, if the file being written cannot be read.
    The unreadable rest of a rotated part is left out, and that is logged."""
    begin, broken = found.start.begin, BrokenParts()
    number = len(found.files) - 1
    async with aclosing(_whole_parts(disk, found.files[begin[0] : number], begin, since_ns, broken)) as batches:
        async for batch in batches:
            yield batch
    known = {stem(part) for part in found.files[:-1]}
    written, offset = found.written, begin[1] if begin[0] == number else 0
    while (tape := await _tape_of_written(disk, path, written, (number, offset), is_over)) is not None:
        written, offset = None, 0
        async with aclosing(_until_rotated(disk, path, tape, is_over)) as batches:
            async for batch in batches:
                yield batch
        if is_over is None:
            return
        while True:
            is_last = is_over()
            missed = await disk.run(partial(_come_since, disk, path, tape.file, known))
            if missed is not None:
                break
            if is_last:
                return
            await trio.sleep(FOLLOW_SECONDS)  # it was rotated twice, and the new file does not exist yet
        async with aclosing(_whole_parts(disk, missed, (number + 1, 0), 0, broken)) as batches:
            async for batch in batches:
                yield batch
        number += len(missed) + 1


async def _tape_of_written(
    disk: DiskSteps, path: str, written: LogFile | None, at: Place, is_over: Callable[[], bool] | None
) -> Tape | None:
    """Return the file being written, opened if it is not; wait for it when following. None where there is none."""
    while True:
        is_last = is_over is None or is_over()
        with suppress(FileNotFoundError):
            return await disk.run(partial(_begin, disk, path, written, at, ends=is_over is None))
        if is_last:
            return None
        await trio.sleep(FOLLOW_SECONDS)


def _begin(disk: DiskSteps, path: str, written: LogFile | None, at: Place, *, ends: bool) -> Tape:
    file = disk.keep(open_log(path)) if written is None else written
    return Tape(file, at, os.fstat(file.fileno()).st_size if ends else None)


async def _whole_parts(
    disk: DiskSteps, parts: Sequence[str], begin: Place, since_ns: int, broken: BrokenParts
) -> AsyncGenerator[Batch, None]:
    """Yield the records of rotated parts, of the first one from ``begin`` on."""
    number, offset = begin
    try:
        for part in parts:
            async with aclosing(_whole_part(disk, part, (number, offset), since_ns, broken)) as batches:
                async for batch in batches:
                    yield batch
            number, offset = number + 1, 0
    finally:
        broken.tell()


async def _whole_part(
    disk: DiskSteps, path: str, at: Place, since_ns: int, broken: BrokenParts
) -> AsyncGenerator[Batch, None]:
    tape = await disk.run(partial(_begin_part, disk, path, at, since_ns, broken))
    if tape is None:
        return
    more = True
    while more:
        blocks, more = await disk.run(partial(_read_part, path, tape, broken))
        for block in blocks:
            yield tape.records(block)
    await disk.run(partial(disk.close, tape.file))


def _begin_part(disk: DiskSteps, path: str, at: Place, since_ns: int, broken: BrokenParts) -> Tape | None:
    """Return a rotated part, or None if it is too old or cannot be read."""
    try:
        return Tape(disk.keep(open_log(path)), at) if last_write_ns(path) >= since_ns else None
    except FileNotFoundError:
        return None  # removed since it was listed, as the oldest part
    except OSError as error:
        broken.note(f"Cannot read a part of a log, so it is not shown: {error}")
        return None


def _read_part(path: str, tape: Tape, broken: BrokenParts) -> tuple[list[bytes], bool]:
    """Read like ``Tape.read``; the part ends at a read error, which a power cut may have caused."""
    try:
        return tape.read()
    except OSError as error:
        broken.note(f"{path} is damaged, so not all of it can be shown: {error}")
        return [], False


async def _until_rotated(
    disk: DiskSteps, path: str, tape: Tape, is_over: Callable[[], bool] | None
) -> AsyncGenerator[Batch, None]:
    """Yield the file's records until its end, or, when following, until the path names another file or the container
    has ended."""
    is_left = False
    while True:
        # A runtime opens the new file before it closes the old one, so there is one more look after the rotation.
        ends = is_over is None or is_over() or is_left
        is_left, (blocks, more) = await disk.run(partial(_look, path, tape))
        while True:
            for block in blocks:
                yield tape.records(block)
            if not more:
                break
            blocks, more = await disk.run(tape.read)
        if ends:
            return
        await trio.sleep(FOLLOW_SECONDS)


def _look(path: str, tape: Tape) -> tuple[bool, tuple[list[bytes], bool]]:
    """Return true if the path names another file by now, and then the next records."""
    return not is_still(path, tape.file), tape.read()


def _come_since(disk: DiskSteps, path: str, file: LogFile, known: set[str]) -> list[str] | None:
    """Return the parts added between the file that was read to its end, which is closed then, and the file at ``path``
    now; None if that is the same one or missing."""
    if is_still(path, file):
        return None
    missed = [*_missed(path, file, known)]
    disk.close(file)
    return missed


def _missed(path: str, file: LogFile, known: set[str]) -> Iterator[str]:
    """Yield the parts after the open file and before the file at ``path`` now, and add them to ``known``, which holds
    every earlier part."""
    newer = after(path, known)
    known.update(map(stem, newer))
    # The first new part is the file we had open, unless that was removed meanwhile.
    if newer and (newer[0].endswith(PACKED) or is_still(newer[0], file)):
        newer = newer[1:]
    yield from newer
