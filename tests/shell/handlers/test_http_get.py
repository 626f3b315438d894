"""GET at real servers on loopback: what is sent, what is kept, what is followed, and how failures read."""

from __future__ import annotations

import errno
import gc
import socket
import ssl
import sys
from typing import TYPE_CHECKING

import pytest
import trio

from shell.handlers.serverkit import answer, serving
from shell.portkit import port_of_nobody
from trikubelet.core.handlers import PROBE_AGENT, http_target
from trikubelet.handlers import http_get
from trikubelet.handlers.dial import message_of
from trikubelet.handlers.network import NetworkHandlers
from trikubelet.model import k8s
from trikubelet.model.handlers import HttpAnswer, HttpTarget, NotTls, Unreachable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

handlers = NetworkHandlers()


def target(port: int, path: str = "/", scheme: str = "HTTP", host: str = "", **headers: str) -> HttpTarget:
    """As a probe's handler would have it."""
    given = tuple(k8s.HTTPHeader(name=name, value=value) for name, value in headers.items())
    action = k8s.HTTPGetAction(port=port, path=path, scheme=scheme, host=host, http_headers=given)
    return http_target(action, k8s.Container(name="c", image="i"), "127.0.0.1", PROBE_AGENT)


def fields(request: bytes) -> Mapping[str, str]:
    """The headers of a request as they came."""
    head = request.split(b"\r\n\r\n")[0].decode()
    return dict(line.split(": ", 1) for line in head.split("\r\n")[1:])


async def test_request_has_the_user_agent_and_closes_the_connection() -> None:
    async with serving(answer(200, b"ok\n")) as script:
        assert HttpAnswer(200, b"ok\n") == await handlers.http_get(target(script.port, "/healthz?full=1"))

    assert script.requests[0].startswith(b"GET /healthz?full=1 HTTP/1.1\r\n")
    assert {
        "Host": f"127.0.0.1:{script.port}",
        "User-Agent": "kube-probe/1.37",
        "Accept": "*/*",
        "Connection": "close",
    } == fields(script.requests[0])


async def test_headers_of_the_handler_replace_ours() -> None:
    async with serving(answer()) as script:
        asked = target(script.port, Host="front.example", Accept="text/plain", **{"User-Agent": "me", "X-One": "1"})
        await handlers.http_get(asked)

    assert {
        "Host": "front.example",
        "Accept": "text/plain",
        "User-Agent": "me",
        "X-One": "1",
        "Connection": "close",
    } == fields(script.requests[0])


async def test_a_header_outside_of_ascii_goes_out_in_utf_8() -> None:
    async with serving(answer()) as script:
        await handlers.http_get(target(script.port, **{"X-Greeting": "grüß dich"}))

    assert "grüß dich" == fields(script.requests[0])["X-Greeting"]


async def test_request_is_kept_only_by_a_repeating_caller() -> None:
    value = "x" * 100_000
    held = sys.getrefcount(value)
    async with serving(answer(), answer(), answer()) as script:
        await handlers.http_get(target(script.port, **{"X-Large": value}))
        gc.collect()
        assert held == sys.getrefcount(value)

        again = handlers.prepare_http_get(target(script.port, **{"X-Large": value}))
        assert [200, 200] == [(await again()).status, (await again()).status]
        del again
        gc.collect()
        assert held == sys.getrefcount(value)

    assert 1 == len({*script.requests})


async def test_repeated_request_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[HttpTarget] = []
    request = http_get._request
    monkeypatch.setattr(http_get, "_request", lambda one: written.append(one) or request(one))  # type: ignore[func-returns-value]
    async with serving(answer(), answer()) as script:
        ask = handlers.prepare_http_get(target(script.port))
        assert [200, 200] == [(await ask()).status, (await ask()).status]

    assert [target(script.port)] == written


async def test_a_host_is_not_remembered() -> None:
    host = "a" * 70_000
    held = sys.getrefcount(host)
    with pytest.raises(Unreachable):
        await handlers.tcp_connect(host, 1)
    gc.collect()

    assert held == sys.getrefcount(host)


