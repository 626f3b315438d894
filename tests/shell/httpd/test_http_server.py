"""The tiny HTTP server: requests, streams, limits, and clients that behave badly."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import h11
import httpx
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from drawn_examples import examples
from trikubelet.httpd.connection import HttpConnection
from trikubelet.httpd.connection_limit import ConnectionLimit
from trikubelet.httpd.messages import Upgrade
from trikubelet.httpd.server import HttpLimits, Request, Response, json, serve_http, text
from trikubelet.kit.barrier import InvariantBroken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.httpd.messages import Accept

    Handler = Callable[[Request], Awaitable[Response | Upgrade]]


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
        await client.send_all(b"GET /next HTTP/1.1\r\nhost: n\r\n\r\n")  # whose end comes behind another request
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


@pytest.mark.parametrize(
    ("failure", "line", "has_traceback"),
    [
        (OSError("the disk is gone"), "GET /log: cut in the middle of the answer: the disk is gone", False),
        (ValueError("a bug"), "GET /log failed while it was sent", True),
    ],
)
async def test_a_stream_that_fails_ends_without_its_last_chunk_and_is_logged(
    failure: Exception,
    line: str,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    *,
    has_traceback: bool,
) -> None:
    async def handler(_request: Request) -> Response:
        async def broken() -> AsyncIterator[bytes]:
            yield b"half"
            raise failure

        return Response(200, {}, broken())

    async with connected(handler) as client:
        await client.send_all(b"GET /log HTTP/1.1\r\nhost: n\r\n\r\n")
        told = await everything(client)

    assert told.endswith(b"4\r\nhalf\r\n")
    assert [(line, has_traceback)] == [(one.getMessage(), bool(one.exc_info)) for one in caplog.records]


class FailsAsItsClientLeaves:
    """A stream that is quiet, and whose inside does not bear to be cancelled."""

    def __aiter__(self) -> FailsAsItsClientLeaves:
        return self

    async def __anext__(self) -> bytes:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._fail)
            nursery.start_soon(trio.sleep_forever)
        return b""

    async def _fail(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OSError("the disk is gone")


async def test_a_stream_that_fails_as_its_client_leaves_ends_nothing_but_itself(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(_request: Request) -> Response:
        return Response(200, {}, FailsAsItsClientLeaves())

    async with connected(handler) as client:
        await client.send_all(b"GET /log HTTP/1.1\r\nhost: n\r\n\r\n")
        await client.send_eof()
        told = await everything(client)

    assert [b"200"] == statuses(told)
    assert "GET /log: cut in the middle of the answer: the disk is gone" in caplog.text


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


# ---- another protocol ----

WANTS_MORE = b"POST /x HTTP/1.1\r\nhost: n\r\nupgrade: shout\r\nconnection: upgrade\r\n\r\n"


async def test_a_handler_may_go_on_in_another_protocol_and_loses_nothing_that_came_early(
    autojump_clock: MockClock,
) -> None:
    async def shout(accept: Accept) -> None:
        async with await accept({"Upgrade": "shout", "connection": "upgrade"}) as stream:
            while data := await stream.receive_some(3):
                await stream.send_all(bytes(data).upper())

    async def handler(_: Request) -> Upgrade:
        return Upgrade(shout)

    async with connected(handler) as client:
        await client.send_all(WANTS_MORE + b"early, ")
        await client.send_all(b"GET / HTTP/1.1\r\n")
        await client.send_eof()
        head, _, said = (await everything(client)).partition(b"\r\n\r\n")

    assert [b"HTTP/1.1 101 Switching Protocols", b"upgrade: shout", b"connection: upgrade"] == head.split(b"\r\n")
    assert b"EARLY, GET / HTTP/1.1\r\n" == said


async def refuse(_: Accept) -> Response:
    return text("not today", 403)


async def parts() -> AsyncIterator[bytes]:
    yield b"not "
    yield b"today"


@pytest.mark.parametrize("sent", [WANTS_MORE, WANTS_MORE.replace(b"connection: upgrade\r\n", b"")])
@pytest.mark.parametrize(
    "answer",
    [
        lambda: Upgrade(refuse),
        lambda: text("not today", 403),
        lambda: text("not today", 403, {"Connection": "keep-alive"}),
        lambda: Response(403, body=parts()),
    ],
    ids=["a conversation", "a response", "a response that would go on", "a stream"],
)
async def test_after_a_refused_upgrade_nothing_is_taken_for_a_request(
    autojump_clock: MockClock, sent: bytes, answer: Callable[[], Response | Upgrade]
) -> None:
    heard = []

    async def handler(request: Request) -> Response | Upgrade:
        heard.append(request.path)
        return answer()

    async with connected(handler) as client:
        await client.send_all(sent + HIDDEN)
        await client.send_all(HIDDEN)
        head, _, body = (await everything(client)).partition(b"\r\n\r\n")

    assert (["/x"], [b"403"]) == (heard, statuses(head))
    assert [b"connection: close"] == [line for line in head.lower().split(b"\r\n") if b"connection" in line]
    assert (True, []) == (b"today" in body, statuses(body))


async def test_after_a_refused_upgrade_what_the_client_still_sends_is_read_so_that_it_finds_the_answer(
    autojump_clock: MockClock,
) -> None:
    # A socket that is closed over what nobody has read is reset, and a client that is reset may lose the answer.
    async def handler(_: Request) -> Upgrade:
        return Upgrade(refuse)

    async with connected(handler) as client:
        await client.send_all(WANTS_MORE)
        told = await everything(client)
        await client.send_all(HIDDEN)  # raises where nobody reads any more

    assert [b"403"] == statuses(told)


@pytest.mark.parametrize("accepts", [True, False])
async def test_a_conversation_that_fails_is_logged_and_told_as_far_as_it_can_be(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, accepts: bool
) -> None:
    async def fail(accept: Accept) -> None:
        if accepts:
            await accept({"upgrade": "shout"})
        raise ValueError("nothing to say")

    async def handler(_: Request) -> Upgrade:
        return Upgrade(fail)

    async with connected(handler) as client:
        await client.send_all(WANTS_MORE)
        await client.send_eof()

        assert [b"101" if accepts else b"500"] == statuses(await everything(client))
    assert "POST /x failed" in caplog.text


async def test_a_client_that_goes_amid_a_conversation_is_no_failure(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def speak(accept: Accept) -> None:
        stream = await accept({"upgrade": "shout"})
        while True:
            await stream.send_all(b"hello")
            await trio.sleep(1)

    async def handler(_: Request) -> Upgrade:
        return Upgrade(speak)

    async with connected(handler) as client:
        await client.send_all(WANTS_MORE)
        await client.receive_some()
        await client.aclose()
    assert "" == caplog.text


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"what is this\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nhost: n\r\nx: " + b"y" * 5000 + b"\r\n\r\n", b"431"),
        (b"GET http://[ HTTP/1.1\r\nhost: n\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nhost: n\r\nx: a\rb\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nhost: n\r\ntransfer-encoding: chunked\r\n\r\n65\r\n" + b"z" * 101, b"413"),
        (b"POST / HTTP/1.1\r\nhost: n\r\ncontent-length: 101\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nhost: n\r\ncontent-length: 99999999999999999999\r\n\r\n", b"413"),
    ],
)
async def test_what_is_no_request_or_too_much_of_one_is_refused_and_closed(
    autojump_clock: MockClock, sent: bytes, status: bytes
) -> None:
    async with connected(echo, HttpLimits(header_bytes_max=4096, body_bytes_max=100)) as client:
        await client.send_all(sent)

        told = await everything(client)
        assert ([status], False) == (statuses(told), b"bytearray" in told)


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


async def test_stream_reader_may_pause_for_hours_until_the_limit(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 1000

    async def handler(_request: Request) -> Response:
        return Response(200, {}, body())

    async with connected(handler, HttpLimits(send_seconds_max=7, stream_seconds_max=14400)) as client:
        await client.send_all(b"GET / HTTP/1.1\r\nhost: n\r\nconnection: close\r\n\r\n")
        got = await client.receive_some(100)
        await trio.sleep(14000)
        assert 3000 == (got + await everything(client)).count(b"x")
    assert [] == caplog.messages

    near, far = trio.testing.lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(HttpConnection(far, handler, HttpLimits(stream_seconds_max=14400)).run)
        await near.send_all(b"GET / HTTP/1.1\r\nhost: n\r\n\r\n")
        await near.receive_some(100)
        await trio.sleep(15000)
        assert ["GET /: cut: the client does not read it"] == caplog.messages


async def test_connection_limit_shows_the_connections(tmp_path: Path) -> None:
    listener, connection_limit = trio.SocketListener(await listening(tmp_path / "s")), ConnectionLimit("this one", 3)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_http, echo, [listener], connection_limit=connection_limit))
        client = await trio.open_unix_socket(tmp_path / "s")
        await client.send_all(b"GET / HTTP/1.1\r\nhost: n\r\n\r\n")
        await client.receive_some()
        assert 1 == len(connection_limit)
        await client.aclose()
        nursery.cancel_scope.cancel()


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


# ---- clients that mean harm ----


class Heard:
    """A handler that refuses to change the protocol, and remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, bytes]] = []

    async def handle(self, request: Request) -> Response:
        await trio.lowlevel.checkpoint()
        self.requests.append((f"{request.method} {request.path}", request.body))
        return text("no", 403)


