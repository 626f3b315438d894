"""The bytes of one HTTP/2 connection, for both ends: h2 between a Trio stream and the part that understands the events.

    stream ──► reader ──► frames ──► h2 ──► handle(event), synchronous
                            └─ messages and short headers of opened streams, GOAWAY ──► handle
    stream ◄── writer ◄── outbox ◄── h2 ◄── anyone: change h2, then flush(), synchronous

Only the two tasks of ``run`` touch the stream, so a caller may be cancelled at any await without leaving half a frame
behind. A caller that changes h2 does so without a checkpoint and calls ``flush``. Tasks that wait for flow control or
for a full outbox wait in ``room``; the limits hold memory down when the other side stops reading.
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

# A Unix socket holds what its sender's buffer allows, 208 KiB unless it was changed; more never comes at once.
RECEIVE_BYTES: Final = 256 * 1024
# Large windows: a list of thousands of containers should not wait for one window update after another.
STREAM_WINDOW_BYTES: Final = 8 * 2**20
CONNECTION_WINDOW_BYTES: Final = 64 * 2**20
FRAME_BYTES_MAX: Final = 256 * 1024  # Go's servers send 16 KiB whatever we offer; ours make use of it
HEADER_BYTES_MAX: Final = 1 * 2**20  # a runtime's error text travels in a header, with all of runc's output
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
        self.ended: str | None = None  # why, once it has
        self._stream = stream
        self._handle = handle
        self._on_room = on_room  # the outbox is not crowded any more
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._outbox_filled = trio.lowlevel.ParkingLot()
        self._connection_owed = 0
        self._scope = trio.CancelScope()

    @property
    def crowded(self) -> bool:
        """True if so much waits to be written that no more should be added."""
        return self._outbox_bytes >= OUTBOX_BYTES_MAX

    def greet(self, settings: Mapping[int, int]) -> None:
        """Say what we are ready to receive, once, before ``run``. Ours are in force once the other side agrees."""
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
        """Read and write until the connection ends; ``ended`` then says why. Closes the stream in any case."""
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
        """Wait until everything given to the writer is written, or the connection has ended."""
        await trio.lowlevel.checkpoint()
        while self._outbox_bytes and self.ended is None:
            await self.room.park()

    def close(self) -> None:
        """End ``run``, soon, from any task."""
        self._scope.cancel()

    # ---- what both ends do with h2 ----

    def flush(self, extra: bytes = b"") -> None:
        """Hand what h2 wants sent, and then ``extra``, to the writer. To be called after every change of h2."""
        data = self.h2.data_to_send() + extra
        if data and self.ended is None:
            self._outbox.append(data)
            self._outbox_bytes += len(data)
            if self._outbox_filled:  # to wake no task costs more than to look, here and wherever each call comes by
                self._outbox_filled.unpark_all()

    def open_stream(self, block: bytes) -> int:
        """Begin a stream with a header block of ours; its number."""
        stream_id = self.h2.stream_begun()
        self.flush(headers_frame(stream_id, block))
        return stream_id

    def say_headers(self, stream_id: int, headers: list[tuple[str, str]], *, end: bool) -> None:
        """Send HEADERS on a stream the other side has opened; nothing when it has ended in the meantime."""
        try:
            self.h2.send_headers(stream_id, headers, end_stream=end)
        except ProtocolError:
            return
        self.flush()

    async def send_body(self, stream_id: int, body: bytes, *, end: bool) -> None:
        """Send DATA as flow control and the outbox let it. Raises StreamGone."""
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
        """Send a large message as flow control and the outbox let it. Raises StreamGone."""
        while message.left:
            window = self._window(message.stream_id)
            if window > 0 and not self.crowded:
                size = min(window, message.left, OUTBOX_BYTES_MAX)
                self.h2.data_sent(message.stream_id, size)
                self.flush(message.take(size))
            else:
                await self.room.park()

    def answer(self, stream_id: int, body: bytes) -> bool:
        """Send a short answer whole, and end the stream with it. Whether it could go at once; nothing is sent
        otherwise. Raises StreamGone."""
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
        """End one stream at once. One that has ended already is left alone."""
        self.frames.close(stream_id)
        try:
            self.h2.reset_stream(stream_id, code)
        except ProtocolError:
            return
        self.flush()

    def give_back_unseen(self, stream_id: int, flow_bytes: int) -> None:
        """Open the window of a stream, or with 0 the connection's, for DATA that h2 has not seen. It must not see this
        either: it would take the windows for larger than they are, until it refused to open them any more."""
        self.flush(WindowUpdateFrame(stream_id, window_increment=flow_bytes).serialize())

    def read(self, data: bytes) -> list[Event]:
        """Let h2 read what has come, and act on the events, which are returned as well."""
        events = self.h2.receive_data(data)
        for event in events:
            self._handle(event)
            if isinstance(event, WindowUpdated | RemoteSettingsChanged):
                self.room.unpark_all()
        return events

    # ---- the two tasks ----

    async def _read(self) -> None:
        while self.ended is None:
            # Answers to pings and settings pile up when the other side talks but does not read.
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
        # The streams' own windows are their readers' affair: a call whose answers are not fetched holds up no other.
        self._connection_owed += flow_bytes
        if self._connection_owed >= CONNECTION_WINDOW_BYTES // 2:
            self.give_back_unseen(0, self._connection_owed)
            self._connection_owed = 0

    async def _say_goaway(self, reason: str) -> None:
        """Send the GOAWAY that h2 has prepared, if the other side will have it."""
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
    """The first line of an answer in HTTP/1, which a server of that gives to what it cannot understand; else empty."""
    line = bytes(data[:_SHOWN_BYTES_MAX]).split(b"\r\n", 1)[0]
    return f'it answers "{line.decode("ascii", "replace")}"' if line.startswith(b"HTTP/") else ""
