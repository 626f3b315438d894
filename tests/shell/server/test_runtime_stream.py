"""What a runtime's end of a stream may answer before the protocol is another."""

from __future__ import annotations

import h11
import pytest
import trio
from trio.testing import memory_stream_pair

from trikubelet.server.runtime_stream import Declined, RuntimeStream, change_protocol

ASKED = h11.Request(method="POST", target="/", headers=[(b"host", b"r"), (b"upgrade", b"SPDY/3.1")])
CHUNKED = b"HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n"


async def answered(said: bytes) -> RuntimeStream:
    """Return the result of that answer alone."""
    ours, theirs = memory_stream_pair()
    await theirs.send_all(said)
    await theirs.send_eof()
    return await change_protocol(ours, ASKED)


async def test_a_refusal_is_passed_on() -> None:
    with pytest.raises(Declined) as declined:
        await answered(CHUNKED + b"4\r\ngone\r\n0\r\n\r\n")

    assert (404, b"gone") == (declined.value.response.status, declined.value.response.body.rstrip())  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(CHUNKED + 20 * (b"1;" + 16_000 * b"e" + b"\r\nx\r\n") * 4 + b"0\r\n\r\n", id="chunks"),
        pytest.param(50_000 * b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + b"0\r\n\r\n", id="before the answer"),
    ],
)
async def test_what_is_around_a_refusal_is_not_read_without_end(said: bytes) -> None:
    with pytest.raises(h11.RemoteProtocolError, match="more than 1048576 bytes"), trio.fail_after(60):
        await answered(said)
