"""Sends to a client and keeps what is sent whole: amid a frame or a TLS record no closing message can be sent.

    either(…, sender.finishes)   send_all ─► sent
                                    └ cancelled: a second more ─► sent ─► end: the closing message ─► closed
                                                             └► torn ─► end: ────────────────────────► closed

Who reads slower than the other end writes is being sent something nearly always, so also when the agent goes down. The
second is one for both: for what is being sent, and for the closing message.
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
"""For a client to take what it is being sent, and to receive why we end a conversation."""


class ClientSender:
    """Owns whether what was sent to a client went out whole, and until when it may still be sent something."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._under_way = trio.CancelScope()
        self._is_guarded = False  # ``finishes`` runs, and will end the shield
        self._is_torn = False
        self._until: float | None = None

    async def finishes(self, _: Silence) -> None:
        """A part of a conversation (``relay.either``): while it runs, what is being sent when the parts are cancelled
        may go on for ``CLOSING_SECONDS_MAX``. One task for all that is sent costs less than one for each."""
        self._is_guarded = self._under_way.shield = True
        try:
            await trio.sleep_forever()
        finally:
            self._is_guarded = False
            self._until = self._under_way.deadline = trio.current_time() + CLOSING_SECONDS_MAX

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send. Who is cancelled at the beginning has sent nothing. Raises what the stream raises."""
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.CancelScope(shield=self._is_guarded) as self._under_way:
            self._is_torn = True
            await self._stream.send_all(data)
            self._is_torn = False
        if self._under_way.cancelled_caught:
            await trio.lowlevel.checkpoint()  # its second is over, so the parts are cancelled, and this raises it

    async def end(self, closing_message: Callable[[], Awaitable[None]]) -> None:
        """Send the closing message, if nothing was torn and the client still reads, and close the stream."""
        until = trio.current_time() + CLOSING_SECONDS_MAX if self._until is None else self._until
        with trio.CancelScope(deadline=until, shield=True), suppress(*GONE):
            if not self._is_torn:
                await closing_message()
        await trio.aclose_forcefully(self._stream)
