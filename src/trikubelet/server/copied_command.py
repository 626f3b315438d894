"""The streams of a process for a client that speaks SPDY, like its runtime: bytes are copied, plus a status at the end.

    client ── frames, from which the names of its streams are read ─► runtime
           ◄─ frames, of which we know whether they hold a status ────
           ◄─ the end of each stream, and a status ──────────────────── where the runtime sends none

Go's client takes an end without a status for a success, so ``kubectl exec`` would exit with 0 when the agent stops or
the runtime's connection breaks in the middle of a command. So the client gets the reason as a status. After the last
byte the client has time to read, because a ping that arrives at a closed socket would discard unsent data.
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
"""Bytes from the client that are searched for its streams: five openings take a few hundred bytes."""


LEAVE_SECONDS_MAX: Final = 30.0
"""Time for a client to read everything and to close the connection, in seconds. Go's clients close once they have the
status."""


class CopiedCommand(trio.abc.Stream):
    """Owns the streams that a client has opened, and the status that it is sent last."""

    def __init__(self, client: trio.abc.Stream, runtime: trio.abc.Stream, streams: StandardStreams) -> None:
        self.sender = ClientSender(client)
        """Sends to the client; its ``finishes`` runs next to the copying."""
        self.runtime = SpdyEnd(runtime, is_client=False)
        """The runtime's end, which the client is connected with."""
        self._client = SpdyEnd(client, is_client=True, send=self.sender.send_all)
        self._wanted = {channel.stream_type for channel in channels(streams)}
        self._opened: dict[str, int] = {}
        self._opening = spdy.FrameReader()
        self._opening_bytes_left = OPENING_BYTES_MAX
        self._close_reason: str | None = GOING_DOWN

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive from the client. Raises its stream's errors."""
        data = await self._client.receive_some(max_bytes)
        if not data:
            self._close_reason = None
        elif self._opening_bytes_left:
            self._learn(data[: self._opening_bytes_left])
        return data

    def _learn(self, data: bytes) -> None:
        """Record the opened streams until all are known: they are opened before any other frame is sent."""
        self._opening_bytes_left -= len(data)
        try:
            opened = [frame for frame in self._opening.feed(data) if isinstance(frame, spdy.SynStream)]
        except spdy.NotSpdy:
            self._opening_bytes_left = 0  # the runtime will complain
            return
        ids_by_type = {frame.headers.get(STREAM_TYPE, ""): frame.stream_id for frame in opened}
        self._opened |= {kind: stream_id for kind, stream_id in ids_by_type.items() if kind in self._wanted}
        # A status was sent if the error stream has data; 0 is no stream.
        self.runtime.frames.watched = self._opened.get(StreamChannel.ERROR.stream_type, 0)
        if len(self._opened) == len(self._wanted):
            self._opening_bytes_left = 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send the runtime's data to the client. Raises the client stream's errors."""
        await self._client.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait like the stream below."""
        await self._client.wait_send_all_might_not_block()

    async def has_ended(self) -> None:
        """Note that one side has ended the conversation. If the runtime did, the client has ``LEAVE_SECONDS_MAX`` to
        read the rest."""
        if self._close_reason is None:
            return
        is_status_sent = self.runtime.frames.is_heard
        self._close_reason = None if is_status_sent else UNSAID
        with trio.move_on_after(LEAVE_SECONDS_MAX), suppress(*GONE):
            if is_status_sent or await self._send_status():
                await self._wait_for_close()

    def ends_by_silence(self, seconds: float) -> None:
        """Have ``aclose`` report an idle timeout; otherwise it reports that the agent stops."""
        self._close_reason = silent(seconds)

    async def aclose(self) -> None:
        """Send the reason, if this side ends the conversation and the client still reads, and close the stream
        below."""
        await self.sender.end(self._closing_message)

    async def _closing_message(self) -> None:
        if await self._send_status():
            await self._wait_for_close()

    async def _wait_for_close(self) -> None:
        """Wait for the client to close: closing a socket with unread data makes the kernel reset the connection, which
        would discard the data sent last."""
        while await self._client.receive_some(STEP_BYTES):
            pass

    async def _send_status(self) -> bool:
        """Send the status. Return True if there was one to send, and a stream for it."""
        error = self._opened.pop(StreamChannel.ERROR.stream_type, None)
        if self._close_reason is None or error is None:
            return False
        # A client that waits for a status waits for the output's end, too.
        last = [spdy.data(stream_id, b"", ends=True) for stream_id in self._opened.values()]
        status = spdy.data(error, msgspec.json.encode(failure(self._close_reason)), ends=True)
        await self._client.send_all(b"".join((self._client.unsent, *last, status)))
        return True
