"""The node's own logs below /var/log: files that are opened and streamed, directories that are listed.

Every access to the disk here is a step of ``kit.disk_steps``, in a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, Final
from urllib.parse import quote

import trio

from trikubelet.host.beneath import open_beneath
from trikubelet.kit.plain_file import open_plain

if TYPE_CHECKING:
    from trikubelet.kit.disk_steps import DiskSteps

BLOCK_BYTES: Final = 64 * 1024
ENTRIES_MAX: Final = 10_000


class FileText:
    """The text of an open file, as a response's body. Owns the steps that opened it. It is not an async generator,
    because one that was never started would not close the file."""

    def __init__(self, disk: DiskSteps, file: BinaryIO) -> None:
        self._disk = disk
        self._file = file

    def __aiter__(self) -> FileText:
        return self

    async def __anext__(self) -> bytes:
        block = await self._disk.run(partial(self._file.read, BLOCK_BYTES))
        if not block:
            raise StopAsyncIteration
        return block

    async def aclose(self) -> None:
        """Close the file."""
        self._disk.leave()
        await trio.lowlevel.checkpoint()


def open_or_list(disk: DiskSteps, root: str, path: str) -> BinaryIO | bytes:
    """Return an open file, or a page that lists a directory. Raises OSError."""
    found = open_beneath(root, path, make=False, called=root)
    try:
        return _listing(found) if stat.S_ISDIR(os.fstat(found).st_mode) else disk.keep(_readable(found))
    finally:
        os.close(found)


def open_file(disk: DiskSteps, root: str, path: str) -> BinaryIO:
    """Return an open file. Raises OSError."""
    found = open_beneath(root, path, make=False, called=root)
    try:
        return disk.keep(_readable(found))
    finally:
        os.close(found)


def _readable(found: int) -> BinaryIO:
    """Open the found file for reading, without waiting for a lease on it, which a pod that mounts /var/log may hold.
    Raises OSError: EISDIR, EINVAL for anything but a regular file, EAGAIN for such a lease."""
    mode = os.fstat(found).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return open_plain(f"/proc/self/fd/{found}")


def _listing(directory: int) -> bytes:
    """Return the names in a directory as links, as upstream shows them."""
    with os.scandir(f"/proc/self/fd/{directory}") as entries:
        names = sorted(
            f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
            for entry in islice(entries, ENTRIES_MAX)
        )
    links = "".join(f'<a href="{quote(os.fsencode(name))}">{escape(name)}</a>\n' for name in names)
    return f"<pre>\n{links}</pre>\n".encode(errors="surrogateescape")
