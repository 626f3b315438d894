"""Opening a file that may be foreign: put there by a container with access to the node's directories, say.

A pipe without a writer blocks already in ``open``, the event loop or a thread that never returns, and a device may be
read without end. So opening never blocks, and anything but a plain file is an error.

Some files of the kernel's say that they are plain and have nothing to give for now, ``/proc/kmsg`` is one. Python's
readers give None for that, which no caller expects; here it is an error like any other.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def open_plain(path: str, *, follows_links: bool = True) -> BinaryIO:
    """The file, to be read a number of bytes at a time. Raises OSError; EINVAL for what is not a plain file, ELOOP for
    a link that is not followed. So does reading it; EAGAIN where it would have to be waited for."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    number = os.open(path, flags if follows_links else flags | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "no plain file", path)
        return cast("BinaryIO", io.BufferedReader(_Prompt(number)))
    except BaseException:
        os.close(number)
        raise


class _Prompt(io.FileIO):
    """What a ``BufferedReader`` asks for bytes when it is to read so many."""

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """As any, but for what would have to be waited for. Raises BlockingIOError."""
        count: int | None = super().readinto(buffer)  # the stubs leave out that it may be None
        if count is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return count
