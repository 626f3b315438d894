"""SPDY/3.1 frames: their bytes by the specification, headers across both directions, and what is refused."""

from __future__ import annotations

import hashlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core import spdy
from trikubelet.core.spdy import (
    Data,
    Frame,
    FrameReader,
    FrameWriter,
    GoAway,
    NotSpdy,
    Ping,
    Rst,
    SynReply,
    SynStream,
    WholeFrames,
)


def control(kind: int, payload: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(payload)) + payload


def packed(*headers: tuple[bytes, bytes], count: int | None = None) -> bytes:
    plain = (len(headers) if count is None else count).to_bytes(4, "big")
    for name, value in headers:
        plain += len(name).to_bytes(4, "big") + name + len(value).to_bytes(4, "big") + value
    packer = zlib.compressobj(zdict=spdy.DICTIONARY)
    return packer.compress(plain) + packer.flush(zlib.Z_SYNC_FLUSH)


def test_the_dictionary_is_the_specifications() -> None:
    # Adler-32 is what zlib itself names a dictionary by; the digest is of the array in moby/spdystream.
    assert (1423, 0xE3C6A7C2) == (len(spdy.DICTIONARY), zlib.adler32(spdy.DICTIONARY))
    assert hashlib.sha256(spdy.DICTIONARY).hexdigest().startswith("51d27341373f923f3cd88e1eb7162aea")


@pytest.mark.parametrize(
    ("sent", "frame"),
    [
        (spdy.data(5, b"abc"), "00000005 00000003 616263"),
        (spdy.data(5, b"", ends=True), "00000005 01000000"),
        (spdy.rst_stream(3), "80030003 00000008 00000003 00000005"),
        (spdy.ping(2), "80030006 00000004 00000002"),
        (spdy.go_away(7), "80030007 00000008 00000007 00000000"),
    ],
)
def test_frames_have_the_specifications_bytes(sent: bytes, frame: str) -> None:
    assert bytes.fromhex(frame) == sent


def test_a_new_stream_has_no_parent_and_the_highest_priority() -> None:
    sent = FrameWriter().syn_stream(1, {"streamType": "stdin"})

    assert bytes.fromhex("80030001") == sent[:4]
    assert struct.pack(">IIH", 1, 0, 0) == sent[8:18]
    assert packed((b"streamtype", b"stdin")) == sent[18:]


def test_what_one_end_writes_the_other_reads_with_headers_that_depend_on_those_before() -> None:
    writer, reader = FrameWriter(), FrameReader()
    sent = [
        writer.syn_stream(1, {"streamType": "error", "port": "80"}),
        writer.syn_stream(3, {"streamType": "data", "port": "80"}),
        writer.syn_reply(3),
        spdy.data(3, b"hello"),
        spdy.data(3, b"", ends=True),
        spdy.rst_stream(1),
        spdy.ping(9),
        spdy.go_away(3),
    ]

    assert [
        SynStream(1, {"streamtype": "error", "port": "80"}, False),
        SynStream(3, {"streamtype": "data", "port": "80"}, False),
        SynReply(3),
        Data(3, b"hello", False),
        Data(3, b"", True),
        Rst(1),
        Ping(9),
        GoAway(),
    ] == reader.feed(b"".join(sent))


def test_a_stream_may_end_as_it_begins() -> None:
    (frame,) = FrameReader().feed(control(1, struct.pack(">IIH", 1, 0, 0) + packed(), flags=1))

    assert SynStream(1, {}, True) == frame


def test_frames_that_say_nothing_to_us_are_passed_over_and_headers_seen() -> None:
    settings, window, unknown = control(4, bytes(4)), control(9, bytes(8)), control(77, b"?")
    sent = settings + window + unknown + control(8, bytes(4) + packed((b"a", b"b")))

    assert [Ping(1)] == FrameReader().feed(sent + spdy.ping(1))


def test_a_large_data_frame_is_handed_on_as_it_comes_and_ends_with_its_last_byte() -> None:
    reader, sent = FrameReader(), spdy.data(1, b"x" * 1000, ends=True)

    found = [frame for at in range(0, len(sent), 100) for frame in reader.feed(sent[at : at + 100])]

    assert 1000 == sum(len(frame.data) for frame in found if isinstance(frame, Data))
    assert [False] * (len(found) - 1) + [True] == [frame.ends for frame in found if isinstance(frame, Data)]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"HTTP/1.1 200 OK\r\n" + b"\x80\x02\x00\x01\0\0\0\0", None),
        (b"\x80\x02\x00\x01\0\0\0\0", "begins with 0x80020001"),
        (struct.pack(">HHI", 0x8003, 1, 64 * 1024 + 1), "65537 bytes"),
        (control(1, b"\0"), "too short"),
        (control(6, b""), "too short"),
        (control(1, bytes(10) + b"no zlib"), "cannot be unpacked"),
        (control(2, bytes(4) + packed((b"a", b"x" * 100_000))), "more than 65536"),
        (control(2, bytes(4) + packed(count=2**32 - 1)), "too short"),
        (control(2, bytes(4) + packed((b"a", b"b"))[:-1]), None),
    ],
)
def test_what_is_no_spdy_is_refused(sent: bytes, why: str | None) -> None:
    if why is None:  # the length of a DATA frame is whatever it is: nothing is kept of it
        FrameReader().feed(sent)
        return
    with pytest.raises(NotSpdy, match=why):
        FrameReader().feed(sent)


def test_a_header_that_is_longer_than_its_block_is_refused() -> None:
    packer = zlib.compressobj(zdict=spdy.DICTIONARY)
    block = packer.compress(struct.pack(">II", 1, 2**31) + b"ab") + packer.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(NotSpdy, match="longer than its block"):
        FrameReader().feed(control(2, bytes(4) + block))


@given(st.lists(st.tuples(st.integers(1, 9), st.binary(max_size=200), st.booleans()), max_size=8), st.integers(1, 50))
def test_data_is_the_same_however_it_is_cut(frames: list[tuple[int, bytes, bool]], step: int) -> None:
    sent = b"".join(spdy.data(id_, some, ends=ends) for id_, some, ends in frames)
    reader = FrameReader()
    found = [frame for at in range(0, len(sent), step) for frame in reader.feed(sent[at : at + step])]
    for wanted in range(1, 10):
        mine = [frame for frame in found if isinstance(frame, Data) and frame.stream_id == wanted]
        assert b"".join(some for id_, some, _ in frames if id_ == wanted) == b"".join(frame.data for frame in mine)
        assert sum(ends for id_, _, ends in frames if id_ == wanted) == sum(frame.ends for frame in mine)


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_rubbish_is_read_or_refused(some: list[bytes]) -> None:
    reader = FrameReader()
    try:
        for data in some:
            reader.feed(data)
    except NotSpdy:
        pass


CONTROL = spdy.go_away(0)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from((3, 5)), st.binary(max_size=30), st.booleans()), st.just(CONTROL), st.just(None)
        ),
        max_size=5,
    ),
    st.lists(st.integers(0, 40), min_size=1),
)
def test_frames_that_pass_by_say_the_same_however_they_are_cut_and_end_where_a_reading_ends(
    said: list[tuple[int, bytes, bool] | bytes | None], cuts: list[int]
) -> None:
    """None stands for a ping."""
    sent = b"".join(
        spdy.ping(7) if one is None else one if isinstance(one, bytes) else spdy.data(one[0], one[1], ends=one[2])
        for one in said
    )
    frames, told, at, pings = WholeFrames(), list[Frame](), 0, 0
    frames.watched = 5
    for cut in (*cuts, len(sent)):
        passed = frames.feed(sent[at : at + cut])
        at += cut
        pings += len(passed.pings)
        told += reader_of(passed.frames)

    data = [one for one in told if isinstance(one, Data)]
    for wanted in (3, 5):
        mine = [one for one in said if isinstance(one, tuple) and one[0] == wanted]
        assert b"".join(some for _, some, _ in mine) == b"".join(one.data for one in data if one.stream_id == wanted)
        assert sum(ends for *_, ends in mine) == sum(one.ends for one in data if one.stream_id == wanted)
    assert said.count(CONTROL) == sum(isinstance(one, GoAway) for one in told)
    assert said.count(None) == pings
    assert frames.is_heard == any(one.stream_id == 5 and one.data for one in data)


def reader_of(whole: bytes) -> list[Frame]:
    """The frames there are, of which none is left under way."""
    reader = FrameReader()
    told = reader.feed(whole)
    assert [Data(9, b"", True)] == reader.feed(spdy.data(9, b"", ends=True))
    return told


def test_a_control_frame_of_any_length_is_not_waited_for() -> None:
    with pytest.raises(NotSpdy, match="a control frame of 65537 bytes"):
        WholeFrames().feed(b"\x80\x03\x00\x01\x00\x01\x00\x01")
