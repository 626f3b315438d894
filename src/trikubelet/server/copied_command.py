"""A process' streams for a client that speaks SPDY, as its runtime does: bytes that are only copied, but for a status
at the end.

    client ── frames, of which we learn its streams' names ─► runtime
           ◄─ frames, of which we know whether they hold a status ─
           ◄─ the end of each stream, and a status ───────────────── where it is not the runtime that says so

Go's client takes an end without a status for a success, and ``kubectl exec`` would end with 0 because the agent goes
down amid its command, or because the runtime's connection broke amid its output. So the client is sent why there is no
more. Who was sent all has time to take it: a ping that comes to a closed socket would throw away what was not sent yet.
(core.remote_command: the error stream holds the status, last; ``spdy_end``)
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from trikubelet.core import spdy
from trikubelet.core.remote_command import STREAM_TYPE, StreamChannel, channels, failure
from trikubelet.kit.wide_socket import STEP_BYTES
from trikubelet.server.client_sender import ClientSender
from trikubelet.server.relay import GOING_DOWN, GONE, UNSAID, silent
from trikubelet.server.spdy_end import SpdyEnd

if TYPE_CHECKING:
    from trikubelet.model.standard_streams import StandardStreams

OPENING_BYTES_MAX: Final = 16 * 1024
"""Of the client's, in which its streams are looked for: five openings are some hundred bytes."""


LEAVE_SECONDS_MAX: Final = 30.0
"""For a client that was sent all to take it, and to end the connection: Go's do when they have the status."""


class CopiedCommand(trio.abc.Stream):
    """Owns which of the wanted streams a client has opened, and the status it is sent last."""

    def __init__(self, client: trio.abc.Stream, runtime: trio.abc.Stream, streams: StandardStreams) -> None:
        self.sender = ClientSender(client)
        """What is sent to the client; its ``finishes`` runs in parallel to the copying."""
        self.runtime = SpdyEnd(runtime, is_client=False)
        """What the client is to be joined with."""
        self._client = SpdyEnd(client, is_client=True, send=self.sender.send_all)
        self._wanted = {channel.stream_type for channel in channels(streams)}
        self._opened: dict[str, int] = {}
        self._opening = spdy.FrameReader()
        self._opening_bytes_left = OPENING_BYTES_MAX
        self._close_reason: str | None = GOING_DOWN

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """What the client says. Raises what its stream raises."""
        data = await self._client.receive_some(max_bytes)
        if not data:
            self._close_reason = None
        elif self._opening_bytes_left:
            self._learn(data[: self._opening_bytes_left])
        return data

    def _learn(self, data: bytes) -> None:
        """Which streams there are, until all are known: they are opened before anything else is said."""
        self._opening_bytes_left -= len(data)
        try:
            opened = [frame for frame in self._opening.feed(data) if isinstance(frame, spdy.SynStream)]
        except spdy.NotSpdy:
            self._opening_bytes_left = 0  # the runtime will complain
            return
        ids_by_type = {frame.headers.get(STREAM_TYPE, ""): frame.stream_id for frame in opened}
        self._opened |= {kind: stream_id for kind, stream_id in ids_by_type.items() if kind in self._wanted}
        # Whether a status was sent is seen by data on the error stream; 0 is no stream.
        self.runtime.frames.watched = self._opened.get(StreamChannel.ERROR.stream_type, 0)
        if len(self._opened) == len(self._wanted):
            self._opening_bytes_left = 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """What the runtime says. Raises what the client's stream raises."""
        await self._client.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """As the stream below."""
        await self._client.wait_send_all_might_not_block()

    async def has_ended(self) -> None:
        """One of the two has ended it. If it was the runtime, the client has ``LEAVE_SECONDS_MAX`` to hear all."""
        if self._close_reason is None:
            return
        is_status_sent = self.runtime.frames.is_heard
        self._close_reason = None if is_status_sent else UNSAID
        with trio.move_on_after(LEAVE_SECONDS_MAX), suppress(*GONE):
            if is_status_sent or await self._send_status():
                await self._wait_for_close()

    def ends_by_silence(self, seconds: float) -> None:
        """``aclose`` will say that nothing was said for so long; otherwise, that the agent is going down."""
        self._close_reason = silent(seconds)

    async def aclose(self) -> None:
        """Say why it ends, if it is we who end it and somebody listens, and close the stream below."""
        await self.sender.end(self._closing_message)

    async def _closing_message(self) -> None:
        if await self._send_status():
            await self._wait_for_close()

    async def _wait_for_close(self) -> None:
        """To close over what was not read would take away again what it was sent last (the kernel resets the
        connection)."""
        while await self._client.receive_some(STEP_BYTES):
            pass

    async def _send_status(self) -> bool:
        """Send the status; whether there was one to send, and a stream for it."""
        error = self._opened.pop(StreamChannel.ERROR.stream_type, None)
        if self._close_reason is None or error is None:
            return False
        # Whoever waits for a status waits for the output's end, too.
        last = [spdy.data(stream_id, b"", ends=True) for stream_id in self._opened.values()]
        status = spdy.data(error, msgspec.json.encode(failure(self._close_reason)), ends=True)
        await self._client.send_all(b"".join((self._client.unsent, *last, status)))
        return True
