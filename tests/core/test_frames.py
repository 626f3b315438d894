"""The frame reader, compiled and in plain Python, against h2 alone: whatever frames come, cut wherever they may be, the
same messages, headers, ends and errors come out, and the windows add up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.exceptions import H2Error
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    WindowUpdateFrame,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from trikubelet.core.frames import BACKEND, Away, Block, FrameError, Frames, StreamData
from trikubelet.core.grpc_messages import Assembler, frame

if TYPE_CHECKING:
    from collections.abc import Sequence

STREAMS = (1, 3, 5)
MESSAGE_BYTES_MAX = 60
FRAME_BYTES_MAX = 16_384
BACKENDS = pytest.mark.parametrize("backend", ["rust", "python"])

ANSWER = b"\x88"  # :status 200, from HPACK's own table
COMPRESSED = b"\x01\0\0\0\x04zzzz"
TOO_LARGE = frame(b"x" * (MESSAGE_BYTES_MAX + 1))


def test_the_compiled_reader_is_the_one_in_use() -> None:
    assert BACKEND == "rust"


def test_messages_are_taken_out_of_the_incoming_bytes_by_the_reader_alone() -> None:
    frames = Frames(frame_bytes_max=100, message_bytes_max=100)
    frames.open(1)
    data = DataFrame(1, data=frame(b"a") + frame(b"") + frame(b"bc")[:6], flags=["END_STREAM"]).serialize()

    assert [StreamData(1, 17, [b"a", b""], True, None, True)] == frames.feed(data)


@BACKENDS
def test_headers_are_reported_by_themselves_if_they_are_short_and_whole_and_of_an_open_stream(backend: Any) -> None:
    whole = [HeadersFrame(1, data=ANSWER * 256, flags=["END_HEADERS"])]
    whole.append(HeadersFrame(1, data=ANSWER, flags=["END_HEADERS", "END_STREAM"]))
    other = [
        HeadersFrame(1, data=ANSWER * 257, flags=["END_HEADERS"]),
        HeadersFrame(3, data=b"", flags=["END_HEADERS"]),
    ]
    other.append(HeadersFrame(1, data=ANSWER, pad_length=1, flags=["END_HEADERS", "PADDED"]))
    other.append(HeadersFrame(1, data=ANSWER, flags=["END_HEADERS", "PRIORITY"]))
    after = HeadersFrame(1, data=ANSWER, flags=["END_HEADERS"])
    frames = Frames(frame_bytes_max=1000, backend=backend)
    frames.open(1)
    told = [piece for one in (*other, *whole, after) for piece in frames.feed(one.serialize())]

    assert [Block(1, False, ANSWER * 256), Block(1, True, ANSWER)] == [one for one in told if isinstance(one, Block)]
    assert [one.serialize() for one in whole] == [one.frame() for one in told if isinstance(one, Block)]
    passed = b"".join(one.serialize() for one in (*other, after))
    assert passed == b"".join(piece for piece in told if isinstance(piece, bytes))


@BACKENDS
def test_at_a_server_the_headers_of_a_call_open_its_stream_whatever_their_form(backend: Any) -> None:
    question = DataFrame(1, data=frame(b"ab"), flags=["END_STREAM"]).serialize()
    late = HeadersFrame(1, data=ANSWER, flags=["END_HEADERS", "END_STREAM"])
    long = HeadersFrame(3, data=ANSWER * 257, flags=["END_HEADERS"]).serialize()
    frames = Frames(frame_bytes_max=1000, message_bytes_max=100, serving=True, backend=backend)

    assert b"P" * 24 + question == b"".join(map(bytes, frames.feed(b"P" * 24 + question)))  # type: ignore[arg-type]
    begun = HeadersFrame(1, data=ANSWER, flags=["END_HEADERS"]).serialize()
    assert [Block(1, False, ANSWER), StreamData(1, 7, [b"ab"], False, None, True)] == frames.feed(begun + question)
    assert [Block(1, True, ANSWER)] == frames.feed(late.serialize())
    other = DataFrame(3, data=frame(b"c")).serialize()
    assert [long, StreamData(3, 6, [b"c"], False, None)] == frames.feed(long + other)


# ---- the same as h2 alone ----


@dataclass
class Seen:
    """What one reader has made of the bytes. ``streams`` has each stream's story in order."""

    streams: dict[int, list[Any]] = field(default_factory=lambda: {stream: [] for stream in STREAMS})
    windows: dict[int, int] = field(default_factory=dict)
    away: list[bytes] = field(default_factory=list)
    failed: bool = False


