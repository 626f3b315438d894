"""A stream whose first bytes were read already, by the reader before: the next reader gets those first.

The reader of an HTTP message's head may have read what follows it, and after a change of protocol those bytes belong to
another reader.
"""

from __future__ import annotations

import trio


class ReadAhead(trio.abc.Stream):
    """Owns the bytes that were read too early; all else is the stream's below."""

    def __init__(self, stream: trio.abc.Stream, early: bytes) -> None:
        self._stream = stream
        self._early = early

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Return the bytes that were read early, then those that come. Raises what the stream below raises."""
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
