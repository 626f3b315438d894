"""Connecting to a Unix socket without waiting: one is connected, or refused, at once."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os


def connected(path: str | os.PathLike[str]) -> socket.socket:
    """A connection to the process that listens at ``path``, not blocking. Raises OSError; BlockingIOError where the
    queue of connections that wait to be accepted is full."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.connect(str(path))  # of a Unix socket it is never under way: it is made, or it has failed
    except BlockingIOError as error:
        connection.close()
        why = "its queue is full: it does not accept connections"
        raise BlockingIOError(errno.EAGAIN, why, str(path)) from error
    except BaseException:
        connection.close()
        raise
    return connection