HIDDEN = b"GET /hidden HTTP/1.1\r\nhost: n\r\n\r\n"
UPGRADE = b"GET /x HTTP/1.1\r\nhost: n\r\nupgrade: websocket\r\nconnection: upgrade\r\n"


@pytest.mark.parametrize(
    ("sent", "heard", "told"),
    [
        (UPGRADE + b"\r\n" + HIDDEN, [("GET /x", b"")], [b"403"]),
        (UPGRADE + b"content-length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN, [("GET /x", HIDDEN)], [b"403"]),
        (
            UPGRADE + b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN),
            [("GET /x", HIDDEN)],
            [b"403"],
        ),
        (UPGRADE + b"content-length: 6\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN, [], [b"400"]),
        (UPGRADE + b"content-length: 0\r\ncontent-length: 33\r\n\r\n" + HIDDEN, [], [b"400"]),
        (UPGRADE + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n" + HIDDEN, [], [b"501"]),
        (UPGRADE + b"transfer-encoding: chunked\r\n\r\n0;x=\n\r\n\r\n" + HIDDEN, [], [b"400"]),
        (UPGRADE + b"transfer-encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n" + HIDDEN, [], [b"400"]),
        (UPGRADE + b"transfer-encoding: chunked\r\n\r\n-1\r\n\r\n" + HIDDEN, [], [b"400"]),
        (UPGRADE + b"transfer-encoding: chunked\r\n\r\n0\r\ntrailer: x\r\n\r\n", [("GET /x", b"")], [b"403"]),
        (b"CONNECT n:1 HTTP/1.1\r\nhost: n\r\n\r\n" + HIDDEN, [], [b"501"]),
        (b"HEAD x HTTP/1.1\r\nhost: n\r\n\r\n" + HIDDEN, [], [b"400"]),
        (b"GET /x HTTP/1.1\r\nhost: n\r\n\r\nHEAD x HTTP/1.1\r\nhost: n\r\n\r\n", [("GET /x", b"")], [b"403", b"400"]),
    ],
)
async def test_no_request_hides_in_another(
    autojump_clock: MockClock, sent: bytes, heard: list[tuple[str, bytes]], told: list[bytes]
) -> None:
    handler = Heard()
    async with connected(handler.handle) as client:
        await client.send_all(sent)
        await client.send_eof()

        assert told == statuses(await everything(client))
    assert heard == handler.requests


async def test_a_body_before_another_protocol_is_no_part_of_it(autojump_clock: MockClock) -> None:
    async def say_back(accept: Accept) -> None:
        stream = await accept({"upgrade": "shout", "connection": "upgrade"})
        await stream.send_all(await stream.receive_some())

    async def handler(_: Request) -> Upgrade:
        return Upgrade(say_back)

    async with connected(handler) as client:
        await client.send_all(UPGRADE + b"content-length: 4\r\n\r\nbodyearly")

        assert (await everything(client)).endswith(b"\r\n\r\nearly")


@pytest.mark.parametrize(
    ("begin", "drop"),
    [
        (b"GET / HTTP/1.1\r\nhost: n\r\nx:", b"y"),
        (b"GET / HTTP/1.1\r\nhost: n\r\n", b"a:\r\n"),
        (b"POST / HTTP/1.1\r\nhost: n\r\ncontent-length: 1000\r\n\r\n", b"z"),
        (b"POST / HTTP/1.1\r\nhost: n\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nz\r\n"),
        (b"", b"G"),
    ],
)
async def test_slow_sender_gains_no_time(autojump_clock: MockClock, begin: bytes, drop: bytes) -> None:
    handler = Heard()
    async with connected(handler.handle, HttpLimits(idle_seconds_max=90)) as client:
        await client.send_all(begin)
        with suppress(trio.BrokenResourceError):
            while trio.current_time() < 1000:
                await trio.sleep(7)
                await client.send_all(drop)
        assert 10 <= trio.current_time() <= 17

    assert [] == handler.requests


@pytest.mark.parametrize(("status", "seconds"), [(200, 90), (301, 90), (401, 10), (500, 10)])
async def test_refused_client_has_a_short_idle_time(autojump_clock: MockClock, status: int, seconds: float) -> None:
    async def handler(_: Request) -> Response:
        return text("said", status)

    async with connected(handler) as client:
        await client.send_all(b"GET / HTTP/1.1\r\nhost: n\r\n\r\n")
        await everything(client)

        assert seconds == trio.current_time()


@pytest.mark.parametrize("sent", [b"POST /%ff HTTP/1.1\r\n", b"POST /run/a?cmd=rm%20/%ffa HTTP/1.1\r\n"])
async def test_what_is_no_utf_8_is_refused_and_not_replaced(autojump_clock: MockClock, sent: bytes) -> None:
    handler = Heard()
    async with connected(handler.handle) as client:
        await client.send_all(sent + b"host: n\r\ncontent-length: 0\r\n\r\n")
        told = await everything(client)

    assert ([b"400"], True) == (statuses(told), told.endswith(b"the request's path or query is not UTF-8\n"))
    assert [] == handler.requests


async def test_headers_without_end_are_refused_by_their_number_too(autojump_clock: MockClock) -> None:
    handler = Heard()
    async with connected(handler.handle, HttpLimits(header_bytes_max=1024 * 1024)) as client:
        await client.send_all(b"GET / HTTP/1.1\r\nhost: n\r\n" + b"a:\r\n" * 10_000)

        assert [b"431"] == statuses(await everything(client))
    assert [] == handler.requests


FEW = HttpLimits(header_bytes_max=8000, held_bytes_max=4000, shared_bytes_max=10_000)
"""Three of those who send 7000 find room."""
LARGE = b"GET /large HTTP/1.1\r\nhost: n\r\nx: " + b"y" * 6950
END = b"\r\n\r\n"


class Callers(trio.abc.Listener[trio.abc.Stream]):
    """Owns the line of those who have connected and were not accepted yet."""

    def __init__(self) -> None:
        self._calling, self._waiting = trio.open_memory_channel[trio.abc.Stream](1000)

    async def accept(self) -> trio.abc.Stream:
        return await self._waiting.receive()

    async def aclose(self) -> None:
        await self._waiting.aclose()

    def call(self) -> trio.abc.Stream:
        """The client's end of a new connection."""
        near, far = memory_stream_pair()
        self._calling.send_nowait(far)
        return near


@asynccontextmanager
async def answering(handler: Handler, limits: HttpLimits) -> AsyncIterator[Callers]:
    """A server whose connections cost nothing."""
    callers = Callers()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_http, handler, [callers], limits=limits))
        yield callers
        nursery.cancel_scope.cancel()