@pytest.mark.parametrize("host", ["fe80::1%nosuch", "fe80::1%", "fe80::1%a\0", "fe80::1%\udcff", "a\0b", "1.2.3.4\n"])
@pytest.mark.parametrize("asked", ["http", "tcp", "grpc"])
async def test_a_host_that_is_none_is_a_failure(asked: str, host: str) -> None:
    questions: dict[str, Callable[[], Awaitable[object]]] = {
        "http": lambda: handlers.http_get(target(1, host=host)),
        "tcp": lambda: handlers.tcp_connect(host, 1),
        "grpc": lambda: handlers.grpc_health(host, 1, "", "a"),
    }
    with pytest.raises(Unreachable, match="dial tcp "):
        await questions[asked]()


async def test_a_body_is_kept_to_its_first_ten_kibibytes() -> None:
    async with serving(answer(200, b"x" * 50_000)) as script:
        found = await handlers.http_get(target(script.port))

    assert 10 * 1024 == len(found.body)


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nabcde",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
    ],
    ids=["chunked", "until the end", "after a continue"],
)
async def test_a_body_ends_as_the_server_says(said: bytes) -> None:
    async with serving(said) as script:
        assert HttpAnswer(200, b"abcde") == await handlers.http_get(target(script.port))


async def test_a_body_in_chunks_of_a_byte_is_kept_as_any_other() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + 20_000 * b"1\r\nx\r\n") as script:
        assert HttpAnswer(200, 10 * 1024 * b"x") == await handlers.http_get(target(script.port))


async def test_what_is_around_a_body_is_not_read_without_end_as_upstream() -> None:
    """Here it ends, too late; a hook, which has no deadline, would otherwise keep the event loop for as long as its
    container likes."""
    chunks = 20 * (b"1;" + 60_000 * b"e" + b"\r\nx\r\n") + b"0\r\n\r\n"
    async with serving(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks) as script:
        with pytest.raises(Unreachable, match=r"connection broken: chunked encoding contains too much non-data$"):
            await handlers.http_get(target(script.port))


async def test_redirects_to_the_same_host_are_followed() -> None:
    first = answer(302, b"", "Location: /second?x=1")
    async with serving(first, answer(307, b"", "Location: http://127.0.0.1:PORT/third"), answer(204)) as script:
        assert 204 == (await handlers.http_get(target(script.port, "/first", Host="named"))).status

    paths = [request.split(b" ")[1] for request in script.requests]
    assert [b"/first", b"/second?x=1", b"/third"] == paths
    assert ["named", "named", f"127.0.0.1:{script.port}"] == [fields(r)["Host"] for r in script.requests]


async def test_a_redirect_is_followed_byte_for_byte_whether_it_is_utf_8_or_not() -> None:
    first = answer(302, b"", "Location: /ü?x=é").replace("é".encode(), b"\xff%41")
    async with serving(first, answer(204)) as script:
        assert 204 == (await handlers.http_get(target(script.port))).status

    assert b"/%C3%BC?x=%FF%41" == script.requests[1].split(b" ")[1]


async def test_a_redirect_to_what_is_no_place_is_reported_in_text_that_can_be_sent_on() -> None:
    nowhere = answer(302, b"", "Location: http://127.0.0.1:99999/é").replace("é".encode(), b"\xff")
    async with serving(nowhere) as script:
        with pytest.raises(Unreachable, match=r"Location header \"http://127.0.0.1:99999/\ufffd\""):
            await handlers.http_get(target(script.port))


async def test_a_redirect_to_another_host_is_the_answer() -> None:
    async with serving(answer(301, b"go away", "Location: http://elsewhere.example/")) as script:
        assert HttpAnswer(301, b"go away") == await handlers.http_get(target(script.port))


async def test_redirects_without_end_are_given_up() -> None:
    async with serving(answer(302, b"", "Location: /again")) as script:
        with pytest.raises(Unreachable, match=r'^Get "http://.*/again": stopped after 10 redirects$'):
            await handlers.http_get(target(script.port))

    assert 11 == len(script.requests)


async def test_refused_connection_is_reported_in_known_words() -> None:
    with port_of_nobody() as port, pytest.raises(Unreachable) as told:
        await handlers.http_get(target(port, "/x"))

    assert f'Get "http://127.0.0.1:{port}/x": dial tcp 127.0.0.1:{port}: connect: connection refused' == str(told.value)


