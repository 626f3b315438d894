"""The tiny HTTP server: requests, streams, limits, and clients that behave badly."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import h11
import httpx
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from trikubelet.model.errors import InvariantBroken
from trikubelet.server.http import HttpLimits, Request, Response, json, serve_http, text
from trikubelet.server.http_connection import HttpConnection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from trio.testing import MockClock

    Handler = Callable[[Request], Awaitable[Response]]


PIECES = (
    b"GET / HTTP/1.1\r\nhost: n\r\n\r\n",
    b"POST /x HTTP/1.1\r\nhost: n\r\ncontent-length: 3\r\n\r\nabc",
    b"POST / HTTP/1.1\r\nhost: n\r\ntransfer-encoding: chunked\r\n\r\n",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"HEAD /%ff?a=%zz HTTP/1.0\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nhost: n\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: n\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nhost: n\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n",
)


async def echo(request: Request) -> Response:
    return json(
        {
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "body": request.body.decode(errors="replace"),
        }
    )


@asynccontextmanager
async def connected(handler: Handler, limits: HttpLimits | None = None) -> AsyncIterator[trio.StapledStream]:
    """A client's end of a connection that is being served."""
    near, far = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(HttpConnection(far, handler, limits or HttpLimits()).run)
        yield near
        await near.aclose()


async def everything(stream: trio.abc.ReceiveStream) -> bytes:
    """All that comes until the other side closes."""
    got = bytearray()
    try:
        async for data in stream:
            got += data
    except trio.BrokenResourceError:
        pass
    return bytes(got)


def statuses(conversation: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1\.1 (\d{3}) ", conversation)


async def test_a_real_client_is_answered_over_a_unix_socket_and_keeps_its_connection(tmp_path: Path) -> None:
    listener = trio.SocketListener(await listening(tmp_path / "s"))
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_http, echo, [listener])
        transport = httpx.AsyncHTTPTransport(uds=str(tmp_path / "s"))
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
            first = await client.post("/a%20b?x=1&x=2&y=", content=b"hello")
            second = await client.get("/")

        assert {"method": "POST", "path": "/a b", "query": {"x": "1", "y": ""}, "body": "hello"} == first.json()
        assert {"method": "GET", "path": "/", "query": {}, "body": ""} == second.json()
        nursery.cancel_scope.cancel()


async def listening(path: Path) -> trio.socket.SocketType:
    sock = trio.socket.socket(trio.socket.AF_UNIX)
    await sock.bind(str(path))
    sock.listen()
    return sock


async def test_two_requests_sent_at_once_are_answered_in_order(autojump_clock: MockClock) -> None:
    async with connected(echo) as client:
        await client.send_all(
            b"GET /1 HTTP/1.1\r\nhost: n\r\n\r\nGET /2 HTTP/1.1\r\nhost: n\r\nconnection: close\r\n\r\n"
        )
        told = await everything(client)

    assert [b"200", b"200"] == statuses(told)
    assert told.index(b'"/1"') < told.index(b'"/2"')