async def said_to(client: trio.abc.Stream, words: bytes) -> list[bytes]:
    """The statuses of what is said back at once, if anything is."""
    await client.send_all(words)
    with trio.move_on_after(1):
        return statuses(bytes(await client.receive_some()))
    return []


async def test_incomplete_heads_share_a_memory_limit(
    autojump_clock: MockClock,
) -> None:
    async with answering(echo, FEW) as callers:
        clients = [callers.call() for _ in range(50)]
        told = [await said_to(client, LARGE) for client in clients]
        assert [[]] * 3 + [[b"503"]] * 47 == told
        small = callers.call()
        assert [b"200"] == await said_to(small, b"GET / HTTP/1.1\r\nhost: n" + END)
        assert [b"200"] == await said_to(clients[0], END)
        assert [b"200"] == await said_to(callers.call(), LARGE + END)
        await clients[1].aclose()
        await wait_all_tasks_blocked()
        assert [b"200"] == await said_to(clients[0], LARGE + END), "its first is no longer counted"


async def test_what_is_not_answered_yet_is_held_with_all_its_fields(autojump_clock: MockClock) -> None:
    answered = trio.Event()

    async def handler(_: Request) -> Response:
        await answered.wait()
        return Response()

    async with answering(handler, FEW) as callers:
        clients = [callers.call() for _ in range(3)]
        told = [await said_to(client, b"GET /?" + b"a=&" * 15 + b" HTTP/1.1\r\nhost: n" + END) for client in clients]
        assert [[], [], [b"503"]] == told, "of which each takes 8 KB and has sent 60 bytes"
        answered.set()
        assert [b"200"] == await said_to(clients[0], b"")


