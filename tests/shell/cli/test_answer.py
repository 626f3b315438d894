"""An answer of the agent's as it comes: in whatever pieces, it is read as h11 reads it."""

from __future__ import annotations

from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.cli.answer import HEAD_BYTES_MAX, Answer, NotAnAnswer

LENGTH = b"HTTP/1.1 200 \r\nContent-Length: 11\r\n\r\nhello world"
NOTHING = b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n"
CHUNKS = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6;x=y\r\nhello \r\n5\r\nworld\r\nA\r\n"
CHUNKS += b"0123456789\r\n0\r\n\r\n"
TO_THE_END = b"HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\nno such pod"
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH
CHANGED = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: SPDY/3.1\r\nconnection: Upgrade\r\n\r\n\x80\x03\0\2"


def read(said: bytes, cuts: list[int]) -> tuple[int, bytes, bool, bytes]:
    """Read it in pieces, and the end of the connection behind them if that is waited for."""
    answer, body = Answer(), bytearray()
    places = sorted({min(cut, len(said)) for cut in cuts} | {0, len(said)})
    for start, end in pairwise(places):
        body += answer.feed(said[start:end])
    if not answer.is_whole:
        body += answer.feed(b"")
    return answer.status, bytes(body), answer.is_changed, answer.after


def read_by_h11(said: bytes) -> tuple[int, bytes]:
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method="GET", target="/", headers=[("host", "x"), ("connection", "close")]))
    http.send(h11.EndOfMessage())
    http.receive_data(said)
    http.receive_data(b"")
    status, body = 0, bytearray()
    while not isinstance(event := http.next_event(), h11.EndOfMessage | h11.ConnectionClosed):
        if isinstance(event, h11.Response):
            status = event.status_code
        if isinstance(event, h11.Data):
            body += event.data
    return status, bytes(body)


@pytest.mark.parametrize("said", [LENGTH, NOTHING, CHUNKS, TO_THE_END, CONTINUED])
@given(cuts=st.lists(st.integers(0, 140), max_size=20))
def test_an_answer_in_pieces_is_read_as_h11_reads_it(said: bytes, cuts: list[int]) -> None:
    assert (*read_by_h11(said), False) == read(said, cuts)[:3]


@given(cuts=st.lists(st.integers(0, 90), max_size=20))
def test_what_follows_a_change_of_protocol_is_kept_for_that(cuts: list[int]) -> None:
    answer = Answer()
    places = sorted({min(cut, len(CHANGED)) for cut in cuts} | {0, len(CHANGED)})
    after = b""
    for start, end in pairwise(places):
        if answer.is_whole:
            after += CHANGED[start:end]
        else:
            assert b"" == answer.feed(CHANGED[start:end])
    assert (101, True, b"\x80\x03\0\2") == (answer.status, answer.is_changed, answer.after + after)


@pytest.mark.parametrize("said", [LENGTH[:-1], CHUNKS[:-20], CHUNKS[:20], CONTINUED[:30], b""])
def test_an_answer_that_is_not_whole_at_the_end_of_the_connection_is_an_error(said: bytes) -> None:
    with pytest.raises(EOFError):
        read(said, [])


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 2\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 -12 \r\n\r\n",
        b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: ten\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x" * HEAD_BYTES_MAX,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1" * (HEAD_BYTES_MAX + 1),
    ],
)
def test_what_is_no_answer_is_refused(said: bytes) -> None:
    with pytest.raises(NotAnAnswer):
        read(said, [])
