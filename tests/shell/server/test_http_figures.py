"""How the node's API was asked, as it is counted and told."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from shell.localkit import FakeView
from trikubelet.httpd.connection_limit import ConnectionLimit
from trikubelet.httpd.messages import Accept, HttpLimits, Request, Response, Upgrade
from trikubelet.httpd.server import serve_http
from trikubelet.server.exposition import exposed
from trikubelet.server.http_figures import Asked, HttpFigures
from trikubelet.server.metrics import node_families

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from trio.testing import MockClock

PATHS = ("/pods", "/metrics", "/metrics/resource", "/containerLogs/{namespace}/{pod}/{container}", "/exec/{pod}")


@pytest.mark.parametrize(
    ("path", "method", "asked"),
    [
        ("pods", "GET", "/pods/"),
        ("metrics", "GET", "/metrics"),
        ("metrics/resource", "GET", "/metrics/resource"),
        ("containerLogs", "GET", "/containerLogs/default/web/app"),
        ("exec", "POST", "/exec/web"),
        ("other", "GET", "/made/up"),
        ("other", "GET", "/metrics/made/up"),
        ("other", "GET", "/"),
    ],
)
async def test_requests_are_counted_by_what_tells_routes_apart(path: str, method: str, asked: str) -> None:
    figures = HttpFigures(PATHS, {})

    async def answer(_: Request) -> Response:
        assert [1] == list(figures.under_way.values())
        await trio.lowlevel.checkpoint()
        return Response(204)

    assert Response(204) == await figures.counted("readwrite", answer)(Request(method, asked))
    assert {Asked(method, path, "readwrite", path == "exec"): 1} == {
        kind: spread.buckets[-1][1] for kind, spread in figures.durations.items()
    }
    assert [0] == list(figures.under_way.values())


async def test_clients_cannot_invent_labels() -> None:
    figures = HttpFigures(PATHS, {})

    async def answer(_: Request) -> Response:
        raise OSError("no matter")

    for number in range(20):
        with pytest.raises(OSError, match="no matter"):
            await figures.counted("readonly", answer)(Request(f"M{number}", f"/p{number}"))

    assert [Asked("other", "other", "readonly", False)] == list(figures.durations)


async def parts(of: Callable[[], Awaitable[None]]) -> AsyncGenerator[bytes, None]:
    yield b"one"
    await of()


async def taken_over(of: Callable[[], Awaitable[None]], accept: Accept) -> None:
    await accept({"upgrade": "x"})
    await of()


async def declined(of: Callable[[], Awaitable[None]], _: Accept) -> Response:
    await trio.lowlevel.checkpoint()
    return Response(400, body=parts(of))


UPGRADE = b"Connection: upgrade\r\nUpgrade: x\r\n"


async def fails() -> None:
    await trio.sleep(5)
    raise OSError("the runtime has gone")


@pytest.mark.parametrize(
    ("answered", "of", "seconds"),
    [
        (lambda of: Response(body=parts(of)), partial(trio.sleep, 5), 5),
        (lambda of: Response(body=parts(of)), fails, 5),
        (lambda of: Response(body=parts(of)), trio.sleep_forever, 8),
        (lambda of: Response(headers={"x": "\u20ac"}, body=parts(of)), trio.sleep_forever, 0),
        (lambda of: Upgrade(partial(taken_over, of)), partial(trio.sleep, 5), 5),
        (lambda of: Upgrade(partial(taken_over, of)), fails, 5),
        (lambda of: Upgrade(partial(taken_over, of)), trio.sleep_forever, 20),
        (lambda of: Upgrade(partial(declined, of)), partial(trio.sleep, 5), 5),
    ],
    ids=["a body", "one that fails", "its reader goes", "headers that cannot be sent", "a connection", "one that fails",
         "the server ends", "a body instead of a connection"],
)  # fmt: skip
async def test_a_stream_is_under_way_until_it_has_ended(
    answered: Callable[[Callable[[], Awaitable[None]]], Response | Upgrade],
    of: Callable[[], Awaitable[None]],
    seconds: float,
    autojump_clock: MockClock,
) -> None:
    """Its reader goes after 8 seconds, and the server ends after 20."""
    figures = HttpFigures(PATHS, {})
    begun = trio.current_time()

    async def answer(_: Request) -> Response | Upgrade:
        await trio.lowlevel.checkpoint()
        return answered(of)

    ours, theirs = trio.testing.memory_stream_pair()
    listener = OneClient(theirs)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_http, figures.counted("readwrite", answer), [listener], limits=HttpLimits()))
        await ours.send_all(b"GET /exec/a HTTP/1.1\r\nHost: n\r\n" + UPGRADE + b"\r\n")
        if seconds:
            await trio.sleep(4)
            assert (1, 0) == (figures.under_way.total(), len(figures.durations))
        await trio.sleep_until(begun + 8)
        await ours.aclose()
        await trio.sleep_until(begun + 20)
        nursery.cancel_scope.cancel()

    assert 0 == figures.under_way.total()
    assert [(1, seconds)] == [(spread.count, round(spread.sum)) for spread in figures.durations.values()]


class OneClient(trio.abc.Listener[trio.abc.Stream]):
    """A listener with one client, who is there already."""

    def __init__(self, client: trio.abc.Stream) -> None:
        self._clients = [client]

    async def accept(self) -> trio.abc.Stream:
        if not self._clients:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return self._clients.pop()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_they_are_told_under_upstreams_names(autojump_clock: MockClock) -> None:
    figures = HttpFigures(PATHS, {})

    async def answer(_: Request) -> Response:
        await trio.sleep(0.3)
        return Response()

    await figures.counted("readwrite", answer)(Request("GET", "/pods"))
    said = exposed(node_families(FakeView(), 0, figures)).decode()

    labels = 'method="GET",path="pods",server_type="readwrite",long_running="false"'
    assert f"kubelet_http_requests_total{{{labels}}} 1\n" in said
    assert f"kubelet_http_requests_duration_seconds_sum{{{labels}}} 0.3" in said
    assert f"kubelet_http_inflight_requests{{{labels}}} 0\n" in said
    assert f'kubelet_http_requests_duration_seconds_bucket{{{labels},le="0.25"}} 0\n' in said
    assert f'kubelet_http_requests_duration_seconds_bucket{{{labels},le="0.5"}} 1\n' in said


async def test_open_and_closed_connections_are_counted() -> None:
    figures = HttpFigures(PATHS, {})
    limit = figures.connection_limits["readwrite"] = ConnectionLimit("the API", 1)
    with limit.slot(), limit.slot() as slot:
        assert slot is not None
        slot.asks()
        with limit.slot() as none:
            assert none is None
        said = exposed(node_families(FakeView(), 0, figures)).decode()

    assert 'trikubelet_http_connections{server_type="readwrite"} 1\n' in said
    for reason in ("unauthenticated", "no_room"):
        labels = f'server_type="readwrite",reason="{reason}"'
        assert f"trikubelet_http_connections_closed_total{{{labels}}} 1\n" in said


async def test_web_sockets_are_reported_by_what_they_want() -> None:
    said = exposed(node_families(FakeView(), 0, HttpFigures(PATHS, {"portforward": 2}))).decode()

    assert 'kubelet_websocket_streaming_requests_total{subresource="portforward"} 2\n' in said