async def test_client_with_too_much_pipelined_data_is_closed(autojump_clock: MockClock) -> None:
    async def trickle() -> AsyncIterator[bytes]:
        while True:
            yield b"x"
            await trio.sleep(100)

    async def handler(_: Request) -> Response:
        return Response(body=trickle())

    async with answering(handler, FEW) as callers:
        client = callers.call()
        assert [b"200"] == await said_to(client, b"GET / HTTP/1.1\r\nhost: n" + END)
        await client.send_all(LARGE)
        await client.send_all(LARGE + LARGE)
        await wait_all_tasks_blocked()
        with pytest.raises(trio.BrokenResourceError):
            await client.send_all(b"x")
        told = [await said_to(callers.call(), LARGE) for _ in range(4)]
        assert [[]] * 3 + [[b"503"]] == told


async def test_client_with_many_pipelined_blocks_counts_as_gone(autojump_clock: MockClock) -> None:
    """There would be room for them: a megabyte and more, of which nobody would read anything for hours."""
    closed = trio.Event()

    async def silent() -> AsyncIterator[bytes]:
        try:
            yield b"x"
            await trio.sleep_forever()
        finally:
            closed.set()

    async def handler(_: Request) -> Response:
        return Response(body=silent())

    block = b"y" * 16 * 1024
    async with connected(handler) as client:
        assert [b"200"] == await said_to(client, b"GET / HTTP/1.1\r\nhost: n" + END)
        for _ in range(15):
            assert not closed.is_set()
            await client.send_all(block)
            await wait_all_tasks_blocked()
        assert not closed.is_set()
        await client.send_all(block)
        with trio.fail_after(1):
            await closed.wait()


