"""Connecting to a Unix socket in Trio.

Trio's own ``open_unix_socket`` takes a queue that is full for a connection under way, as it would be over TCP, and
returns a socket that is connected to no server: the first use of it fails with another error (EINVAL), which names
another cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.kit.unix_connection import connected

if TYPE_CHECKING:
    import os


async def connect_unix(path: str | os.PathLike[str]) -> trio.SocketStream:
    """Return a connection to the listener at ``path``. Raises OSError; BlockingIOError where the queue of connections
    that wait to be accepted is full."""
    await trio.lowlevel.checkpoint()
    return trio.SocketStream(trio.socket.from_stdlib_socket(connected(path)))
