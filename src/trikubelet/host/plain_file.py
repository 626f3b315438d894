"""Opening a file that may be foreign: put there by a container with access to the node's directories, say.

A pipe without a writer blocks already in ``open``, the event loop or a thread that never returns, and a device may be
read without end. So opening never blocks, and anything but a plain file is an error.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO


def open_plain(path: str, *, follows_links: bool = True) -> BinaryIO:
    """The file, to be read. Raises OSError; EINVAL for what is not a plain file, ELOOP for a link that is not
    followed."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    number = os.open(path, flags if follows_links else flags | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "no plain file", path)
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise
