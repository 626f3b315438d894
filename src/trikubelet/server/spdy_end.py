"""One end of a SPDY connection whose frames are passed on unread, and whose pings are answered here.

    client ── frames ─► SpdyEnd ── the same ─► SpdyEnd ── frames ─► runtime
           ◄─ pong ──┘ for a ping            └─ for a ping ── pong ─►

Go's clients ping every few seconds. If a ping were passed on, it might be unread at the runtime when the process has
ended and the runtime closes its socket. The kernel resets a connection that is closed so, and discards unsent data: the
end of the output. And a ping is not activity, so it does not keep a forgotten ``kubectl exec`` alive.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core import spdy
from trikubelet.server.relay import GONE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

PONGS_MAX: Final = 64
"""Pongs that wait for another send to finish; beyond that the oldest are dropped. Go's side has one ping at a time."""


class SpdyEnd(trio.abc.Stream):
    """Owns the position in the other end's frames, and its unanswered pings."""

    def __init__(
        self, stream: trio.abc.Stream, *, is_client: bool, send: Callable[[bytes], Awaitable[None]] | None = None
    ) -> None:
        """``is_client``: the other end is the connection's client, whose pings have odd numbers. ``send``: sends to the
        other end, by default ``stream``."""
        self.frames = spdy.WholeFrames()
        self._stream = stream
        self._is_client = is_client
        self._send_below = send or stream.send_all
        self._sending = trio.Lock()
        self.unsent: bytes | bytearray | memoryview = b""
        """The unsent rest of ``send_all``'s data, while it runs or after it was cancelled."""
        self._pongs: deque[int] = deque(maxlen=PONGS_MAX)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return whole frames; b"" at the end, and for data that is not SPDY. Raises the stream's errors."""
        while data := await self._stream.receive_some(max_bytes):
            try:
                passed = self.frames.feed(data)
            except spdy.NotSpdy as error:
                log.debug("Closing a stream that is not SPDY/3.1: %s", error)
                return b""
            # A number of the other parity is itself a pong, which must not be answered.
            self._pongs += [number for number in passed.pings if number % 2 == self._is_client]
            if self._pongs and not self._sending.locked():  # otherwise the sender in progress sends them
                with suppress(*GONE):  # and it may have sent more before it went
                    async with self._sending:
                        await self._answer_pings()
            if passed.frames:
                return passed.frames
        return b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send whole frames. Raises the stream's errors."""
        self.unsent = data
        async with self._sending:
            await self._send(data)
            self.unsent = b""
            await self._answer_pings()

    async def _answer_pings(self) -> None:
        while self._pongs:
            await self._send(b"")

    async def _send(self, data: bytes | bytearray | memoryview) -> None:
        pongs = [spdy.ping(number) for number in self._pongs]
        self._pongs.clear()
        await self._send_below(b"".join((*pongs, data)))

    async def wait_send_all_might_not_block(self) -> None:
        """Wait like the stream below."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._stream.aclose()
