"""What h2 is told of frames that went past it leaves it as if it had written and read them itself."""

from __future__ import annotations

import pytest
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes
from h2.stream import H2Stream

from trikubelet.cri.headers import CONTENT_TYPE
from trikubelet.cri.http2 import STREAMS_BEFORE_CLEARANCE, Http2, StreamGone
from trikubelet.cri.short import data_frame, headers_frame, short_answer

QUESTION = [(":method", "POST"), (":scheme", "http"), (":path", "/x"), (":authority", "localhost")]
ANSWER = [(":status", "200"), ("content-type", CONTENT_TYPE)]
TRAILERS = [("grpc-status", "0")]
BODY = bytes(5)
WINDOW = 20


def carry(source: H2Connection, *others: H2Connection) -> list[object]:
    """Pass the bytes of one end to several others; the events of the last."""
    data, events = source.data_to_send(), []
    for other in others:
        events = other.receive_data(data)
    return events


@pytest.fixture
def ends() -> tuple[Http2, Http2, Http2]:
    """Two clients, of which one is going to be told, and a server that cannot tell them apart and allows little."""
    told, telling, server = Http2(client=True), Http2(client=True), Http2(client=False)
    for end in (told, telling, server):
        end.initiate_connection()
    server.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: WINDOW})
    carry(server, told, telling)
    told.clear_outbound_data_buffer()
    carry(telling, server)
    carry(server, told, telling)
    return told, telling, server


def count(h2: Http2, stream_id: int) -> tuple[object, ...]:
    """Return h2's state of a stream and its connection."""
    stream = h2.streams[stream_id]
    windows = h2.outbound_flow_control_window, stream.outbound_flow_control_window
    return h2.state_machine.state, stream.state_machine.state, stream.open, stream.closed, *windows


def states(h2: Http2, stream_id: int) -> tuple[object, ...]:
    """Return h2's progress of a stream and its connection."""
    stream = h2.streams[stream_id]
    return h2.state_machine.state, stream.state_machine.state, stream.open, h2.highest_inbound_stream_id


def test_a_question_and_its_answer_past_h2_count_as_those_it_wrote_and_read(
    ends: tuple[Http2, Http2, Http2],
) -> None:
    told, telling, server = ends
    for _ in range(2):
        stream_id = telling.get_next_available_stream_id()
        telling.send_headers(stream_id, QUESTION)
        assert stream_id == told.stream_begun()
        assert (count(telling, stream_id), WINDOW) == (count(told, stream_id), told.window(stream_id))

        telling.send_data(stream_id, BODY)
        told.data_sent(stream_id, len(BODY))
        assert (count(telling, stream_id), WINDOW - len(BODY)) == (count(told, stream_id), told.window(stream_id))

        telling.send_data(stream_id, BODY, end_stream=True)
        told.data_sent(stream_id, len(BODY), end=True)
        assert count(telling, stream_id) == count(told, stream_id)

        carry(telling, server)
        server.send_headers(stream_id, ANSWER)
        carry(server, telling)
        assert told.headers_received(stream_id, last=False)
        assert count(telling, stream_id) == count(told, stream_id)

        server.send_headers(stream_id, TRAILERS, end_stream=True)
        carry(server, telling)
        assert told.headers_received(stream_id, last=True)
        assert count(telling, stream_id) == count(told, stream_id)
        assert [1, 1] == [len(end.streams) for end in (telling, told)]
        assert [0, 0] == [end.open_outbound_streams for end in (telling, told)]
        assert [0, 0] == [len(end.streams) for end in (telling, told)]


def test_frames_past_h2_are_those_of_the_stream_it_was_told_of(ends: tuple[Http2, Http2, Http2]) -> None:
    told, _, server = ends
    stream_id = told.stream_begun()
    told.data_sent(stream_id, len(BODY), end=True)
    asked = headers_frame(stream_id, told.encoder.encode(QUESTION)) + data_frame(stream_id, BODY, end=True)
    events = server.receive_data(asked)
    assert [RequestReceived, DataReceived] == [type(event) for event in events[:2]]

    before = server.outbound_flow_control_window
    server.data_sent(stream_id, len(BODY), end=True)
    assert before - len(BODY) == server.outbound_flow_control_window
    told.receive_data(short_answer(stream_id, BODY))
    for end in (told, server):
        with pytest.raises(StreamGone):
            end.window(stream_id)


def test_headers_that_are_not_those_expected_now_are_left_to_h2(ends: tuple[Http2, Http2, Http2]) -> None:
    told, _, _ = ends
    assert not told.headers_received(1, last=True), "of a stream that nobody has begun"
    stream_id = told.stream_begun()
    told.data_sent(stream_id, len(BODY), end=True)
    assert told.headers_received(stream_id, last=False)
    before = count(told, stream_id)
    assert not told.headers_received(stream_id, last=False), "a second beginning"
    assert before == count(told, stream_id)
    assert told.headers_received(stream_id, last=True)
    assert not told.headers_received(stream_id, last=True), "a second end"


def test_a_question_heard_past_h2_counts_as_one_that_it_read(ends: tuple[Http2, Http2, Http2]) -> None:
    _, asking, reading = ends
    told = Http2(client=False)
    told.initiate_connection()
    carry(asking, reading, told)
    for stream_id, empty in ((1, False), (3, True)):
        asking.send_headers(stream_id, QUESTION, end_stream=empty)
        block = asking.data_to_send()
        reading.receive_data(block)
        assert told.stream_received(stream_id, last=empty)
        assert [value for _, value in QUESTION] == [value.decode() for _, value in told.fields_of(block[9:])]
        assert states(reading, stream_id) == states(told, stream_id)
        if not empty:
            asking.end_stream(stream_id)
            carry(asking, reading)
            told.end_received(stream_id)
            told.end_received(7)
            assert states(reading, stream_id) == states(told, stream_id)
    assert not told.stream_received(3, last=True), "begun already"
    assert not told.stream_received(4, last=True), "a number for the server to give"
    told.reset_stream(1)
    told.end_received(1)
    with pytest.raises(ProtocolError, match="cannot be read"):
        told.fields_of(b"\xff\xff\xff\xff")


def test_a_server_puts_ended_streams_away_now_and_then() -> None:
    told = Http2(client=False)
    told.initiate_connection()
    for stream_id in range(1, 4 * STREAMS_BEFORE_CLEARANCE, 2):
        assert told.stream_received(stream_id, last=True)
        told.data_sent(stream_id, 0, end=True)
        assert len(told.streams) <= STREAMS_BEFORE_CLEARANCE


def test_ended_streams_are_put_away_now_and_then(ends: tuple[Http2, Http2, Http2]) -> None:
    told, _, _ = ends
    for _ in range(2 * STREAMS_BEFORE_CLEARANCE):
        stream_id = told.stream_begun()
        told.data_sent(stream_id, 0, end=True)
        assert told.headers_received(stream_id, last=True)
        assert len(told.streams) <= STREAMS_BEFORE_CLEARANCE


def test_h2_has_the_names_it_has_not_promised() -> None:
    h2 = Http2(client=True)
    stream = H2Stream(1, h2.config, 0, 0)

    assert callable(h2._begin_new_stream)
    assert callable(h2.state_machine.process_input)
    assert callable(stream.state_machine.process_input)
    assert {"outbound_flow_control_window"} <= vars(stream).keys()
    assert {"streams", "outbound_flow_control_window", "encoder", "decoder"} <= vars(h2).keys()
    assert Http2.MAX_CLOSED_STREAMS != H2Connection.MAX_CLOSED_STREAMS
    assert [] == list(h2.encoder.header_table.dynamic_entries)
