"""The bytes of one HTTP/2 connection, for clients and servers: h2 between a Trio stream and the handler of its events.

    stream ──► reader ──► frames ──► h2 ──► handle(event), synchronous
                            └─ messages and short headers of open streams, GOAWAY ──► handle
    stream ◄── writer ◄── outbox ◄── h2 ◄── any task: change h2, then flush(), synchronous

Only the two tasks of ``run`` use the stream, so a caller may be cancelled at any await without leaving a partial frame.
A caller changes h2 without a checkpoint and then calls ``flush``. Tasks that wait for flow control or for a full outbox
wait in ``room``; the limits bound the memory when the peer stops reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from h2.errors import ErrorCodes
from h2.events import RemoteSettingsChanged, WindowUpdated
from h2.exceptions import H2Error, ProtocolError
from h2.settings import SettingCodes
from hyperframe.frame import WindowUpdateFrame

from trikubelet.core.frames import Away, Block, FrameError, Frames, StreamData
from trikubelet.cri.bulk import FRAME_BYTES
from trikubelet.cri.goaway import GoAway
from trikubelet.cri.http2 import Http2, StreamGone
from trikubelet.cri.short import data_frame, headers_frame, short_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from h2.events import Event

    from trikubelet.cri.bulk import BulkMessage

# A Unix socket holds at most its sender's buffer, by default 208 KiB; one read never returns more.
RECEIVE_BYTES: Final = 256 * 1024
# Large windows, because a list of thousands of containers would otherwise wait for many window updates.
STREAM_WINDOW_BYTES: Final = 8 * 2**20
CONNECTION_WINDOW_BYTES: Final = 64 * 2**20
FRAME_BYTES_MAX: Final = 256 * 1024  # Go's servers send 16 KiB whatever we offer; only our servers use more
HEADER_BYTES_MAX: Final = 1 * 2**20  # a runtime's error text is a header, with all of runc's output
OUTBOX_BYTES_MAX: Final = 1 * 2**20
FAREWELL_SECONDS_MAX: Final = 0.5
_SHOWN_BYTES_MAX: Final = 80
_WINDOW_BYTES_AT_FIRST: Final = 65_535


class Wire:
    """Owns the bytes of one connection: only its two tasks read or write the stream."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        handle: Callable[[Event | StreamData | Block | GoAway], None],
        *,
        client: bool,
        message_bytes_max: int = 0,
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        self.h2 = Http2(client=client)
        self.frames = Frames(
            frame_bytes_max=FRAME_BYTES_MAX,
            message_bytes_max=message_bytes_max,
            serving=not client,
        )
        self.room = trio.lowlevel.ParkingLot()
        self.ended: str | None = None  # the reason, once the connection has ended
        self._stream = stream
        self._handle = handle
        self._on_room = on_room  # called when the outbox is no longer crowded
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._outbox_filled = trio.lowlevel.ParkingLot()
        self._connection_owed = 0
        self._scope = trio.CancelScope()

    @property
    def crowded(self) -> bool:
        """True if too much waits to be written, so that no more may be added."""
        return self._outbox_bytes >= OUTBOX_BYTES_MAX

    def greet(self, settings: Mapping[int, int]) -> None:
        """Send our settings, once, before ``run``. They apply after the peer has acknowledged them."""
        self.h2.initiate_connection()
        self.h2.update_settings(
            {
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
                SettingCodes.MAX_FRAME_SIZE: FRAME_BYTES_MAX,
                SettingCodes.MAX_HEADER_LIST_SIZE: HEADER_BYTES_MAX,
                **settings,
            }
        )
        self.h2.increment_flow_control_window(CONNECTION_WINDOW_BYTES - _WINDOW_BYTES_AT_FIRST)
        self.flush()

    async def run(self) -> None:
        """Read and write until the connection ends; ``ended`` is the reason then. Always closes the stream."""
        try:
            async with trio.open_nursery() as nursery:
                with self._scope:
                    nursery.start_soon(self._write)
                    await self._read()
                nursery.cancel_scope.cancel()
        finally:
            self._end("closed by us")
            await trio.aclose_forcefully(self._stream)

    async def emptied(self) -> None:
        """Wait until the outbox is written, or the connection has ended."""
        await trio.lowlevel.checkpoint()
        while self._outbox_bytes and self.ended is None:
            await self.room.park()

    def close(self) -> None:
        """Make ``run`` end soon. May be called from any task."""
        self._scope.cancel()

    # ---- sending, for both ends ----

    def flush(self, extra: bytes = b"") -> None:
        """Pass h2's pending output, and then ``extra``, to the writer. Must be called after each change of h2."""
        data = self.h2.data_to_send() + extra
        if data and self.ended is None:
            self._outbox.append(data)
            self._outbox_bytes += len(data)
            if self._outbox_filled:  # a check costs less than an unpark without waiters, and this runs for each call
                self._outbox_filled.unpark_all()

    def open_stream(self, block: bytes) -> int:
        """Begin a stream with an encoded header block. Return its number."""
        stream_id = self.h2.stream_begun()
        self.flush(headers_frame(stream_id, block))
        return stream_id

    def say_headers(self, stream_id: int, headers: list[tuple[str, str]], *, end: bool) -> None:
        """Send HEADERS on a stream that the peer has opened; does nothing if it has ended meanwhile."""
        try:
            self.h2.send_headers(stream_id, headers, end_stream=end)
        except ProtocolError:
            return
        self.flush()

    async def send_body(self, stream_id: int, body: bytes, *, end: bool) -> None:
        """Send DATA as flow control and the outbox permit. Raises StreamGone."""
        rest = memoryview(body)
        while True:
            window = self._window(stream_id)
            if window > 0 and not self.crowded:
                size = min(window, self.h2.max_outbound_frame_size)
                part, rest = rest[:size], rest[size:]
                self.h2.data_sent(stream_id, len(part), end=end and not rest)
                self.flush(data_frame(stream_id, part, end=end and not rest))
                if not rest:
                    return
            else:
                await self.room.park()

    async def send_bulk(self, message: BulkMessage) -> None:
        """Send a large message as flow control and the outbox permit. Raises StreamGone."""
        while message.left:
            window = self._window(message.stream_id)
            if window > 0 and not self.crowded:
                size = min(window, message.left, OUTBOX_BYTES_MAX)
                self.h2.data_sent(message.stream_id, size)
                self.flush(message.take(size))
            else:
                await self.room.park()

    def answer(self, stream_id: int, body: bytes) -> bool:
        """Send a short, complete answer, which ends the stream. Return False, without sending anything, if it cannot be
        sent at once. Raises StreamGone."""
        if len(body) > min(self._window(stream_id), FRAME_BYTES) or self.crowded:
            return False
        self.h2.data_sent(stream_id, len(body), end=True)
        self.flush(short_answer(stream_id, body))
        return True

    def _window(self, stream_id: int) -> int:
        if self.ended is not None:
            raise StreamGone(self.ended)
        return self.h2.window(stream_id)

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """Reset one stream. Does nothing if it has ended already."""
        self.frames.close(stream_id)
        try:
            self.h2.reset_stream(stream_id, code)
        except ProtocolError:
            return
        self.flush()

    def give_back_unseen(self, stream_id: int, flow_bytes: int) -> None:
        """Open the window of a stream, or of the connection (0), for DATA that bypassed h2. This must bypass h2, too:
        otherwise it would count the windows as larger than they are, and finally refuse to open them."""
        self.flush(WindowUpdateFrame(stream_id, window_increment=flow_bytes).serialize())

    def read(self, data: bytes) -> list[Event]:
        """Pass received data to h2. Handle its events and return them."""
        events = self.h2.receive_data(data)
        for event in events:
            self._handle(event)
            if isinstance(event, WindowUpdated | RemoteSettingsChanged):
                self.room.unpark_all()
        return events

    # ---- the two tasks ----

    async def _read(self) -> None:
        while self.ended is None:
            # Answers to pings and settings would pile up if the peer sends but does not read.
            while self._outbox_bytes >= 4 * OUTBOX_BYTES_MAX:
                await self.room.park()
            try:
                data = await self._stream.receive_some(RECEIVE_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self._end(f"connection broken: {error.__cause__ or error}")
                return
            if not data:
                self._end("closed by the other side")
                return
            try:
                self._take(bytes(data))
            except (H2Error, FrameError) as error:
                broken = str(error) if isinstance(error, FrameError) else f"{type(error).__name__} {error}"
                await self._say_goaway(f"not HTTP/2 as we know it: {_shown(data) or broken}")
                return

    def _take(self, data: bytes) -> None:
        for piece in self.frames.feed(data):
            if isinstance(piece, StreamData):
                self._count_data(piece.flow_bytes)
                if piece.ends:
                    self.h2.end_received(piece.stream_id)
                self._handle(piece)
            elif isinstance(piece, Block):
                self._handle(piece)
            elif isinstance(piece, Away):
                self._handle(GoAway.read(piece.payload))
            else:
                self.read(piece)
        self.flush()

    def _count_data(self, flow_bytes: int) -> None:
        # Only the connection's window. Readers open their streams' windows, so an unread call does not block others.
        self._connection_owed += flow_bytes
        if self._connection_owed >= CONNECTION_WINDOW_BYTES // 2:
            self.give_back_unseen(0, self._connection_owed)
            self._connection_owed = 0

    async def _say_goaway(self, reason: str) -> None:
        """Send the GOAWAY that h2 has prepared, if the peer still reads."""
        self.flush()
        farewell, self._outbox = b"".join(self._outbox), []
        self._end(reason)
        with trio.move_on_after(FAREWELL_SECONDS_MAX):
            try:
                await self._stream.send_all(farewell)
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
                return

    async def _write(self) -> None:
        while True:
            while not self._outbox:
                await self._outbox_filled.park()
            batch, self._outbox = b"".join(self._outbox), []
            try:
                await self._stream.send_all(batch)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self._end(f"connection broken: {error.__cause__ or error}")
                self.close()
                return
            was_crowded = self.crowded
            self._outbox_bytes -= len(batch)
            self.room.unpark_all()
            if was_crowded and not self.crowded:
                self._on_room()

    def _end(self, reason: str) -> None:
        if self.ended is None:
            self.ended = reason
            self.room.unpark_all()


def _shown(data: bytes | bytearray) -> str:
    """Return the first line of an HTTP/1 answer, which an HTTP/1 server sends for HTTP/2; "" for other data."""
    line = bytes(data[:_SHOWN_BYTES_MAX]).split(b"\r\n", 1)[0]
    return f'it answers "{line.decode("ascii", "replace")}"' if line.startswith(b"HTTP/") else ""