def asking() -> H2Connection:
    """A client that has asked on every stream and waits."""
    h2 = H2Connection(H2Configuration(client_side=True, validate_inbound_headers=False, header_encoding=None))
    h2.initiate_connection()
    for stream in STREAMS:
        request = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "x")]
        h2.send_headers(stream, request, end_stream=True)
    return h2


def tell(seen: Seen, event: Event) -> None:
    if isinstance(event, ResponseReceived | TrailersReceived):
        assert event.stream_id is not None
        seen.streams[event.stream_id].append(("headers", event.stream_ended is not None))
    elif isinstance(event, StreamEnded):
        seen.streams[event.stream_id].append("ended")
    elif isinstance(event, StreamReset):
        seen.streams[event.stream_id].append(("reset", event.error_code))


def windows(h2: H2Connection) -> dict[int, int]:
    """Return h2's receive windows, of the connection (0) and of every known stream."""
    known = {stream: h2.streams[stream]._inbound_window_manager.current_window_size for stream in h2.streams}
    return {0: h2.inbound_flow_control_window, **known}


def by_h2_alone(frames: Sequence[Frame]) -> Seen:
    h2, seen = asking(), Seen()
    assemblers = {stream: Assembler(MESSAGE_BYTES_MAX) for stream in STREAMS}
    try:
        for one in frames:
            if isinstance(one, GoAwayFrame) and not h2.incoming_buffer._headers_buffer:  # nothing may stand in there
                seen.away.append(one.serialize()[9:])
                continue
            for event in h2.receive_data(one.serialize()):
                if isinstance(event, DataReceived):
                    assembler = assemblers[event.stream_id]
                    refused = assembler.refusal is not None
                    seen.streams[event.stream_id] += assembler.feed(event.data)
                    if assembler.refusal is not None and not refused:
                        seen.streams[event.stream_id].append(assembler.refusal)
                tell(seen, event)
    except H2Error:
        seen.failed = True
    seen.windows = windows(h2)
    return seen


def by_frames(pieces: Sequence[bytes], backend: Any) -> Seen:
    h2, seen = asking(), Seen()
    frames = Frames(frame_bytes_max=FRAME_BYTES_MAX, message_bytes_max=MESSAGE_BYTES_MAX, backend=backend)
    for stream in STREAMS:
        frames.open(stream)
    used = dict.fromkeys([0, *STREAMS], 0)
    refused = set()
    try:
        for fed in pieces:
            for piece in frames.feed(fed):
                if isinstance(piece, StreamData):
                    used[0] += piece.flow_bytes
                    used[piece.stream_id] += piece.flow_bytes
                    seen.streams[piece.stream_id] += piece.messages
                    if piece.refusal is not None and piece.stream_id not in refused:
                        refused.add(piece.stream_id)
                        seen.streams[piece.stream_id].append(piece.refusal)
                    if piece.ends:
                        end = DataFrame(piece.stream_id, flags=["END_STREAM"])
                        for event in h2.receive_data(end.serialize()):
                            tell(seen, event)
                elif isinstance(piece, Away):
                    seen.away.append(piece.payload)
                else:
                    for event in h2.receive_data(piece.frame() if isinstance(piece, Block) else piece):
                        assert not isinstance(event, DataReceived) or not event.flow_controlled_length
                        tell(seen, event)
    except (H2Error, FrameError):
        seen.failed = True
    seen.windows = {stream: left - used[stream] for stream, left in windows(h2).items()}
    return seen


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """``data`` in pieces, cut at ``places``."""
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(marks)]


streams = st.sampled_from(STREAMS)
datas = st.builds(
    lambda stream, size, padding, ends: (stream, size, padding, ends),
    streams,
    st.integers(0, 40),
    st.one_of(st.none(), st.integers(0, 9)),
    st.sampled_from([False, False, False, True]),
)
others = st.one_of(
    st.builds(lambda stream: HeadersFrame(stream, data=ANSWER, flags=["END_HEADERS"]), streams),
    st.builds(lambda stream: HeadersFrame(stream, data=b"", flags=["END_HEADERS", "END_STREAM"]), streams),
    st.builds(lambda stream: HeadersFrame(stream, data=ANSWER), streams),
    st.builds(lambda stream: ContinuationFrame(stream, data=b"", flags=["END_HEADERS"]), streams),
    st.builds(lambda stream, code: RstStreamFrame(stream, error_code=code), streams, st.integers(0, 13)),
    st.builds(lambda stream: WindowUpdateFrame(stream, window_increment=9), st.sampled_from([0, *STREAMS])),
    st.builds(lambda: PingFrame(0, opaque_data=b"\0\0\x09\0\0\0\0\0")),
    st.builds(lambda text: GoAwayFrame(0, last_stream_id=5, additional_data=text), st.binary(max_size=9)),
)
messages = st.lists(
    st.one_of(st.binary(max_size=MESSAGE_BYTES_MAX).map(frame), st.sampled_from([COMPRESSED, TOO_LARGE])), max_size=6
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Frame]:
    """Any frames in any order; the DATA of each stream has gRPC messages, for as long as there are any."""
    bodies = {stream: b"".join(draw(messages)) for stream in STREAMS}
    told: list[Frame] = [HeadersFrame(stream, data=ANSWER, flags=["END_HEADERS"]) for stream in STREAMS]
    for one in draw(st.lists(st.one_of(datas, datas, others), max_size=30)):
        if isinstance(one, Frame):
            told.append(one)
            continue
        stream, size, padding, ends = one
        part, bodies[stream] = bodies[stream][:size], bodies[stream][size:]
        flags = ["END_STREAM"] * ends + ["PADDED"] * (padding is not None)
        told.append(DataFrame(stream, data=part, pad_length=padding or 0, flags=flags))
    return told


@BACKENDS
@settings(deadline=None, max_examples=examples(400))
@given(conversations(), st.lists(st.integers(0, 5000), max_size=30))
@example([HeadersFrame(1, data=ANSWER), DataFrame(1, data=frame(b"inside a header block"))], [])
@example([DataFrame(1, data=b"x", flags=["END_STREAM"]), DataFrame(1, data=b"after the end")], [])
@example([RstStreamFrame(1), DataFrame(1, data=b"after a reset")], [])
def test_any_frames_cut_anywhere_are_told_as_h2_alone_tells_them(
    backend: str, told: list[Frame], places: list[int]
) -> None:
    expected = by_h2_alone(told)
    found = by_frames(cut(b"".join(one.serialize() for one in told), places), backend)

    assert expected.failed == found.failed
    if expected.failed:  # what h2 had understood of the bytes with the fault in them, it keeps to itself
        assert all(story == expected.streams[stream][: len(story)] for stream, story in found.streams.items())
    else:
        assert expected == found


def raw_story(pieces: Sequence[bytes], backend: Any) -> tuple[bytes, dict[int, list[bytes]], str]:
    """Return the data passed on, each stream's messages, and the error."""
    frames = Frames(frame_bytes_max=200, message_bytes_max=MESSAGE_BYTES_MAX, backend=backend)
    rest, told = b"", {stream: list[bytes]() for stream in STREAMS}
    for stream in STREAMS:
        frames.open(stream)
    try:
        for fed in pieces:
            for piece in frames.feed(fed):
                if isinstance(piece, StreamData):
                    told[piece.stream_id] += piece.messages
                elif isinstance(piece, bytes | Block):
                    rest += piece.frame() if isinstance(piece, Block) else piece
    except FrameError as error:
        return rest, told, str(error)
    return rest, told, ""


@settings(deadline=None)
@given(conversations(), st.binary(max_size=200), st.lists(st.integers(0, 5000)), st.integers(0, 5000))
def test_both_make_the_same_of_rubbish(told: list[Frame], rubbish: bytes, places: list[int], place: int) -> None:
    data = b"".join(one.serialize() for one in told)
    place %= len(data) + 1
    pieces = cut(data[:place] + rubbish + data[place:], places)
    rest, messages, error = raw_story(pieces, "rust")
    twin_rest, twin_messages, twin_error = raw_story(pieces, "python")

    # The twin waits for the end of each frame, so its story may be the shorter one.
    assert twin_rest == rest[: len(twin_rest)]
    assert all(told == messages[stream][: len(told)] for stream, told in twin_messages.items())
    assert error == twin_error or (error, twin_error) == ("a frame with more padding than it has bytes", "")


@BACKENDS
@given(st.lists(st.sampled_from(["data", "ping", "away"])), st.lists(st.integers(0, 5000)), st.booleans())
def test_goaway_is_taken_out_and_every_other_byte_left_where_no_stream_is_open(
    backend: Any, kinds: list[str], places: list[int], serving: bool
) -> None:
    away = GoAwayFrame(0, last_stream_id=7, error_code=11, additional_data=b"too_many_pings").serialize()
    known = {"data": DataFrame(1, data=b"\x07" * 30), "ping": PingFrame(0, opaque_data=b"12345678")}
    whole = {"away": away, **{name: one.serialize() for name, one in known.items()}}
    data = b"P" * 24 * serving + b"".join(whole[kind] for kind in kinds)
    frames = Frames(frame_bytes_max=100, serving=serving, backend=backend)
    out = [piece for part in cut(data, places) for piece in frames.feed(part)]

    assert [Away(away[9:])] * kinds.count("away") == [piece for piece in out if isinstance(piece, Away)]
    assert data.replace(away, b"") == b"".join(piece for piece in out if isinstance(piece, bytes))


@BACKENDS
def test_a_goaway_is_taken_out_whatever_the_length_of_its_text_and_one_too_short_is_passed_on(backend: Any) -> None:
    frames = Frames(frame_bytes_max=10_000, backend=backend)
    for size in (7, 8, 4097, 10_000):
        away = bytes([0, size >> 8, size & 255, 7, 0, 0, 0, 0, 0]) + bytes(size)
        told = frames.feed(away)
        assert away == b"".join(map(bytes, told)) if size == 7 else [Away(bytes(size))] == told  # type: ignore[arg-type]


@BACKENDS
def test_a_frame_that_is_too_long_is_refused_by_its_header(backend: Any) -> None:
    for opened in (False, True):
        frames = Frames(frame_bytes_max=100, message_bytes_max=1000, backend=backend)
        if opened:
            frames.open(1)
        with pytest.raises(FrameError, match="a frame of 101 bytes"):
            frames.feed(DataFrame(1, data=bytes(101)).serialize()[:9])


@BACKENDS
@pytest.mark.parametrize("frame_bytes", [b"", b"\x01", b"\x05xxxx"], ids=["no room", "one too many", "much too many"])
def test_more_padding_than_there_is_room_for_ends_it(backend: Any, frame_bytes: bytes) -> None:
    frames = Frames(frame_bytes_max=100, message_bytes_max=100, backend=backend)
    frames.open(1)
    with pytest.raises(FrameError, match="padding"):
        frames.feed(bytes([0, 0, len(frame_bytes), 0, 8, 0, 0, 0, 1]) + frame_bytes)


@BACKENDS
def test_a_stream_closed_in_the_middle_of_a_frame_uses_its_window_to_the_end_of_the_frame(backend: Any) -> None:
    frames = Frames(frame_bytes_max=100, message_bytes_max=100, backend=backend)
    frames.open(1)
    data = DataFrame(1, data=frame(b"x" * 50)).serialize()
    first = frames.feed(data[:30])
    frames.close(1)
    told = [*first, *frames.feed(data[30:] + data)]
    used = sum(piece.flow_bytes for piece in told if isinstance(piece, StreamData))
    passed = b"".join(piece for piece in told if isinstance(piece, bytes))

    # The whole frame is either used or passed on, never half of it.
    assert (55, data) == (used, passed) or (0, data + data) == (used, passed)
    assert not any(piece.messages for piece in told if isinstance(piece, StreamData))


# ---- messages ----


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(0, 5000)))
def test_messages_come_out_as_they_went_in_however_the_bytes_are_cut(messages: list[bytes], places: list[int]) -> None:
    assembler = Assembler(40)
    out: list[bytes] = []
    for piece in cut(b"".join(map(frame, messages)), places):
        out += assembler.feed(piece)

    assert messages == out
    assert assembler.between_messages
    assert assembler.refusal is None


def test_a_message_is_refused_by_its_announced_length_after_those_before_it() -> None:
    assembler = Assembler(40)

    assert [b"y"] == assembler.feed(frame(b"y") + frame(b"x" * 41)[:5])
    assert assembler.refusal == ("a message of 41 bytes is larger than max 40", True)
    assert [] == assembler.feed(frame(b"z"))


def test_a_message_begun_is_not_between_messages() -> None:
    assembler = Assembler(40)
    assembler.feed(b"\0")
    assert not assembler.between_messages
    assembler.feed(b"\0\0\0\2x")
    assert not assembler.between_messages
