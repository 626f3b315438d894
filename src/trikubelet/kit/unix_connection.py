"""Connects to a Unix socket without waiting: the connection is accepted or refused at once."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os


def connected(path: str | os.PathLike[str]) -> socket.socket:
    """Return a non-blocking connection to the listener at ``path``. Raises OSError; BlockingIOError if the listener's
    queue of connections is full."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.connect(str(path))  # never in progress for a Unix socket: it succeeds or fails at once
    except BlockingIOError as error:
        connection.close()
        why = "its queue is full: it does not accept connections"
        raise BlockingIOError(errno.EAGAIN, why, str(path)) from error
    except BaseException:
        connection.close()
        raise
    return connection
