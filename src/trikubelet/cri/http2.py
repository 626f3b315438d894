"""The HTTP/2 state of one connection: h2, which is also told about the frames that bypass it.

Frames that need no decision are written (``short``, ``bulk``) and read (``core.frames``) without h2, which takes tens
of microseconds for each and would be most of a call's cost. h2 must still account for them: its streams and windows. It
has no public methods for that. Its private ones are used only in this module; a test checks that a new h2 still has
them.
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
"""New streams after which h2 removes those that have ended."""


class StreamGone(Exception):
    """The HTTP/2 stream or its connection has ended; nothing can be sent any more."""


class Http2(H2Connection):
    """Owns the states of one connection's streams and its windows, also for frames that bypass h2."""

    # The number of ended streams that h2 remembers. Its default of 65,536 takes about 6 MB in a long-running agent.
    MAX_CLOSED_STREAMS = 4096

    def __init__(self, *, client: bool) -> None:
        # h2's validation of incoming headers is disabled, too: it would end the whole connection for an error text with
        # a trailing space, which Go's servers send. Only six fields are read here, with their own checks.
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
        """Return the number of bytes of DATA that may be sent on the stream now. Raises StreamGone."""
        stream = self.streams.get(stream_id)
        if stream is None or stream.closed:  # h2 keeps ended streams until its next count
            raise StreamGone("the stream has ended")
        return min(self.outbound_flow_control_window, stream.outbound_flow_control_window)

    # ---- what was sent past h2 ----

    def stream_begun(self) -> int:
        """Record that this client begins a stream with headers. Return its number."""
        stream_id = self.get_next_available_stream_id()
        self.state_machine.process_input(ConnectionInputs.SEND_HEADERS)
        stream = self._begin_new_stream(stream_id, AllowedStreamIDs.ODD)
        stream.state_machine.process_input(StreamInputs.SEND_HEADERS)
        if stream_id // 2 % STREAMS_BEFORE_CLEARANCE == 0:
            _ = self.open_outbound_streams  # h2 removes ended streams when it counts the open ones
        return stream_id

    def data_sent(self, stream_id: int, flow_bytes: int, *, end: bool = False) -> None:
        """Record that DATA of ``flow_bytes``, within the window, was sent; ``end``: it ended our side of the stream. h2
        does not need to know about the headers around it."""
        stream = self.streams[stream_id]
        self.outbound_flow_control_window -= flow_bytes
        stream.outbound_flow_control_window -= flow_bytes
        if end:
            stream.state_machine.process_input(StreamInputs.SEND_END_STREAM)

    # ---- what was received past h2 ----

    def headers_received(self, stream_id: int, *, last: bool) -> bool:
        """Record an answer's headers or trailers. Return False if h2 must read them itself, because they are not
        expected in this state."""
        stream = self.streams.get(stream_id)
        if stream is None or not stream.open or (stream.state_machine.headers_received and not last):
            return False
        stream.state_machine.process_input(StreamInputs.RECV_HEADERS)
        if last:
            stream.state_machine.process_input(StreamInputs.RECV_END_STREAM)
        return True

    def end_received(self, stream_id: int) -> None:
        """Record that received DATA ended the stream, unless this side already has."""
        stream = self.streams.get(stream_id)
        if stream is not None and stream.open:
            stream.state_machine.process_input(StreamInputs.RECV_END_STREAM)

    def stream_received(self, stream_id: int, *, last: bool) -> bool:
        """At a server, record a stream that the client began with headers. Return False if h2 must read them itself,
        because they do not begin a new stream."""
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
        """Decode a received header block. Raises h2's ProtocolError."""
        try:
            return list(self.decoder.decode(block, raw=True))
        except HPACKError as error:
            raise ProtocolError(f"a header block that cannot be read: {error}") from error
