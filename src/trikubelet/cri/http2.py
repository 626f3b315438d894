"""HTTP/2's state of one connection: h2, which is also notified of the frames that go past it.

Frames in which nothing is to be decided are written (``short``, ``bulk``) and read (``core.frames``) without h2, whose
tens of microseconds for each would be most of what a call costs. It keeps count of them all the same: which streams
there are, what the windows have left. It has no public words for that. Those it has are used here and nowhere else; a
test says whether a new h2 has them still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from h2.config import H2Configuration
from h2.connection import AllowedStreamIDs, ConnectionInputs, H2Connection
from h2.exceptions import ProtocolError
from h2.stream import StreamInputs
from hpack import HPACKError

if TYPE_CHECKING:
    from hpack import HeaderTuple

STREAMS_BEFORE_CLEARANCE: Final = 32
"""New streams after which h2 puts away those that have ended."""


class StreamGone(Exception):
    """The HTTP/2 stream, or its connection, has ended; what there was to send is of no use any more."""


class Http2(H2Connection):
    """Owns the states of one connection's streams and the rest of its windows, whichever code wrote and read the
    frames."""

    # How many ended streams h2 remembers. Its default of 65,536 is some 6 MB in an agent that runs for months.
    MAX_CLOSED_STREAMS = 4096

    def __init__(self, *, client: bool) -> None:
        # h2's validation of incoming headers is off, too: it ends the whole connection over an error text with a
        # blank at its end, as Go's servers send it. We look at six fields, and those carefully.
        super().__init__(
            H2Configuration(
                client_side=client,
                validate_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
                header_encoding=None,
            )
        )

    def window(self, stream_id: int) -> int:
        """Return how many bytes of DATA may be sent on the stream now. Raises StreamGone."""
        stream = self.streams.get(stream_id)
        if stream is None or stream.closed:  # h2 keeps ended streams until it counts them
            raise StreamGone("the stream has ended")
        return min(self.outbound_flow_control_window, stream.outbound_flow_control_window)

    # ---- what was sent past h2 ----

    def stream_begun(self) -> int:
        """A client begins a stream, with headers; its number."""
        stream_id = self.get_next_available_stream_id()
        self.state_machine.process_input(ConnectionInputs.SEND_HEADERS)
        stream = self._begin_new_stream(stream_id, AllowedStreamIDs.ODD)
        stream.state_machine.process_input(StreamInputs.SEND_HEADERS)
        if stream_id // 2 % STREAMS_BEFORE_CLEARANCE == 0:
            _ = self.open_outbound_streams  # h2 does so when it counts the open ones
        return stream_id

    def data_sent(self, stream_id: int, flow_bytes: int, *, end: bool = False) -> None:
        """DATA of so many bytes, no more than the window, as the ``end`` of what we send on the stream or not; what
        headers are around it is all the same to h2."""
        stream = self.streams[stream_id]
        self.outbound_flow_control_window -= flow_bytes
        stream.outbound_flow_control_window -= flow_bytes
        if end:
            stream.state_machine.process_input(StreamInputs.SEND_END_STREAM)

    # ---- what was received past h2 ----

    def headers_received(self, stream_id: int, *, last: bool) -> bool:
        """An answer's headers or trailers. False if h2 should read them itself: they are not what would be expected
        now."""
        stream = self.streams.get(stream_id)
        if stream is None or not stream.open or (stream.state_machine.headers_received and not last):
            return False
        stream.state_machine.process_input(StreamInputs.RECV_HEADERS)
        if last:
            stream.state_machine.process_input(StreamInputs.RECV_END_STREAM)
        return True

    def end_received(self, stream_id: int) -> None:
        """DATA that ended the stream, if we have not done so ourselves."""
        stream = self.streams.get(stream_id)
        if stream is not None and stream.open:
            stream.state_machine.process_input(StreamInputs.RECV_END_STREAM)

    def stream_received(self, stream_id: int, *, last: bool) -> bool:
        """At a server: a stream that the client has begun with headers. False if h2 should read them itself: they begin
        no new one."""
        if stream_id <= self.highest_inbound_stream_id or stream_id % 2 == 0:
            return False
        self.state_machine.process_input(ConnectionInputs.RECV_HEADERS)
        machine = self._begin_new_stream(stream_id, AllowedStreamIDs.ODD).state_machine
        machine.process_input(StreamInputs.RECV_HEADERS)
        if last:
            machine.process_input(StreamInputs.RECV_END_STREAM)
        if stream_id // 2 % STREAMS_BEFORE_CLEARANCE == 0:
            _ = self.open_inbound_streams
        return True

    def fields_of(self, block: bytes) -> list[HeaderTuple]:
        """A header block that was received. Raises h2's ProtocolError."""
        try:
            return list(self.decoder.decode(block, raw=True))
        except HPACKError as error:
            raise ProtocolError(f"a header block that cannot be read: {error}") from error
