"""Connecting to a Unix socket.

Trio's own ``open_unix_socket`` takes a queue that is full for a connection under way, as it would be over TCP, and
returns a socket that is connected to nobody: the first use of it fails with another error (EINVAL), which names another
cause.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    import os


async def connect_unix(path: str | os.PathLike[str]) -> trio.SocketStream:
    """A connection to whoever listens at ``path``. Raises OSError; BlockingIOError where the queue of connections that
    wait to be accepted is full."""
    await trio.lowlevel.checkpoint()
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
    return trio.SocketStream(trio.socket.from_stdlib_socket(connection))
