"""Sends to a client without tearing a frame or a TLS record: in the middle of one no closing message can be sent.

    either(…, sender.finishes)   send_all ─► sent
                                    └ cancelled: a second more ─► sent ─► end: the closing message ─► closed
                                                             └► torn ─► end: ────────────────────────► closed

To a client that reads slower than the process writes, a send is nearly always in progress, also when the agent stops.
The one second covers both the send in progress and the closing message.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.server.relay import GONE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trikubelet.server.relay import Silence

CLOSING_SECONDS_MAX: Final = 1.0
"""Time for a client to take the send in progress and the closing message, in seconds."""


class ClientSender:
    """Owns the state of sending to a client: whether its data went out whole, and the deadline for more."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._under_way = trio.CancelScope()
        self._is_guarded = False  # ``finishes`` runs, and will end the shield
        self._is_torn = False
        self._until: float | None = None

    async def finishes(self, _: Silence) -> None:
        """Shield sends as one part of a conversation (``relay.either``): while it runs, a send in progress may continue
        for ``CLOSING_SECONDS_MAX`` after the parts are cancelled. One task for all sends costs less than one for each.
        """
        self._is_guarded = self._under_way.shield = True
        try:
            await trio.sleep_forever()
        finally:
            self._is_guarded = False
            self._until = self._under_way.deadline = trio.current_time() + CLOSING_SECONDS_MAX

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send the data. If cancelled before it began, nothing was sent. Raises the stream's errors."""
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.CancelScope(shield=self._is_guarded) as self._under_way:
            self._is_torn = True
            await self._stream.send_all(data)
            self._is_torn = False
        if self._under_way.cancelled_caught:
            await trio.lowlevel.checkpoint()  # its second has expired, so the parts are cancelled, and this raises it

    async def end(self, closing_message: Callable[[], Awaitable[None]]) -> None:
        """Send the closing message, if no send was torn and the client still reads, and close the stream."""
        until = trio.current_time() + CLOSING_SECONDS_MAX if self._until is None else self._until
        with trio.CancelScope(deadline=until, shield=True), suppress(*GONE):
            if not self._is_torn:
                await closing_message()
        await trio.aclose_forcefully(self._stream)
