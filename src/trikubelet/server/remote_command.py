"""Translates between a client that speaks WebSocket and a runtime that speaks SPDY, for the streams of a process.

    client ── message: channel, bytes ──► DATA of the channel's stream ──► runtime
           ── 255, channel ─────────────► its last DATA, with FIN
           ◄─ message: channel, bytes ─── DATA of the channel's stream ──
           ◄─ 3, the whole status; close ─ DATA of the error stream, its end

Runtimes have only version 4 over WebSocket, which cannot end stdin, but everything over SPDY; so versions 4 and 5 are
translated to SPDY. The runtime sends the status after all output, and its bytes are passed on in their order. So the
client has all output when it receives the end. Only the status is buffered. (core.remote_command, upstream's
translator)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core import spdy
from trikubelet.core.remote_command import CLOSE_CHANNEL, STREAM_TYPE, StreamChannel, channels
from trikubelet.core.websocket import CloseCode
from trikubelet.kit.wide_socket import STEP_BYTES
from trikubelet.server.relay import UNSAID, either, pass_on

if TYPE_CHECKING:
    from trikubelet.core.websocket import Piece
    from trikubelet.model.standard_streams import StandardStreams
    from trikubelet.server.relay import Silence
    from trikubelet.server.web_socket import WebSocket

STATUS_BYTES_MAX: Final = 64 * 1024


class RemoteCommand:
    """Owns the mapping of streams to channels, the status so far, and whether the client may still send."""

    def __init__(self, client: WebSocket, runtime: trio.abc.Stream, streams: StandardStreams) -> None:
        self._client = client
        self._runtime = runtime
        # SPDY: a client's streams have odd ids.
        self._ids = {channel: 2 * number + 1 for number, channel in enumerate(channels(streams))}
        self._channels = {stream_id: channel for channel, stream_id in self._ids.items()}
        self._to_runtime = trio.Lock()
        self._from_client = {StreamChannel.STDIN, StreamChannel.RESIZE} & self._ids.keys()
        self._channel: int | None = None  # of the current message
        self._status = bytearray()
        self._is_over = False  # the runtime has sent the status

    async def translate(self, idle_seconds_max: float) -> None:
        """Pass on data both ways until the process has ended, either side has gone, or the idle timeout expired. The
        close frame will have the reason."""
        await self._open()
        parts = self._inwards, self._outwards, self._client.sender.finishes
        if not await either(*parts, idle_seconds_max=idle_seconds_max):
            self._client.ends_by_silence(idle_seconds_max)

    async def _open(self) -> None:
        writer = spdy.FrameWriter()
        await self._runtime.send_all(
            b"".join(writer.syn_stream(id_, {STREAM_TYPE: channel.stream_type}) for channel, id_ in self._ids.items())
        )
        # By upstream's convention an empty message on the first readable channel tells a client that it is connected.
        output_channels = (StreamChannel.STDOUT, StreamChannel.STDERR, StreamChannel.ERROR)
        await self._client.send_all(bytes((next(one for one in output_channels if one in self._ids),)))

    # ---- from the client ----

    async def _inwards(self, silence: Silence) -> None:
        while pieces := await self._client.pieces():
            silence.broken()
            if said := b"".join(map(self._frame_for_runtime, pieces)):
                async with self._to_runtime:
                    await pass_on(said, self._runtime)

    def _frame_for_runtime(self, piece: Piece) -> bytes:
        """Return a piece of a message as a frame for the runtime; empty for a channel that the client cannot write."""
        data = piece.data
        if piece.begins:
            self._channel = None
        if self._channel is None and data:
            self._channel, data = data[0], data[1:]
        if not data:
            return b""
        if self._channel in self._from_client:
            return spdy.data(self._ids[StreamChannel(self._channel)], data)
        if self._channel == CLOSE_CHANNEL and data[0] in self._from_client:
            closed = StreamChannel(data[0])
            self._from_client.remove(closed)
            return spdy.data(self._ids[closed], b"", ends=True)
        return b""

    # ---- from the runtime ----

    async def _outwards(self, silence: Silence) -> None:
        reader = spdy.FrameReader()
        why = UNSAID
        try:
            while not self._is_over and (data := await self._runtime.receive_some(STEP_BYTES)):
                for frame in reader.feed(data):
                    if not isinstance(frame, spdy.Ping):
                        silence.broken()
                    await self._hear(frame)
        except spdy.NotSpdy as error:
            self._status.clear()
            why = f"the runtime does not speak SPDY/3.1: {error}"
        if self._status:
            await self._client.send_all(bytes((StreamChannel.ERROR,)) + self._status)
            self._client.ends_because(CloseCode.NORMAL, "")
        else:
            self._client.ends_because(CloseCode.INTERNAL_ERROR, why)

    async def _hear(self, frame: spdy.Frame) -> None:
        """Send the runtime's data to the client, except the status."""
        match frame:
            case spdy.Data(stream_id, data, ends):
                channel = self._channels.get(stream_id)
                if channel is StreamChannel.ERROR:
                    self._add_status(data)
                    self._is_over |= ends
                elif channel in (StreamChannel.STDOUT, StreamChannel.STDERR) and data:
                    await self._client.send_all(bytes((channel,)) + data)
            case spdy.Rst(stream_id) if self._channels.get(stream_id) is StreamChannel.ERROR:
                self._is_over = True  # Go's servers end so, after all data
            case spdy.Ping(number) if not self._to_runtime.locked():
                # A client that is being sent data needs no pong. Waiting here for the runtime could deadlock, because
                # the runtime may wait for us to read its output.
                async with self._to_runtime:
                    await self._runtime.send_all(spdy.ping(number))

    def _add_status(self, data: bytes) -> None:
        if len(self._status) + len(data) > STATUS_BYTES_MAX:
            raise spdy.NotSpdy(f"a status of more than {STATUS_BYTES_MAX} bytes")
        self._status += data
