"""Connects to a Unix socket in Trio.

Trio's ``open_unix_socket`` treats a full queue as a connection in progress, as with TCP, and returns a socket that is
not connected: its first use fails with an unrelated error (EINVAL).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.kit.unix_connection import connected

if TYPE_CHECKING:
    import os


async def connect_unix(path: str | os.PathLike[str]) -> trio.SocketStream:
    """Return a connection to the listener at ``path``. Raises OSError; BlockingIOError if the listener's queue of
    connections is full."""
    await trio.lowlevel.checkpoint()
    return trio.SocketStream(trio.socket.from_stdlib_socket(connected(path)))
