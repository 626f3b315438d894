"""The server's side of a SPDY connection on Trio: streams that a client opens, each a two-way stream of its own.

    run ── frames ──► SYN_STREAM: a new stream, for ``opened`` ─► DATA: its ``receive_some`` ─► FIN, RST: b""
        ◄─ frames ── its ``send_all``, ``send_eof``

SPDY has no windows here (``core.spdy``), so a stream that is not read holds up the connection, and with it the client:
nothing is kept but one piece. A closed stream throws away the data that still comes for it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core import spdy

if TYPE_CHECKING:
    from collections.abc import Mapping

STREAMS_MAX: Final = 1000
"""Open at once in a connection; further ones are reset."""
STREAMS_SECONDS_MAX: Final = 30.0
"""For the client to open the streams that belong together (upstream's DefaultStreamCreationTimeout)."""
DATA_BYTES_MAX: Final = 32 * 1024
"""The payload of one frame, so that streams take turns."""
FAREWELL_SECONDS_MAX: Final = 1.0
"""For a client to close, having read all, before its connection is closed."""
_RECEIVE_BYTES: Final = 64 * 1024


class SpdyStream(trio.abc.HalfCloseableStream):
    """Owns one stream, from the client's SYN_STREAM on. ``headers`` are what that said, names in lower case."""

    def __init__(self, session: Session, stream_id: int, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self._session = session
        self._id = stream_id
        self._arriving, self._arrived = trio.open_memory_channel[bytes](0)
        self._rest = b""
        self._said_all = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the client's next data; b"" at its end. Raises trio.ClosedResourceError."""
        if not self._rest:
            try:
                self._rest = await self._arrived.receive()
            except trio.EndOfChannel:
                return b""
        else:
            await trio.lowlevel.checkpoint()
        size = len(self._rest) if max_bytes is None else max_bytes
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """To the client, as fast as it takes it. Raises trio.BrokenResourceError."""
        for at in range(0, len(data), DATA_BYTES_MAX):
            await self._session.send(spdy.data(self._id, bytes(data[at : at + DATA_BYTES_MAX])))

    async def wait_send_all_might_not_block(self) -> None:
        """Nothing is known of that."""
        await trio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        """Nothing more is sent to the client on this stream. Raises trio.BrokenResourceError."""
        if not self._said_all:
            self._said_all = True
            await self._session.send(spdy.data(self._id, b"", ends=True))

    def deafen(self) -> None:
        """Stop reading: data that still comes for it is thrown away, and holds up no other stream."""
        self._arrived.close()

    async def aclose(self) -> None:
        """End it in both directions."""
        self._arrived.close()
        self._session.forget(self._id)
        with suppress(trio.BrokenResourceError):  # the client has gone
            await self.send_eof()

    # ---- for the session alone ----

    async def take(self, frame: spdy.Data) -> None:
        """DATA has come."""
        try:
            if frame.data:
                await self._arriving.send(frame.data)
        except trio.BrokenResourceError:
            return  # it has no reader any more
        if frame.ends:
            self._arriving.close()

    def end(self) -> None:
        """Nothing more will come."""
        self._arriving.close()


class Session:
    """Owns a connection, and which streams are open in it."""

    def __init__(self, connection: trio.abc.Stream) -> None:
        self._connection = connection
        self._writer = spdy.FrameWriter()
        self._sending = trio.Lock()
        self._streams: dict[int, SpdyStream] = {}
        self._opening, self.opened = trio.open_memory_channel[SpdyStream](STREAMS_MAX)
        self._over = trio.Event()

    async def run(self) -> None:
        """Read what the client says, until it has no more or says what is no SPDY."""
        reader = spdy.FrameReader()
        try:
            while data := await self._connection.receive_some(_RECEIVE_BYTES):
                for frame in reader.feed(data):
                    await self._hear(frame)
        except (spdy.NotSpdy, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone
        finally:
            self._over.set()
            self._opening.close()
            for stream in self._streams.values():
                stream.end()

    async def _hear(self, frame: spdy.Frame) -> None:
        match frame:
            case spdy.SynStream(stream_id, headers, ends):
                await self._open(stream_id, headers, ends=ends)
            case spdy.Data(stream_id):
                if stream := self._streams.get(stream_id):
                    await stream.take(frame)
            case spdy.Rst(stream_id):
                if stream := self._streams.pop(stream_id, None):
                    stream.end()
            case spdy.Ping(number):
                await self.send(spdy.ping(number))

    async def _open(self, stream_id: int, headers: Mapping[str, str], *, ends: bool) -> None:
        stream = SpdyStream(self, stream_id, headers)
        try:
            if len(self._streams) >= STREAMS_MAX:
                raise trio.WouldBlock
            self._opening.send_nowait(stream)
        except (trio.WouldBlock, trio.BrokenResourceError):
            await self.send(spdy.rst_stream(stream_id))
            return
        self._streams[stream_id] = stream
        async with self._sending:  # a header block must be sent before the next one is packed
            await self._connection.send_all(self._writer.syn_reply(stream_id))
        if ends:
            stream.end()

    async def send(self, data: bytes) -> None:
        """For the streams. Raises trio.BrokenResourceError."""
        async with self._sending:
            await self._connection.send_all(data)

    def forget(self, stream_id: int) -> None:
        """For the streams: one has been closed."""
        self._streams.pop(stream_id, None)

    def turn_down(self) -> None:
        """Refuse further streams: those that were not taken have no reader, and further ones are reset."""
        with suppress(trio.WouldBlock, trio.EndOfChannel):
            while True:
                self.opened.receive_nowait().deafen()
        self.opened.close()

    async def finish(self) -> None:
        """Send the client that this was all, and wait a moment until it has closed."""
        with trio.move_on_after(FAREWELL_SECONDS_MAX):
            try:
                await self.send(spdy.go_away(max(self._streams, default=0)))
            except trio.BrokenResourceError:
                return
            await self._over.wait()
