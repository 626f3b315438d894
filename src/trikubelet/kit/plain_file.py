"""Untrusted files below the root directory, of logs and of volumes: a container with access to the node's directories
may have replaced them, or they may be damaged.

A pipe without a reader or writer already blocks in ``open``, which would stop the event loop or hold a thread for ever.
A device may be endless, and a sparse file larger than memory. So opening never blocks, anything but a regular file is
an error, a reader passes a limit, and a file is always written as a new file.

Some files of the kernel look like regular files and have no data for now, for example ``/proc/kmsg``. Python's readers
return None then, which no caller expects; here that is an error.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from _typeshed import WriteableBuffer


def open_plain(path: str, *, follows_links: bool = True) -> BinaryIO:
    """Open a file for reading. Raises OSError: EISDIR for a directory, EINVAL if it is not a regular file, ELOOP for a
    link that is not followed. Reading raises OSError, too: EAGAIN if it would block."""
    flags = os.O_RDONLY if follows_links else os.O_RDONLY | os.O_NOFOLLOW
    return cast("BinaryIO", io.BufferedReader(_Prompt(_opened(path, flags))))


def read_plain(path: str | Path, bytes_max: int) -> bytes:
    """Return the content of a file. Raises OSError like ``open_plain``, and EFBIG for a larger file."""
    with open_plain(str(path)) as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max} bytes", str(path))
    return content


def open_plain_to_append(path: str, mode: int) -> int:
    """Return the descriptor of a file opened for appending, created if necessary. Raises OSError like ``open_plain``,
    and ENXIO for a pipe without a reader."""
    return _opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode)


def open_plain_to_lock(path: str, mode: int) -> int:
    """Return the descriptor of a file that can be read, written and locked, created if necessary. Links are not
    followed. Raises OSError like ``open_plain``."""
    return _opened(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, mode)


def put_plain(path: Path, content: bytes) -> None:
    """Write a file atomically, replacing everything except a directory that is not empty. Not flushed: a power cut may
    leave it empty. Raises OSError, which names the path that cannot be written or is in the way."""
    beside = path.with_name(f".{path.name}.new")
    with errors_name(path):
        clear(beside)
        try:
            with open(beside, "xb") as file:
                file.write(content)
            put_in_place(beside, path)
        except OSError:
            with suppress(OSError):
                beside.unlink()
            raise


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Set ``path`` as the file name of an OSError, for callers that write a temporary file next to it, or to a full
    disk, whose error has no path. A directory that is in the way keeps its own name."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def put_in_place(beside: Path, path: Path) -> None:
    """Rename a file that was created next to ``path`` to ``path``, replacing everything except a directory that is not
    empty. Raises OSError."""
    try:
        beside.replace(path)
    except IsADirectoryError:
        path.rmdir()
        beside.replace(path)


def clear(path: Path) -> None:
    """Remove a file of any kind, or an empty directory. Raises OSError; ENOTEMPTY for a directory with content."""
    try:
        path.unlink(missing_ok=True)
    except IsADirectoryError:
        path.rmdir()


def _opened(path: str, flags: int, mode: int = 0) -> int:
    number = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    try:
        mode_found = os.fstat(number).st_mode
        if stat.S_ISDIR(mode_found):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode_found):
            raise OSError(errno.EINVAL, "not a regular file", path)
    except BaseException:
        os.close(number)
        raise
    return number


class _Prompt(io.FileIO):
    """The raw reader below a ``BufferedReader``, which raises an error instead of returning None."""

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into a buffer. Raises BlockingIOError if that would block."""
        count: int | None = super().readinto(buffer)  # may be None, unlike in the stubs
        if count is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return count
