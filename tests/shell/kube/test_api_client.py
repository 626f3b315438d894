"""The API client against a server of our own: what it asks, what answers mean, and servers that behave badly."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trustme import CA

from shell.kube.apikit import (
    PlayedServer,
    access_to,
    asking,
    cancelled_at,
    cancelling_at,
    serving,
    serving_certificate,
)
from shell.portkit import port_of_nobody
from trikubelet.httpd.messages import Request, Response
from trikubelet.httpd.messages import json as told
from trikubelet.kit.local_failure import LocalFailure
from trikubelet.kube import client as client_module
from trikubelet.kube.transport import IDLE_SECONDS_MAX, PLACE_SECONDS_MAX
from trikubelet.model.api import CONFIG_MAPS, LEASES, NODES, PODS, Item, PatchKind, Selection
from trikubelet.model.api_errors import (
    ApiBusy,
    ApiError,
    ApiFailure,
    ApiLost,
    ApiUnreachable,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    ObjectExists,
    ObjectMissing,
    OutOfConnections,
    Refused,
    Unauthorized,
)
from trikubelet.model.errors import StartFailed
from trikubelet.model.kubeconfig import ClusterAccess, Server

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    from trio.testing import MockClock

    from trikubelet.kube.client import ApiClient

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"},
}
TEXT = json.dumps(POD).encode()
CHANGE = json.dumps({"type": "ADDED", "object": POD}).encode() + b"\n"


@pytest.fixture
def certificates(authority: CA) -> ssl.SSLContext:
    return serving_certificate(authority, "127.0.0.1", "api.test")


@pytest.fixture
def open_pair(authority: CA, certificates: ssl.SSLContext) -> Callable[..., Any]:
    return partial(paired, authority, certificates)


@asynccontextmanager
async def paired(
    authority: CA,
    certificates: ssl.SSLContext,
    answer: Callable[[Request], Awaitable[Response]] | Response,
    **more: Any,
) -> AsyncIterator[tuple[PlayedServer, ApiClient]]:
    async def always(_: Request) -> Response:
        assert isinstance(answer, Response)
        return answer

    async with (
        serving(certificates, always if isinstance(answer, Response) else answer) as server,
        asking(access_to(server.url, authority.cert_pem.bytes()), **more) as client,
    ):
        yield server, client


def status(code: int, reason: str = "", **details: Any) -> Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": f"{reason}!", "details": details}
    return told(body, code)


def pod_text(name: str, version: str) -> bytes:
    return json.dumps({"metadata": {"name": name, "resourceVersion": version}}).encode()


async def test_an_object_comes_undecoded(open_pair: Callable[..., Any]) -> None:
    async with open_pair(Response(200, {}, TEXT)) as (server, client):
        assert Item("n", "a", "u", "7", TEXT) == await client.get(PODS, "a", "n")
        (request,) = server.requests

    assert ("GET", "/api/v1/namespaces/n/pods/a", {}) == (request.method, request.path, request.query)
    assert ("trikubelet/test", "application/json", "gzip") == tuple(
        request.headers[name] for name in ("user-agent", "accept", "accept-encoding")
    )


async def test_the_server_states_its_version(open_pair: Callable[..., Any]) -> None:
    async with open_pair(told({"major": "1", "minor": "36", "gitVersion": "v1.36.3"})) as (server, client):
        assert "v1.36.3" == await client.server_version()
        (request,) = server.requests

    assert ("GET", "/version") == (request.method, request.path)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"gitVersion": 1}', b"<html>"])
async def test_an_answer_without_a_version_is_a_failure(body: bytes, open_pair: Callable[..., Any]) -> None:
    async with open_pair(Response(200, {}, body)) as (_, client):
        with pytest.raises(ApiFailure, match="not a version"):
            await client.server_version()


async def test_a_list_says_what_it_selects_and_where_it_goes_on(open_pair: Callable[..., Any]) -> None:
    page = b'{"kind":"PodList","metadata":{"resourceVersion":"9","continue":"more"},"items":[%b, %b]}' % (
        pod_text("a", "1"),
        pod_text("b", "2"),
    )
    async with open_pair(Response(200, {}, page)) as (server, client):
        selection = Selection("n", "spec.nodeName=w", "app=x")
        first = await client.list(PODS, selection, limit=2, resource_version="5")
        await client.list(PODS, selection, limit=2, resource_version="5", continue_token="more")

    assert ("9", "more") == (first.resource_version, first.continue_token)
    assert [Item("", "a", "", "1", pod_text("a", "1")), Item("", "b", "", "2", pod_text("b", "2"))] == list(first.items)
    selects = {"fieldSelector": "spec.nodeName=w", "labelSelector": "app=x", "limit": "2"}
    assert [
        {**selects, "resourceVersion": "5", "resourceVersionMatch": "NotOlderThan"},
        {**selects, "continue": "more"},
    ] == [request.query for request in server.requests]
    assert "/api/v1/namespaces/n/pods" == server.requests[0].path


async def test_a_list_without_items_is_empty(open_pair: Callable[..., Any]) -> None:
    async with open_pair(told({"kind": "NodeList", "metadata": {"resourceVersion": "9"}, "items": None})) as (
        _,
        client,
    ):
        assert [] == list((await client.list(NODES, Selection())).items)


async def test_changes_are_sent_as_they_are_meant(open_pair: Callable[..., Any]) -> None:
    async with open_pair(Response(200, {}, TEXT)) as (server, client):
        await client.create(LEASES, {"a": 1}, "n")
        await client.create(PODS, {}, "n", under="a/eviction")
        await client.replace(NODES, "w", {"b": 2})
        await client.patch(PODS, "a", {"c": 3}, "n", kind=PatchKind.STRATEGIC, subresource="status")
        await client.delete(PODS, "a", "n", grace_seconds=0, uid="u")
        await client.delete(CONFIG_MAPS, "m", "n")

    assert [
        ("POST", "/apis/coordination.k8s.io/v1/namespaces/n/leases", "application/json", {"a": 1}),
        ("POST", "/api/v1/namespaces/n/pods/a/eviction", "application/json", {}),
        ("PUT", "/api/v1/nodes/w", "application/json", {"b": 2}),
        ("PATCH", "/api/v1/namespaces/n/pods/a/status", "application/strategic-merge-patch+json", {"c": 3}),
        (
            "DELETE",
            "/api/v1/namespaces/n/pods/a",
            "application/json",
            {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": "u"}},
        ),
        (
            "DELETE",
            "/api/v1/namespaces/n/configmaps/m",
            "application/json",
            {"apiVersion": "v1", "kind": "DeleteOptions"},
        ),
    ] == [
        (request.method, request.path, request.headers["content-type"], json.loads(request.body))
        for request in server.requests
    ]


async def test_a_server_behind_a_path_is_asked_below_it(authority: CA, certificates: ssl.SSLContext) -> None:
    async def answer(request: Request) -> Response:
        return Response(200 if request.path == "/k8s/c1/api/v1/nodes/w" else 404, {}, TEXT)

    async with (
        serving(certificates, answer) as server,
        asking(access_to(f"{server.url}/k8s/c1", authority.cert_pem.bytes())) as client,
    ):
        assert "a" == (await client.get(NODES, "w")).name


async def test_a_path_with_a_space_in_it_is_asked_as_it_was_written(
    authority: CA, certificates: ssl.SSLContext
) -> None:
    async def answer(request: Request) -> Response:
        return Response(200, {}, TEXT)

    async with (
        serving(certificates, answer) as server,
        asking(access_to(f"{server.url}/a%20b", authority.cert_pem.bytes())) as client,
    ):
        assert "a" == (await client.get(NODES, "w")).name
    (request,) = server.requests
    assert request.path in ("/a%20b/api/v1/nodes/w", "/a b/api/v1/nodes/w")  # a server may show it unquoted


async def test_a_server_that_names_no_pause_is_asked_with_longer_and_longer_ones(
    open_pair: Callable[..., Any], autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    asked_at: list[float] = []

    async def answer(_: Request) -> Response:
        asked_at.append(trio.current_time())
        return Response(429, {"retry-after": "0"})

    async with open_pair(answer) as (_, client):
        with pytest.raises(ApiBusy):
            await client.get(PODS, "a", "n")

    waits = [later - earlier for earlier, later in pairwise(asked_at)]
    assert 9 == len(waits)
    assert 0.1 <= waits[0]
    assert 5.0 <= waits[-1] <= 6.0


async def test_a_watch_is_asked_for_unpacked(open_pair: Callable[..., Any]) -> None:
    async with open_pair(Response(200, {}, b"")) as (server, client):
        async with client.watch(PODS, Selection(), resource_version="1") as changes:
            assert [] == [change async for change in changes]
        with pytest.raises(ApiFailure):
            await client.list(PODS, Selection())

    assert ["identity", "gzip"] == [request.headers["accept-encoding"] for request in server.requests]


# ---- what answers mean ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (status(400, "BadRequest"), Refused),
        (status(401, "Unauthorized"), Unauthorized),
        (status(403, "Forbidden"), Forbidden),
        (status(404, "NotFound"), ObjectMissing),
        (status(405, "MethodNotAllowed"), Refused),
        (status(409, "AlreadyExists"), ObjectExists),
        (status(409, "Conflict"), Conflict),
        (status(410, "Expired"), Expired),
        (status(410, "Gone"), Expired),
        (status(413, "RequestEntityTooLarge"), Refused),
        (status(422, "Invalid"), Invalid),
        (status(422, "Invalid", causes=[{"field": "metadata.uid", "reason": "FieldValueInvalid"}]), Conflict),
        (status(429, "TooManyRequests"), ApiBusy),
        (status(500, "InternalError"), ApiFailure),
        (status(503, "ServiceUnavailable"), ApiFailure),
        (status(504, "Timeout"), ApiLost),
        (status(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge", "message": "too new"}]), Expired),
    ],
    ids=lambda value: f"{value.status}" if isinstance(value, Response) else "",
)
async def test_a_status_is_the_servers_own_word(
    answer: Response, kind: type[ApiError], open_pair: Callable[..., Any]
) -> None:
    reason = json.loads(answer.body)["reason"]  # type: ignore[arg-type]  # it is not streamed
    async with open_pair(answer) as (_, client):
        with pytest.raises(ApiError) as caught:
            await client.get(PODS, "a", "n")

    assert kind is type(caught.value)
    assert (reason, f"{reason}!") == (caught.value.reason, str(caught.value))


async def test_what_is_invalid_names_the_fields(open_pair: Callable[..., Any]) -> None:
    causes = [{"field": "spec.a", "message": "bad", "reason": "FieldValueInvalid"}, {"message": "also"}]
    async with open_pair(status(422, "Invalid", causes=causes)) as (_, client):
        with pytest.raises(Invalid) as caught:
            await client.create(PODS, {}, "n")

    assert ("spec.a",) == caught.value.fields


@pytest.mark.parametrize("code", [301, 404, 403, 409, 410, 422, 500, 502, 503])
async def test_what_a_proxy_says_is_never_taken_for_the_servers_word(code: int, open_pair: Callable[..., Any]) -> None:
    page = b"<html><style>p {color: red}</style><body><h1>Sorry</h1>\n<p>no  backend</p></body></html>"
    async with open_pair(Response(code, {"content-type": "text/html"}, page)) as (_, client):
        with pytest.raises(ApiError) as caught:
            await client.get(PODS, "a", "n")

    assert ApiFailure is type(caught.value)
    assert f"the server answered {code} {HTTPStatus(code).phrase}: Sorry no backend" == str(caught.value)


async def test_not_everything_in_json_is_the_servers_word(open_pair: Callable[..., Any]) -> None:
    async with open_pair(told({"message": "no route", "code": 404}, 404)) as (_, client):
        with pytest.raises(ApiFailure):
            await client.get(PODS, "a", "n")


async def test_a_plain_401_is_one(open_pair: Callable[..., Any]) -> None:
    async with open_pair(Response(401)) as (_, client):
        with pytest.raises(Unauthorized, match=r"401 Unauthorized$"):
            await client.get(PODS, "a", "n")


async def test_a_long_page_is_cut(open_pair: Callable[..., Any]) -> None:
    async with open_pair(Response(500, {}, b"x" * 100_000)) as (_, client):
        with pytest.raises(ApiFailure) as caught:
            await client.get(PODS, "a", "n")

    assert 300 > len(str(caught.value))


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"metadata": 1}', b'{"kind": "Status"}', b"\xff"])
async def test_a_good_answer_that_is_no_object_is_a_failure(body: bytes, open_pair: Callable[..., Any]) -> None:
    async with open_pair(Response(200, {}, body)) as (_, client):
        with pytest.raises(ApiFailure):
            await client.get(PODS, "a", "n")
        with pytest.raises(ApiFailure):
            await client.list(PODS, Selection())


# ---- a server that is busy -----------------------------------------------------------------------------------------


async def test_a_busy_server_is_asked_again_when_it_wishes(
    open_pair: Callable[..., Any], autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    asked_at: list[float] = []

    async def answer(_: Request) -> Response:
        asked_at.append(trio.current_time())
        # As API priority and fairness refuses: in plain text.
        return (
            Response(429, {"retry-after": "3"}, b"Too many requests") if len(asked_at) < 3 else Response(200, {}, TEXT)
        )

    async with open_pair(answer) as (_, client):
        assert "a" == (await client.get(PODS, "a", "n")).name

    waits = [later - earlier for earlier, later in pairwise(asked_at)]
    assert 2 == len(waits)
    assert all(3.0 <= wait <= 3.5 for wait in waits), waits


@pytest.mark.parametrize(
    ("answer", "tries", "after"),
    [
        (Response(429, {"retry-after": "1"}), 10, 1.0),
        (Response(503, {"retry-after": "1"}), 10, 1.0),
        (status(503, "ServiceUnavailable", retryAfterSeconds=1), 10, 1.0),
        (status(429, "TooManyRequests", retryAfterSeconds=2), 10, 2.0),
        (Response(429, {"retry-after": "3600"}), 1, 3600.0),
        (Response(429), 1, None),
        (Response(429, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}), 1, None),
    ],
)
async def test_it_is_not_asked_for_ever(
    answer: Response,
    tries: int,
    after: float | None,
    open_pair: Callable[..., Any],
    autojump_clock: MockClock,
) -> None:
    autojump_clock.autojump_threshold = 0.05
    async with open_pair(answer) as (server, client):
        with pytest.raises(ApiBusy) as caught:
            await client.get(PODS, "a", "n")

    assert (tries, after) == (len(server.requests), caught.value.after)


async def test_a_caller_with_newer_things_to_say_hears_at_once_that_the_server_is_busy(
    open_pair: Callable[..., Any],
) -> None:
    async with open_pair(Response(429, {"retry-after": "1"}), tries_max=1) as (server, client):
        with pytest.raises(ApiBusy):
            await client.patch(PODS, "a", {}, "n", kind=PatchKind.MERGE)

    assert 1 == len(server.requests)


# ---- answers of the wrong size or pace -----------------------------------------------------------------------------


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip"])
async def test_a_packed_answer_is_unpacked(open_pair: Callable[..., Any], coding: str) -> None:
    async with open_pair(Response(200, {"content-encoding": coding}, gzip.compress(TEXT))) as (_, client):
        assert TEXT == (await client.get(PODS, "a", "n")).raw


@pytest.mark.parametrize(("coding", "body"), [("br", CHANGE), ("gzip", gzip.compress(CHANGE, mtime=0))])
async def test_compressed_watch_is_a_failure_without_damage(
    open_pair: Callable[..., Any], coding: str, body: bytes
) -> None:
    answers = [Response(200, {}, TEXT), Response(200, {"content-encoding": coding}, body)]

    async def answer(_: Request) -> Response:
        return answers.pop()

    async with open_pair(answer, connections_max=1) as (_, client):
        with pytest.raises(ApiFailure, match=rf"is packed.*\(Content-Encoding: {coding}\)"):
            async with client.watch(PODS, Selection(), resource_version="1"):
                pytest.fail("it cannot be read")
        assert "a" == (await client.get(PODS, "a", "n")).name


@pytest.mark.parametrize(
    ("headers", "body", "says"),
    [
        ({}, b" " * 5000, "larger than 1000 bytes"),
        ({"content-encoding": "gzip"}, gzip.compress(b" " * 1_000_000, mtime=0), "larger than 1000 bytes"),
        ({"content-encoding": "gzip"}, b"not packed", "does not unpack"),
        ({"content-encoding": "gzip"}, gzip.compress(TEXT, mtime=0)[:-9], "in the middle"),
        ({"content-encoding": "gzip"}, gzip.compress(TEXT, mtime=0) + b"x", "behind the end of what is packed"),
        ({"content-encoding": "gzip"}, gzip.compress(b"", mtime=0) + bytes(200_000), "behind the end of what"),
        ({"content-encoding": "gzip, gzip"}, gzip.compress(TEXT, mtime=0), r"\(Content-Encoding: gzip, gzip\)"),
        ({"content-encoding": "br"}, TEXT, r"packed in a way that is not read here \(Content-Encoding: br\)"),
    ],
)
async def test_too_large_or_damaged_answer_is_a_failure_without_damage(
    headers: dict[str, str], body: bytes, says: str, open_pair: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "ANSWER_BYTES_MAX", 1000)
    answers = [Response(200, {}, TEXT), Response(200, headers, body)]

    async def answer(_: Request) -> Response:
        return answers.pop()

    async with open_pair(answer, connections_max=1) as (_, client):
        with pytest.raises(ApiFailure, match=says):
            await client.get(PODS, "a", "n")
        assert "a" == (await client.get(PODS, "a", "n")).name


async def test_what_a_small_packet_blows_up_to_is_never_in_memory(
    open_pair: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "ANSWER_BYTES_MAX", 1000)
    large = 40_000_000
    packet = gzip.compress(bytes(large), compresslevel=1)
    async with open_pair(Response(200, {"content-encoding": "gzip"}, packet)) as (_, client):
        tracemalloc.start()
        try:
            with pytest.raises(ApiFailure, match="larger than 1000 bytes"):
                await client.get(PODS, "a", "n")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert large / 10 > peak


async def test_what_comes_behind_the_end_of_a_packet_is_not_waited_for(open_pair: Callable[..., Any]) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield gzip.compress(TEXT)
        for _ in range(10):
            yield bytes(65536)
        await trio.sleep_forever()

    async with open_pair(Response(200, {"content-encoding": "gzip"}, body())) as (_, client):
        with trio.fail_after(60), pytest.raises(ApiFailure, match="behind the end"):
            await client.get(PODS, "a", "n")


async def test_a_server_that_takes_a_request_and_says_nothing_is_given_up(
    open_pair: Callable[..., Any], autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    async with open_pair(Response()) as (server, client):
        server.attend = _say_and_hold(b"HTTP/1.1 200 OK\r\ncontent-le")
        with pytest.raises(ApiLost, match="has not answered for 75 s"):
            await client.get(PODS, "a", "n")
        server.attend = _say_and_hold(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nbegun")
        with pytest.raises(ApiLost, match="has not answered for 75 s"):
            await client.get(PODS, "a", "n")


async def test_the_caller_may_give_up_sooner(open_pair: Callable[..., Any], autojump_clock: MockClock) -> None:
    autojump_clock.autojump_threshold = 0.05
    async with open_pair(Response(200, {}, TEXT), connections_max=1) as (server, client):
        server.attend = _say_and_hold(b"")
        with trio.move_on_after(1) as patience:
            await client.get(PODS, "a", "n")
        assert patience.cancelled_caught
        server.attend = None
        assert "a" == (await client.get(PODS, "a", "n")).name


@pytest.mark.parametrize(
    "said",
    [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhalf", b"SSH-2.0\r\n\r\n"],
)
async def test_a_connection_that_breaks_off_is_lost(said: bytes, open_pair: Callable[..., Any]) -> None:
    async def attend(stream: trio.abc.Stream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(said)

    async with open_pair(Response()) as (server, client):
        server.attend = attend
        with pytest.raises(ApiLost):
            await client.get(PODS, "a", "n")


@pytest.mark.parametrize(("before", "believed"), [(5, True), (6, False)])
async def test_answers_before_the_answer_are_not_read_without_end(
    before: int, believed: bool, open_pair: Callable[..., Any]
) -> None:
    async def attend(stream: trio.abc.Stream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(b"HTTP/1.1 103 Early Hints\r\n\r\n" * before)
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(TEXT), TEXT))

    async with open_pair(Response()) as (server, client):
        server.attend = attend
        if believed:
            assert "a" == (await client.get(PODS, "a", "n")).name
        else:
            with pytest.raises(ApiLost, match="more than 5 answers before the answer"):
                await client.get(PODS, "a", "n")


AROUND = 20 * (b"1;" + 60_000 * b"e" + b"\r\n \r\n")
SPACES = 40 * (b"10000\r\n" + 0x10000 * b" " + b"\r\n")


@pytest.mark.parametrize(("filling", "believed"), [(SPACES, True), (AROUND, False)])
async def test_what_is_around_an_answer_is_not_read_without_end(
    filling: bytes, believed: bool, open_pair: Callable[..., Any]
) -> None:
    """Whoever bounds a body sees nothing of what its chunks are wrapped in. The first has more bytes, of a body."""

    async def attend(stream: trio.abc.Stream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + filling)
        await stream.send_all(b"%x\r\n%b\r\n0\r\n\r\n" % (len(TEXT), TEXT))

    async with open_pair(Response()) as (server, client):
        server.attend = attend
        if believed:
            assert "a" == (await client.get(PODS, "a", "n")).name
        else:
            with pytest.raises(ApiLost, match="more than 1048576 bytes around its answer"):
                await client.get(PODS, "a", "n")


async def test_a_connection_that_does_not_come_free_is_our_own_want(
    open_pair: Callable[..., Any], autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    held = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    async with open_pair(Response(), connections_max=1) as (server, client):
        server.attend = _say_and_hold(held)
        async with client.watch(PODS, Selection(), resource_version="1"):
            with pytest.raises(OutOfConnections, match="all connections to it are in use") as caught:
                await client.get(PODS, "a", "n")
            assert isinstance(caught.value, LocalFailure)
            assert PLACE_SECONDS_MAX == pytest.approx(trio.current_time(), abs=1)


async def test_the_wait_for_a_connection_is_none_for_the_server(
    open_pair: Callable[..., Any], autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05

    async def slowly(_: Request) -> Response:
        await trio.sleep(50)
        return Response(200, {}, TEXT)

    async with open_pair(slowly, connections_max=1) as (_, client), trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(client.get, PODS, "a", "n")
    assert pytest.approx(100, abs=2) == trio.current_time()


# ---- connections ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("connections", "idle_seconds"), [(1, IDLE_SECONDS_MAX - 2), (2, IDLE_SECONDS_MAX + 2)])
async def test_a_connection_is_used_again_unless_the_server_may_be_closing_it(
    open_pair: Callable[..., Any], autojump_clock: MockClock, connections: int, idle_seconds: float
) -> None:
    autojump_clock.autojump_threshold = 0.05
    async with open_pair(Response(200, {}, TEXT)) as (server, client):
        await client.get(PODS, "a", "n")
        await trio.sleep(idle_seconds)
        await client.get(PODS, "a", "n")

        assert connections == len(server.callers)


async def test_one_connection_serves_many_requests_and_many_at_once_take_more(open_pair: Callable[..., Any]) -> None:
    gate = trio.Event()

    async def answer(request: Request) -> Response:
        if request.path.endswith("slow"):
            await gate.wait()
        return Response(200, {}, TEXT)

    async with open_pair(answer, connections_max=2) as (server, client):
        for _ in range(3):
            await client.get(NODES, "quick")
        assert 1 == len(server.callers)
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(client.get, NODES, "slow")
            await trio.testing.wait_all_tasks_blocked(0.05)
            gate.set()

    assert 2 == len(server.callers)


async def test_a_connection_the_server_closed_meanwhile_is_not_used_again(open_pair: Callable[..., Any]) -> None:
    async with open_pair(Response(200, {"connection": "close"}, TEXT)) as (server, client):
        for _ in range(3):
            await client.get(NODES, "w")

    assert 3 == len(server.callers)


async def test_a_reset_ends_what_is_under_way_and_the_next_request_connects_again(
    open_pair: Callable[..., Any],
) -> None:
    outcomes: list[str] = []

    async def ask(client: ApiClient) -> None:
        try:
            await client.get(PODS, "a", "n")
        except ApiLost as error:
            outcomes.append(str(error))

    async with open_pair(Response(200, {}, TEXT)) as (server, client):
        await client.get(PODS, "a", "n")
        server.attend = _say_and_hold(b"HTTP/1.1 200")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, client)  # on the connection there is: answered
            await trio.testing.wait_all_tasks_blocked(0.05)
            for _ in range(2):
                nursery.start_soon(ask, client)
            await trio.testing.wait_all_tasks_blocked(0.05)
            client.reset()
        assert ["closed on this side"] == list({words.rpartition("was ")[2] for words in outcomes})
        server.attend = None
        before = len(server.callers)
        await client.get(PODS, "a", "n")
        assert before + 1 == len(server.callers)


@pytest.mark.parametrize("connected", [False, True])
async def test_wherever_a_request_is_cancelled_its_place_is_free_again(
    connected: bool, open_pair: Callable[..., Any]
) -> None:
    async with open_pair(Response(200, {}, TEXT), connections_max=1) as (server, client):
        for step in range(1, 1000):
            if not connected:
                client.reset()
            with cancelled_at(step) as scope:
                await client.get(PODS, "a", "n")
            with trio.fail_after(60):
                assert "a" == (await client.get(PODS, "a", "n")).name
            if not scope.cancelled_caught:
                break

    assert 3 < step < 1000
    assert len(server.callers) > 1


async def test_cancelled_waiting_request_takes_no_turn_from_others(
    open_pair: Callable[..., Any],
) -> None:
    gate = trio.Event()

    async def answer(request: Request) -> Response:
        if request.path.endswith("slow"):
            await gate.wait()
        # Closed each time, so that whoever comes next has to connect.
        return Response(200, {"connection": "close"}, TEXT)

    async def hold(client: ApiClient, step: int, waiting: trio.CancelScope) -> None:
        with cancelling_at(step, waiting):
            await client.get(NODES, "slow")

    async def wait_in_line(client: ApiClient, waiting: trio.CancelScope) -> None:
        with waiting:
            await client.get(NODES, "next")

    async with open_pair(answer, connections_max=1) as (_, client):
        for step in range(1, 1000):
            gate = trio.Event()
            waiting = trio.CancelScope()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hold, client, step, waiting)
                await trio.testing.wait_all_tasks_blocked(0.01)
                nursery.start_soon(wait_in_line, client, waiting)
                await trio.testing.wait_all_tasks_blocked(0.01)
                gate.set()
            with trio.fail_after(60):
                await client.get(NODES, "last")
            if not waiting.cancelled_caught:
                break

    assert 3 < step < 1000


async def test_refused_connection_is_unreachable_with_its_address(authority: CA, mock_clock: MockClock) -> None:
    """On a clock that stands still: a process that is kept waiting for 10 s finds its time to connect over."""
    with port_of_nobody() as port:
        url = f"https://127.0.0.1:{port}"
        async with asking(access_to(url, authority.cert_pem.bytes())) as client:
            with pytest.raises(ApiUnreachable, match=f"{url} cannot be reached: .*Connection refused"):
                await client.get(PODS, "a", "n")


@pytest.mark.parametrize(
    "server", [Server("https://a..b"), Server("https://.a"), Server(f"https://{'a' * 64}")], ids=str
)
async def test_a_host_that_can_be_none_is_unreachable(server: Server) -> None:
    async with asking(ClusterAccess(server)) as client:
        with pytest.raises(ApiUnreachable, match="cannot be reached: its host can be none"):
            await client.get(PODS, "a", "n")


@pytest.mark.parametrize("name", [".x", "a\0b"])
async def test_a_name_that_tls_cannot_check_is_a_server_that_is_unreachable(
    name: str, authority: CA, certificates: ssl.SSLContext
) -> None:
    async def never(_: Request) -> Response:
        raise AssertionError("it was asked")

    async with serving(certificates, never) as server:
        access = ClusterAccess(Server(server.url, authority.cert_pem.bytes(), name))
        async with asking(access) as client:
            with pytest.raises(ApiUnreachable, match="cannot be reached: its host can be none"):
                await client.get(PODS, "a", "n")


async def test_a_name_that_no_url_can_have_is_a_fault_at_the_start() -> None:
    with pytest.raises(StartFailed, match=r"^https://\u2603\.net is no URL of a server: "):
        async with asking(ClusterAccess(Server("https://\u2603.net"))):
            pass


async def test_a_server_that_never_finishes_its_handshake_is_unreachable(
    authority: CA, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        url = f"https://127.0.0.1:{listener.socket.getsockname()[1]}"
        async with asking(access_to(url, authority.cert_pem.bytes())) as client:
            with pytest.raises(ApiUnreachable, match="no answer for 10 s"):
                await client.get(PODS, "a", "n")


async def test_a_server_of_another_authority_is_not_believed(authority: CA, certificates: ssl.SSLContext) -> None:
    async def never(_: Request) -> Response:
        raise AssertionError("it was asked")

    other = CA().cert_pem.bytes()
    async with serving(certificates, never) as server, asking(access_to(server.url, other)) as client:
        with pytest.raises(
            ApiUnreachable, match=r"not to be trusted: self-signed.* no authority that is trusted here signed it"
        ):
            await client.get(PODS, "a", "n")


async def test_a_handshake_that_fails_leaves_nothing_open(certificates: ssl.SSLContext) -> None:
    async def never(_: Request) -> Response:
        raise AssertionError("it was asked")

    other = CA().cert_pem.bytes()
    async with serving(certificates, never) as server, asking(access_to(server.url, other)) as client:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            with pytest.raises(ApiUnreachable):
                await client.get(PODS, "a", "n")
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert before == len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(("name", "believed"), [("", False), ("api.test", True), ("other.test", False)])
async def test_the_servers_name_may_be_given(name: str, believed: bool, authority: CA) -> None:
    async def answer(_: Request) -> Response:
        return Response(200, {}, TEXT)

    certificates = serving_certificate(authority, "api.test")
    async with serving(certificates, answer) as server:
        access = ClusterAccess(Server(server.url, authority.cert_pem.bytes(), tls_name=name))
        async with asking(access) as client:
            if believed:
                await client.get(PODS, "a", "n")
            else:
                with pytest.raises(ApiUnreachable, match=r"not to be trusted: .*mismatch.*tls-server-name"):
                    await client.get(PODS, "a", "n")


async def test_skipping_verification_accepts_every_server(certificates: ssl.SSLContext) -> None:
    async def answer(_: Request) -> Response:
        return Response(200, {}, TEXT)

    async with (
        serving(certificates, answer) as server,
        asking(ClusterAccess(Server(server.url, insecure=True))) as client,
    ):
        assert "a" == (await client.get(PODS, "a", "n")).name


async def test_a_server_without_tls_is_asked_without(authority: CA) -> None:
    async def answer(_: Request) -> Response:
        return Response(200, {}, TEXT)

    async with serving(None, answer) as server, asking(access_to(server.url)) as client:
        assert "a" == (await client.get(PODS, "a", "n")).name


async def test_a_server_that_wants_tls_and_is_asked_without_says_what_to_write() -> None:
    async def answer(_: Request) -> Response:
        return Response(400, {}, b"Client sent an HTTP request to an HTTPS server.\n")

    async with serving(None, answer) as server, asking(access_to(server.url)) as client:
        with pytest.raises(Refused, match="write https://"):
            await client.get(PODS, "a", "n")


async def test_compression_can_be_done_without(certificates: ssl.SSLContext, authority: CA) -> None:
    async def answer(request: Request) -> Response:
        return told({"metadata": {"name": request.headers["accept-encoding"]}})

    async with (
        serving(certificates, answer) as server,
        asking(ClusterAccess(Server(server.url, authority.cert_pem.bytes(), compression=False))) as client,
    ):
        assert "identity" == (await client.get(PODS, "a", "n")).name


def _say_and_hold(said: bytes) -> Callable[[trio.abc.Stream], Awaitable[None]]:
    async def attend(stream: trio.abc.Stream) -> None:
        await stream.receive_some(1000)
        if said:
            await stream.send_all(said)
        await trio.sleep_forever()

    return attend