@pytest.mark.parametrize("way", ["stream", "another protocol"])
async def test_what_a_request_took_is_given_back_before_what_may_take_hours(
    autojump_clock: MockClock, way: str
) -> None:
    async def silent() -> AsyncIterator[bytes]:
        yield b"x"
        await trio.sleep_forever()

    async def converse(accept: Accept) -> None:
        await accept({})
        await trio.sleep_forever()

    async def handler(_: Request) -> Response | Upgrade:
        return Response(body=silent()) if way == "stream" else Upgrade(converse)

    wants = b"" if way == "stream" else b"\r\nupgrade: x\r\nconnection: upgrade"
    async with answering(handler, FEW) as callers:
        told = [await said_to(callers.call(), LARGE + wants + END) for _ in range(10)]

    assert [[b"200" if way == "stream" else b"101"]] * 10 == told


@pytest.mark.parametrize(
    ("needs_proof", "others", "status", "seconds"),
    [(True, 2, 401, 2), (True, 1, 401, 0), (True, 2, 200, 0), (False, 2, 401, 0)],
)
async def test_in_a_crowd_of_the_unauthenticated_each_of_them_pauses_before_it_is_heard_again(
    autojump_clock: MockClock, needs_proof: bool, others: int, status: int, seconds: float
) -> None:
    async def handler(request: Request) -> Response:
        if status == HTTPStatus.OK:
            request.admit(for_good=True)
        return Response(status)

    callers, limit = Callers(), ConnectionLimit("a server", 16, needs_proof=needs_proof)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_http, handler, [callers], connection_limit=limit))
        silent = [callers.call() for _ in range(others)]
        await wait_all_tasks_blocked()
        client = callers.call()
        for _ in range(2):
            await client.send_all(b"GET / HTTP/1.1\r\nhost: n" + END)
            assert [b"%d" % status] == statuses(bytes(await client.receive_some()))
        assert (seconds, others + 1) == (trio.current_time(), len(limit))
        for stream in (client, *silent):
            await stream.aclose()
        nursery.cancel_scope.cancel()


async def test_a_body_in_a_thousand_pieces_lets_others_have_their_turn(autojump_clock: MockClock) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    handler = Heard()
    async with connected(handler.handle) as client, trio.open_nursery() as nursery:
        nursery.start_soon(others)
        begin = b"POST / HTTP/1.1\r\nhost: n\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        await client.send_all(begin + b"1\r\nz\r\n" * 1000 + b"0\r\n\r\n")
        assert [b"403"] == statuses(await everything(client))
        nursery.cancel_scope.cancel()

    assert [("POST /", b"z" * 1000)] == handler.requests
    assert turns > 1000


async def test_of_what_cannot_be_read_little_is_said_back(autojump_clock: MockClock) -> None:
    async with connected(echo) as client:
        await client.send_all(b"\x01" * 50_000 + b"\r\n\r\n")
        told = await everything(client)

    assert ([b"400"], True) == (statuses(told), len(told) < 1000)


@settings(deadline=None, max_examples=examples(200))
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
    assert set(statuses(told)) <= {b"100", b"200", b"400", b"413", b"414", b"431", b"501", b"505"}
