"""What answers where nothing runs: a process and a server that say back what they are told, to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from trikubelet.streaming.process import Talk


async def echo_process(talk: Talk) -> int:
    """Say on stdout what comes on stdin, and end well with it; without stdin, at once."""
    while talk.stdin is not None and (data := await talk.stdin.receive_some()):
        if talk.stdout is not None:
            await talk.stdout.send_all(data)
    return 0


async def open_echo(_port: int) -> trio.abc.HalfCloseableStream:
    """A connection to a port, whichever it is."""
    await trio.lowlevel.checkpoint()
    return _Echo()


class _Echo(trio.abc.HalfCloseableStream):
    """Owns what was said to it and not yet said back: one piece."""

    def __init__(self) -> None:
        self._said, self._heard = trio.open_memory_channel[bytes](0)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._said.send(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()
        self._said.close()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        try:
            return await self._heard.receive()
        except trio.EndOfChannel:
            return b""

    async def aclose(self) -> None:
        self._said.close()
        self._heard.close()
        await trio.lowlevel.checkpoint()