async def test_host_name_without_a_listener_is_reported_in_the_systems_words() -> None:
    with port_of_nobody() as port, pytest.raises(Unreachable) as told:
        await handlers.http_get(target(port, host="localhost"))

    assert f'Get "http://localhost:{port}/": dial tcp localhost:{port}: connection refused' == str(told.value)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "EOF"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "transport connection broken: illegal status line: 'SSH-2.0-OpenSSH'$"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc", "transport connection broken"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, "transport connection broken"),
    ],
    ids=["nothing", "no HTTP", "half a body", "a head without end"],
)
async def test_what_is_no_answer_is_a_failure(said: bytes, why: str) -> None:
    async with serving(said) as script:
        with pytest.raises(Unreachable, match=why):
            await handlers.http_get(target(script.port))


async def test_https_works_with_an_untrusted_certificate(own_tls: ssl.SSLContext) -> None:
    async with serving(answer(200, b"secret"), tls=own_tls) as script:
        found = await handlers.http_get(target(script.port, scheme="HTTPS"))

    assert HttpAnswer(200, b"secret") == found


async def test_https_where_plain_http_is_spoken_is_told_apart() -> None:
    async with serving(answer(400, b"plain")) as script:
        with pytest.raises(NotTls, match="server gave HTTP response to HTTPS client"):
            await handlers.http_get(target(script.port, scheme="HTTPS"))


async def test_https_where_something_else_is_spoken_is_a_failure() -> None:
    async with serving(b"220 mail.example ESMTP\r\n") as script:
        with pytest.raises(Unreachable, match="tls: ") as told:
            await handlers.http_get(target(script.port, scheme="HTTPS"))

    assert not isinstance(told.value, NotTls)


async def test_a_host_may_be_a_name() -> None:
    async with serving(answer(200)) as script:
        assert 200 == (await handlers.http_get(target(script.port, host="localhost"))).status


async def test_giving_up_closes_the_connection() -> None:
    """A server that never answers sees the end of a client that was cancelled."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    seen = trio.Event()

    async def silent(stream: trio.abc.Stream) -> None:
        await stream.receive_some(65536)
        asking.cancel()
        assert not await stream.receive_some(65536)
        seen.set()

    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, silent, listeners)
        with trio.CancelScope() as asking:
            await handlers.http_get(target(listeners[0].socket.getsockname()[1]))
        assert asking.cancelled_caught
        await seen.wait()
        nursery.cancel_scope.cancel()


async def test_a_tcp_connection_is_opened_and_closed() -> None:
    async with serving(b"") as script:
        await handlers.tcp_connect("127.0.0.1", script.port)

    refused = r"^dial tcp 127\.0\.0\.1:\d+: connect: connection refused$"
    with port_of_nobody() as port, pytest.raises(Unreachable, match=refused):
        await handlers.tcp_connect("127.0.0.1", port)


async def test_what_can_be_no_name_is_a_failure() -> None:
    with pytest.raises(Unreachable, match="dial tcp"):
        await handlers.tcp_connect("a" * 70 + ".example", 1)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("connection refused", OSError(errno.ECONNREFUSED, "all attempts to connect to x failed")),
        ("name or service not known", socket.gaierror(socket.EAI_NONAME, "Name or service not known")),
        ("[SSL: OLD] wrong version number", ssl.SSLError(1, "[SSL: OLD] wrong version number")),
        ("EOF occurred in violation of protocol", ssl.SSLEOFError(8, "EOF occurred in violation of protocol")),
    ],
)
def test_error_keeps_the_text_of_its_source(said: str, error: OSError) -> None:
    assert said == message_of(error)


INFORMATIONAL = b"HTTP/1.1 100 Continue\r\n\r\n"


async def test_a_few_answers_before_the_answer_are_skipped() -> None:
    async with serving(5 * INFORMATIONAL + answer(200, b"ok")) as script:
        assert HttpAnswer(200, b"ok") == await handlers.http_get(target(script.port))


async def test_answers_before_the_answer_without_end_are_a_failure_as_upstream() -> None:
    async with serving(6 * INFORMATIONAL + answer(200, b"ok")) as script:
        with pytest.raises(Unreachable, match=r"connection broken: net/http: too many 1xx informational responses$"):
            await handlers.http_get(target(script.port))
