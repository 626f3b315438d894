"""Files below the root directory, of logs and of volumes, which may be foreign: put there by a container with access to
the node's directories, say, or damaged.

A pipe without a reader or writer blocks already in ``open``, the event loop or a thread that never returns; a device
may be read without end, and a file with a hole in it be larger than any memory. So opening never blocks, anything but a
plain file is an error, a reader gives a limit, and a file is written anew as a new file.

Some files of the kernel's say that they are plain and have nothing to give for now, ``/proc/kmsg`` is one. Python's
readers give None for that, which no caller expects; here it is an error like any other.
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
    """All of a file. Raises OSError as ``open_plain`` does, and EFBIG for what is larger."""
    with open_plain(str(path)) as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max} bytes", str(path))
    return content


def open_plain_to_append(path: str, mode: int) -> int:
    """The number of an open file to whose end is written; made if need be. Raises OSError as ``open_plain`` does, and
    ENXIO for a pipe without a reader."""
    return _opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode)


def open_plain_to_lock(path: str, mode: int) -> int:
    """The number of an open file that can be read, written and locked; made if need be. A link is not followed. Raises
    OSError as ``open_plain`` does."""
    return _opened(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, mode)


def put_plain(path: Path, content: bytes) -> None:
    """Put a file in place whole; whatever lay there goes, but for a directory that is not empty. Not flushed: a power
    cut may leave it empty. Raises OSError, which names what could not be written or is in the way."""
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
    """Name ``path`` in an OSError, for callers that make it by way of a file next to it, which only they know, or that
    write to a full disk, whose error has no path. A directory that is in the way is named itself."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def put_in_place(beside: Path, path: Path) -> None:
    """Rename a file that was made beside another to that; whatever lay there goes, but for a directory that is not
    empty. Raises OSError."""
    try:
        beside.replace(path)
    except IsADirectoryError:
        path.rmdir()
        beside.replace(path)


def clear(path: Path) -> None:
    """Remove whatever lies there, of directories only an empty one. Raises OSError, with ENOTEMPTY for another."""
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
    """The reader below a ``BufferedReader``: it asks for no more bytes than it is to return."""

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """As any, but for what would have to be waited for. Raises BlockingIOError."""
        count: int | None = super().readinto(buffer)  # the stubs leave out that it may be None
        if count is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return count