async def test_a_body_comes_in_chunks_after_the_client_was_told_to_continue(autojump_clock: MockClock) -> None:
    async with connected(echo) as client:
        await client.send_all(
            b"POST / HTTP/1.1\r\nhost: n\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        interim = await client.receive_some()
        await client.send_all(b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n")

        assert [b"100"] == statuses(bytes(interim))
        assert b'"body":"hello"' in await client.receive_some()


async def test_a_stream_reaches_the_client_chunk_by_chunk(autojump_clock: MockClock) -> None:
    more = trio.Event()

    async def handler(_request: Request) -> Response:
        async def lines() -> AsyncIterator[bytes]:
            yield b"first\n"
            await more.wait()
            yield b"second\n"

        return Response(200, {}, lines())

    async with connected(handler) as client:
        await client.send_all(b"GET / HTTP/1.1\r\nhost: n\r\n\r\n")
        reader = h11.Connection(h11.CLIENT)
        reader.send(h11.Request(method="GET", target="/", headers=[("host", "n")]))
        reader.send(h11.EndOfMessage())
        assert b"first\n" == await next_data(client, reader)
        more.set()
        assert b"second\n" == await next_data(client, reader)


async def next_data(client: trio.abc.ReceiveStream, reader: h11.Connection) -> bytes:
    while not isinstance(event := reader.next_event(), h11.Data):
        if event is h11.NEED_DATA:
            reader.receive_data(bytes(await client.receive_some()))
    return bytes(event.data)


async def test_a_silent_stream_is_closed_when_its_client_leaves(autojump_clock: MockClock) -> None:
    closed = trio.Event()

    async def handler(_request: Request) -> Response:
        async def forever() -> AsyncIterator[bytes]:
            try:
                yield b"x"
                await trio.sleep_forever()
            finally:
                closed.set()

        return Response(200, {}, forever())

    async with connected(handler) as client:
        await client.send_all(b"GET / HTTP/1.1\r\nhost: n\r\n\r\n")
        await client.receive_some()
        await wait_all_tasks_blocked()
        assert not closed.is_set()
        await client.send_eof()
        await closed.wait()


async def test_a_stream_that_is_not_even_read_is_closed(autojump_clock: MockClock) -> None:
    class Lines:
        closed = False

        def __aiter__(self) -> Lines:
            return self

        async def __anext__(self) -> bytes:
            raise AssertionError("nobody wants it")

        async def aclose(self) -> None:
            self.closed = True

    lines = Lines()

    async def handler(_request: Request) -> Response:
        return Response(200, {}, lines)

    async with connected(handler) as client:
        await client.send_all(b"HEAD / HTTP/1.1\r\nhost: n\r\nconnection: close\r\n\r\n")
        assert [b"200"] == statuses(await everything(client))

    assert lines.closed


async def test_a_stream_that_fails_ends_without_its_last_chunk_and_is_logged(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(_request: Request) -> Response:
        async def broken() -> AsyncIterator[bytes]:
            yield b"half"
            raise OSError("the disk is gone")

        return Response(200, {}, broken())

    async with connected(handler) as client:
        await client.send_all(b"GET /log HTTP/1.1\r\nhost: n\r\n\r\n")
        told = await everything(client)

    assert told.endswith(b"4\r\nhalf\r\n")
    assert "GET /log failed while it was sent" in caplog.text


async def test_head_has_the_headers_of_get_and_no_body(autojump_clock: MockClock) -> None:
    async def handler(_request: Request) -> Response:
        return text("hello")

    async with connected(handler) as client:
        await client.send_all(b"HEAD / HTTP/1.1\r\nhost: n\r\nconnection: close\r\n\r\n")
        told = await everything(client)

    assert b"content-length: 6\r\n" in told.lower()
    assert told.endswith(b"\r\n\r\n")


async def test_a_failing_handler_costs_only_its_own_response(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(request: Request) -> Response:
        if request.path == "/bad":
            raise KeyError("secret")
        return text("fine")

    async with connected(handler) as client:
        await client.send_all(
            b"GET /bad HTTP/1.1\r\nhost: n\r\n\r\nGET / HTTP/1.1\r\nhost: n\r\nconnection: close\r\n\r\n"
        )
        told = await everything(client)

    assert [b"500", b"200"] == statuses(told)
    assert b"secret" not in told
    assert "GET /bad failed" in caplog.text


async def test_a_response_that_cannot_be_sent_closes_the_connection_and_is_logged(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(_request: Request) -> Response:
        return Response(200, {"bad": "line\nbreak"}, b"")

    async with connected(handler) as client:
        await client.send_all(b"GET / HTTP/1.1\r\nhost: n\r\n\r\n")

        assert b"" == await everything(client)
    assert "cannot be sent" in caplog.text


@pytest.mark.parametrize("grouped", [False, True])
async def test_a_broken_invariant_in_a_handler_ends_the_server(autojump_clock: MockClock, grouped: bool) -> None:
    async def handler(_request: Request) -> Response:
        broken = InvariantBroken("two writers")
        raise ExceptionGroup("task", [broken]) if grouped else broken

    with pytest.RaisesGroup(InvariantBroken, flatten_subgroups=True):
        async with connected(handler) as client:
            await client.send_all(b"GET / HTTP/1.1\r\nhost: n\r\n\r\n")
            await everything(client)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"what is this\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nhost: n\r\nx: " + b"y" * 5000 + b"\r\n\r\n", b"431"),
        (b"GET http://[ HTTP/1.1\r\nhost: n\r\n\r\n", b"400"),
        (b"GET /?" + b"a&" * 200 + b" HTTP/1.1\r\nhost: n\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nhost: n\r\ncontent-length: 101\r\n\r\n" + b"z" * 101, b"413"),
    ],
)
async def test_what_is_no_request_or_too_much_of_one_is_refused_and_closed(
    autojump_clock: MockClock, sent: bytes, status: bytes
) -> None:
    async with connected(echo, HttpLimits(header_bytes_max=4096, body_bytes_max=100)) as client:
        await client.send_all(sent)

        assert [status] == statuses(await everything(client))


async def test_a_client_that_says_nothing_is_dropped_after_the_idle_time(autojump_clock: MockClock) -> None:
    async with connected(echo, HttpLimits(idle_seconds_max=5)) as client:
        await client.send_all(b"GET / HTTP/1.1\r\nhost:")

        assert b"" == await everything(client)
        assert 5 == pytest.approx(trio.current_time())


async def test_a_client_that_does_not_read_is_dropped_after_the_send_time(autojump_clock: MockClock) -> None:
    near, far = trio.testing.lockstep_stream_pair()

    async def handler(_request: Request) -> Response:
        return Response(200, {}, b"x" * 1000)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(HttpConnection(far, handler, HttpLimits(send_seconds_max=7)).run)
        await near.send_all(b"GET / HTTP/1.1\r\nhost: n\r\n\r\n")
        await trio.sleep(8)

        with pytest.raises(trio.BrokenResourceError), trio.fail_after(1):
            await near.send_all(b"x")


async def test_one_client_too_many_is_told_so(tmp_path: Path) -> None:
    listener = trio.SocketListener(await listening(tmp_path / "s"))
    async with trio.open_nursery() as nursery:
        await nursery.start(
            lambda task_status: serve_http(
                echo, [listener], limits=HttpLimits(connections_max=1), task_status=task_status
            )
        )
        first = await trio.open_unix_socket(tmp_path / "s")
        await first.send_all(b"GET / HTTP/1.1\r\nhost: n\r\n\r\n")
        await first.receive_some()
        second = await trio.open_unix_socket(tmp_path / "s")
        assert [b"503"] == statuses(await everything(second))
        await first.aclose()
        await second.aclose()
        nursery.cancel_scope.cancel()


@settings(deadline=None, max_examples=200)
@given(st.lists(st.binary(max_size=40) | st.sampled_from(PIECES), max_size=8))
def test_no_rubbish_is_answered_with_anything_but_http_or_brings_the_server_down(pieces: list[bytes]) -> None:
    told = b""

    async def converse() -> None:
        nonlocal told
        async with connected(echo, HttpLimits(header_bytes_max=200, body_bytes_max=20, idle_seconds_max=5)) as client:
            try:
                for piece in pieces:
                    await client.send_all(piece)
                    await trio.sleep(0.1)
            except trio.BrokenResourceError:
                pass  # it has had enough
            told = await everything(client)

    trio.run(converse, clock=trio.testing.MockClock(autojump_threshold=0))

    assert told == b"" or told.startswith(b"HTTP/1.1 ")
    assert set(statuses(told)) <= {b"100", b"200", b"400", b"413", b"431", b"501"}
