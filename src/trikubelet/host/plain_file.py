"""Opening a file that somebody else may have put there: a container with a hand in the node's directories, say.

A pipe that nobody writes to is waited for in ``open`` already, by the event loop or by a thread that never comes back,
and a device may be read without end. So opening never waits, and what turns out to be no plain file is an error.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO


def open_plain(path: str, *, follows_links: bool = True) -> BinaryIO:
    """The file, to be read. Raises OSError; EINVAL for what is no plain file, ELOOP for a link that is not followed."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    number = os.open(path, flags if follows_links else flags | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "no plain file", path)
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise
