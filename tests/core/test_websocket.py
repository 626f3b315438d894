"""WebSocket frames: RFC 6455's own examples, what is refused, and that nothing depends on how the bytes come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shell.websocketkit import masked
from trikubelet.core.websocket import (
    Close,
    CloseCode,
    FrameReader,
    NotWebSocket,
    Opcode,
    Piece,
    Ping,
    accept_key,
    close_frame,
    frame,
)

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def test_the_key_is_answered_as_in_the_rfc() -> None:
    assert "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" == accept_key("dGhlIHNhbXBsZSBub25jZQ==")


def test_the_rfcs_own_frames_are_read() -> None:
    hello = bytes.fromhex("818537fa213d7f9f4d5158")
    assert [Piece(b"Hello", True, True)] == FrameReader().feed(hello)
    assert [Ping(b"Hello")] == FrameReader().feed(bytes.fromhex("898537fa213d7f9f4d5158"))


@pytest.mark.parametrize(
    ("size", "head"),
    [
        (0, "8200"),
        (5, "8205"),
        (125, "827d"),
        (126, "827e007e"),
        (256, "827e0100"),
        (65535, "827effff"),
        (65536, "827f0000000000010000"),
    ],
)
def test_a_length_is_written_in_its_shortest_way(size: int, head: str) -> None:
    assert bytes.fromhex(head) + b"x" * size == frame(Opcode.BINARY, b"x" * size)


def test_a_reason_is_cut_between_characters() -> None:
    said = close_frame(CloseCode.GOING_AWAY, "ä" * 100)

    assert (0x88, len(said) - 2) == (said[0], said[1])
    assert (1001, "ä" * 61) == (int.from_bytes(said[2:4], "big"), said[4:].decode())


def test_control_frames_may_come_amid_a_message_and_pongs_are_nothing() -> None:
    sent = masked(TEXT, b"a", final=False) + masked(PING, b"p") + masked(PONG, b"q") + masked(CONTINUATION, b"b")

    assert [Piece(b"a", True, False), Ping(b"p"), Piece(b"b", False, True)] == FrameReader().feed(sent)


def test_a_close_is_the_last_word_with_a_reason_or_without() -> None:
    assert [Close()] == FrameReader().feed(masked(CLOSE, b"\x03\xe8bye"))
    assert [Close()] == FrameReader().feed(masked(CLOSE, b""))
    for code in (1001, 1011, 3000, 4999):
        assert [Close()] == FrameReader().feed(masked(CLOSE, code.to_bytes(2, "big")))


def test_nothing_counts_after_the_last_word() -> None:
    reader = FrameReader()

    assert [Close()] == reader.feed(masked(CLOSE, b"") + masked(BINARY, b"late") + b"\xff\xff")
    assert [] == reader.feed(masked(BINARY, b"later"))


def test_a_long_payload_is_handed_on_as_it_comes() -> None:
    sent, reader = masked(BINARY, bytes(range(256)) * 4), FrameReader()

    pieces = [reader.feed(sent[at : at + 100]) for at in range(0, len(sent), 100)]

    assert all(pieces)
    assert bytes(range(256)) * 4 == b"".join(
        piece.data for some in pieces for piece in some if isinstance(piece, Piece)
    )


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"\x82\x01a", "not masked"),
        (masked(0x42, b"a"), "extension"),
        (masked(3, b"a"), "unknown kind 3"),
        (masked(11, b"a"), "unknown kind 11"),
        (masked(CONTINUATION, b"a"), "without a beginning"),
        (masked(TEXT, b"a", final=False) + masked(BINARY, b"a"), "amid another"),
        (masked(PING, b"a" * 126), "too long"),
        (masked(PING, b"a", final=False), "in parts"),
        (b"\x82\xff" + b"\xff" * 8 + b"mask" + b"x", "longer than frames can be"),
        (b"\x82\xff\x80" + b"\0" * 7 + b"mask", "longer than frames can be"),
        (masked(CLOSE, b"\x03"), "without a valid code"),
        (masked(CLOSE, b"\0\0"), "without a valid code"),
        (masked(CLOSE, b"\x03\xed"), "without a valid code"),
        (masked(CLOSE, b"\x13\x88"), "without a valid code"),
        (masked(CLOSE, b"\x03\xe8\xff"), "not UTF-8"),
        (b"\x82\xff\x7f" + b"\xff" * 7 + b"mask" + b"x", None),
    ],
)
def test_what_is_no_clients_frame_is_refused(sent: bytes, why: str | None) -> None:
    if why is None:  # of whatever length: nothing is kept of it
        assert [Piece] == [type(event) for event in FrameReader().feed(sent)]
        return
    with pytest.raises(NotWebSocket, match=why):
        FrameReader().feed(sent)


@given(
    st.lists(st.tuples(st.binary(max_size=300), st.integers(1, 4)), max_size=6),
    st.lists(st.integers(1, 40), min_size=1, max_size=40),
)
def test_messages_are_the_same_however_they_are_cut(messages: list[tuple[bytes, int]], cuts: list[int]) -> None:
    sent = b""
    for data, parts in messages:
        step = len(data) // parts + 1
        cut = [data[at : at + step] for at in range(0, len(data), step)] or [b""]
        for number, part in enumerate(cut):
            sent += masked(BINARY if number == 0 else CONTINUATION, part, final=number == len(cut) - 1)
            sent += masked(PING, b"p")
    reader, found, at = FrameReader(), [], 0
    for turn in range(len(sent)):
        size = cuts[turn % len(cuts)]
        found += reader.feed(sent[at : at + size])
        at += size
    whole: list[bytes] = []
    for event in found:
        if isinstance(event, Piece):
            if event.begins:
                whole.append(b"")
            whole[-1] += event.data
    assert [data for data, _ in messages] == whole
    assert len(messages) == sum(isinstance(event, Piece) and event.ends for event in found)


@given(st.lists(st.binary(max_size=50), max_size=20))
def test_rubbish_is_read_or_refused(some: list[bytes]) -> None:
    reader = FrameReader()
    try:
        for data in some:
            reader.feed(data)
    except NotWebSocket:
        pass
