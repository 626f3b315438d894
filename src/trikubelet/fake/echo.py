"""Echoes where nothing runs: a process and a server that return their input, to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from trikubelet.streaming.process import Talk


async def echo_process(talk: Talk) -> int:
    """Copy stdin to stdout, and exit with 0 at its end; without stdin, at once."""
    while talk.stdin is not None and (data := await talk.stdin.receive_some()):
        if talk.stdout is not None:
            await talk.stdout.send_all(data)
    return 0


async def open_echo(_port: int) -> trio.abc.HalfCloseableStream:
    """A connection to any port."""
    await trio.lowlevel.checkpoint()
    return _Echo()


class _Echo(trio.abc.HalfCloseableStream):
    """Owns the input that was not returned yet: one piece."""

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
