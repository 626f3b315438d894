"""A stream of which somebody has already read a little more than was for him: the next reader gets that first.

Whoever reads the head of an HTTP message may have read what follows it, and after a change of protocol that belongs to
another one.
"""

from __future__ import annotations

import trio


class ReadAhead(trio.abc.Stream):
    """Owns the bytes that were read too early; all else is the stream's below."""

    def __init__(self, stream: trio.abc.Stream, early: bytes) -> None:
        self._stream = stream
        self._early = early

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """What was read early, then what comes. Raises what the stream below raises."""
        if not self._early:
            return await self._stream.receive_some(max_bytes)
        await trio.lowlevel.checkpoint()
        size = len(self._early) if max_bytes is None else max_bytes
        data, self._early = self._early[:size], self._early[size:]
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """To the stream below. Raises what it raises."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """As the stream below."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._stream.aclose()
