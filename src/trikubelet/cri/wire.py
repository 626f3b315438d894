"""The bytes of one HTTP/2 connection, for both ends: h2 between a Trio stream and whoever understands the events.

    stream ──► reader ──► FrameTap ──► h2 ──► handle(event), synchronous
    stream ◄── writer ◄── outbox   ◄── h2 ◄── anyone: change h2, then flush(), synchronous

Nobody but the two tasks of ``run`` touches the stream, so a caller may be cancelled at any await without leaving half a
frame behind. Whoever changes h2 does so without a checkpoint and calls ``flush``. What waits for flow control or for a
full outbox waits in ``room``; the limits hold memory down when the other side stops reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import RemoteSettingsChanged, WindowUpdated
from h2.exceptions import H2Error, ProtocolError
from h2.settings import SettingCodes

from trikubelet.cri.goaway import FrameTap, GoAway

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from h2.events import Event

RECEIVE_BYTES: Final = 128 * 1024
# Large windows: a list of thousands of containers should not wait for one window update after another.
STREAM_WINDOW_BYTES: Final = 8 * 2**20
CONNECTION_WINDOW_BYTES: Final = 64 * 2**20
FRAME_BYTES_MAX: Final = 256 * 1024  # Go's servers send 16 KiB whatever we offer; ours make use of it
HEADER_BYTES_MAX: Final = 1 * 2**20  # a runtime's error text travels in a header, with all of runc's output
OUTBOX_BYTES_MAX: Final = 1 * 2**20
FAREWELL_SECONDS_MAX: Final = 0.5
_PREFACE_BYTES: Final = 24
_WINDOW_BYTES_AT_FIRST: Final = 65_535


class StreamGone(Exception):
    """The HTTP/2 stream, or its connection, has ended; what there was to send is of no use any more."""


class _H2(H2Connection):
    # How many ended streams h2 remembers. Its default of 65,536 is some 6 MB in an agent that runs for months.
    MAX_CLOSED_STREAMS = 4096


class Wire:
    """Owns the bytes of one connection: only its two tasks read or write the stream."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        handle: Callable[[Event | GoAway], None],
        *,
        client: bool,
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        # h2's validation of incoming headers is off, too: it ends the whole connection over an error text with a
        # blank at its end, as Go's servers send it. We look at six fields, and those carefully.
        self.h2 = _H2(
            H2Configuration(
                client_side=client,
                validate_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
                header_encoding=None,
            )
        )
        self.room = trio.lowlevel.ParkingLot()
        self.ended: str | None = None  # why, once it has
        self._stream = stream
        self._handle = handle
        self._on_room = on_room  # the outbox is not crowded any more
        self._tap = FrameTap(FRAME_BYTES_MAX, skip_bytes=0 if client else _PREFACE_BYTES)
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._outbox_filled = trio.lowlevel.ParkingLot()
        self._connection_owed = 0
        self._scope = trio.CancelScope()

    @property
    def crowded(self) -> bool:
        """Whether so much waits to be written that nobody should add to it."""
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
        """Wait until everything handed to the writer is written, or the connection has ended."""
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
            self._outbox_filled.unpark_all()

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
                part, rest = rest[:window], rest[window:]
                self.h2.send_data(stream_id, part, end_stream=end and not rest)
                self.flush()
                if not rest:
                    return
            else:
                await self.room.park()

    def _window(self, stream_id: int) -> int:
        if self.ended is not None:
            raise StreamGone(self.ended)
        try:
            return min(self.h2.local_flow_control_window(stream_id), self.h2.max_outbound_frame_size)
        except ProtocolError as error:
            raise StreamGone(str(error)) from error

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """End one stream at once. One that has ended already is left alone."""
        try:
            self.h2.reset_stream(stream_id, code)
        except ProtocolError:
            return
        self.flush()

    def received(self, flow_bytes: int) -> None:
        """Count DATA against the connection's window and give it back. The stream's own window is its reader's affair:
        one call whose answers nobody fetches must not hold up the others."""
        self._connection_owed += flow_bytes
        if self._connection_owed >= CONNECTION_WINDOW_BYTES // 2:
            self.h2.increment_flow_control_window(self._connection_owed)
            self._connection_owed = 0

    def give_back(self, stream_id: int, flow_bytes: int) -> bool:
        """Open one stream's window again. Returns False when the stream has ended, which is no error."""
        try:
            self.h2.increment_flow_control_window(flow_bytes, stream_id)
        except (ProtocolError, KeyError):  # h2 looks up streams it has forgotten without asking
            return False
        self.flush()
        return True

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
            except H2Error as error:
                await self._last_words(f"not HTTP/2 as we know it: {type(error).__name__} {error}")
                return

    def _take(self, data: bytes) -> None:
        for piece in self._tap.feed(data):
            events: list[Event | GoAway] = [piece] if isinstance(piece, GoAway) else [*self.h2.receive_data(piece)]
            for event in events:
                self._handle(event)
                if isinstance(event, WindowUpdated | RemoteSettingsChanged):
                    self.room.unpark_all()
        self.flush()

    async def _last_words(self, reason: str) -> None:
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
