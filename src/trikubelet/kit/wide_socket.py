"""A TCP connection in large steps, for a caller that moves much between two of them.

Trio reads 64 KiB at a time unless asked for another size, and ``trio.SSLStream`` never asks; and it has the kernel take
no more than 16 KiB that were not sent yet. That keeps data fresh. A copied stream is not fresher for it: each step is a
turn of the event loop, and on a busy machine a turn of this process, while the other end waits.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final

import trio

STEP_BYTES: Final = 256 * 1024
"""Bytes of one reading. Four times as much as Trio's took 60 percent of the processor's time for a stream."""
UNSENT_BYTES_MAX: Final = 1024 * 1024
"""In the kernel, for each connection that is not read at its other end."""


class WideSocket(trio.abc.Stream):
    """Owns how much of a connection is read at once, and nothing of what is said over it."""

    def __init__(self, stream: trio.SocketStream, step_bytes: int = STEP_BYTES) -> None:
        """``step_bytes``: of one reading, which may be changed between two."""
        self.step_bytes = step_bytes
        self._stream = stream
        with suppress(OSError):  # not every network stack has it, as Trio knows, and the connection is good without
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)

    @property
    def socket(self) -> trio.socket.SocketType:
        """The socket below."""
        return self._stream.socket

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Return what has come, ``step_bytes`` of it by default. Raises what Trio's sockets raise."""
        return await self._stream.receive_some(self.step_bytes if max_bytes is None else max_bytes)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As Trio's sockets."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """As Trio's sockets."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """As Trio's sockets."""
        await self._stream.aclose()
