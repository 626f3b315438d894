"""A connection that speaks SPDY and is passed on unread: in whole frames, and its pings are answered here.

    client ── frames ─► SpdyEnd ── the same ─► SpdyEnd ── frames ─► runtime
           ◄─ pong ──┘ for a ping            └─ for a ping ── pong ─►

Go's clients ping every few seconds. Passed on to the runtime, a ping might lie there unread when the process has ended
and the runtime closes its socket; the kernel resets a connection that is closed so, and throws away what was not sent
yet: the end of the output. And a ping is no speech, so it does not keep a forgotten ``kubectl exec`` alive.
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
"""That wait until others are through with sending; of more, the first are not answered. Go's side has one at a time."""


class SpdyEnd(trio.abc.Stream):
    """Owns where in its frames the other end is, and which of its pings it was not answered yet."""

    def __init__(
        self, stream: trio.abc.Stream, *, is_client: bool, send: Callable[[bytes], Awaitable[None]] | None = None
    ) -> None:
        """``is_client``: whether the other end is the connection's client, whose pings have odd numbers. ``send``: by
        what it is sent something, if not by ``stream``."""
        self.frames = spdy.WholeFrames()
        self._stream = stream
        self._is_client = is_client
        self._send_below = send or stream.send_all
        self._sending = trio.Lock()
        self.unsent: bytes | bytearray | memoryview = b""
        """What ``send_all`` was given and has not sent, while it is under way or after it was cancelled."""
        self._pongs: deque[int] = deque(maxlen=PONGS_MAX)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Whole frames; b"" at the end, and for what is no SPDY. Raises what the stream below raises."""
        while data := await self._stream.receive_some(max_bytes):
            try:
                passed = self.frames.feed(data)
            except spdy.NotSpdy as error:
                log.debug("A stream ends, for this is no SPDY/3.1: %s", error)
                return b""
            # A number of the other parity is itself a pong, which must not be answered.
            self._pongs += [number for number in passed.pings if number % 2 == self._is_client]
            if self._pongs and not self._sending.locked():  # who is sending will see to it
                with suppress(*GONE):  # and it may have said more before it went
                    async with self._sending:
                        await self._answer_pings()
            if passed.frames:
                return passed.frames
        return b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send whole frames. Raises what the stream below raises."""
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
        """As the stream below."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._stream.aclose()
