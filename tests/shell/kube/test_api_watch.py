"""Watches: cut into changes however they come, noticed when they are silent, and left at any moment."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from shell.kube.apikit import access_to, asking, cancelled_at, serving, serving_certificate
from trikubelet.httpd.messages import Request, Response
from trikubelet.kube import watch as watch_module
from trikubelet.kube.watch import SILENT_SECONDS_MAX
from trikubelet.model.api import PODS, Change, ChangeKind, Item, Selection
from trikubelet.model.api_errors import ApiBusy, ApiFailure, ApiLost, Expired, Invalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from typing import Any

    from trio.testing import MockClock
    from trustme import CA

    from shell.kube.apikit import PlayedServer
    from trikubelet.kube.client import ApiClient

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def word(kind: str, thing: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": thing}, separators=(",", ":")).encode() + b"\n"


def pod(name: str, version: int, **more: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "n", "name": name, "uid": f"u-{name}", "resourceVersion": str(version)}, **more}


def item(thing: dict[str, Any]) -> Item:
    metadata = thing["metadata"]
    raw = json.dumps(thing, separators=(",", ":")).encode()
    return Item("n", metadata["name"], metadata["uid"], metadata["resourceVersion"], raw)


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@asynccontextmanager
async def watching(
    authority: CA, attend: Callable[[trio.abc.Stream], Awaitable[None]], **more: Any
) -> AsyncIterator[tuple[PlayedServer, ApiClient]]:
    """A server that answers every request with ``attend``, once it has read it."""

    async def nothing(_: Request) -> Response:
        return Response()

    async def read_first(stream: trio.abc.Stream) -> None:
        await stream.receive_some(4096)
        await attend(stream)

    async with (
        serving(serving_certificate(authority, "127.0.0.1"), nothing) as server,
        asking(access_to(server.url, authority.cert_pem.bytes()), **more) as client,
    ):
        server.attend = read_first
        yield server, client


def saying(*pieces: bytes, hold: bool = False) -> Callable[[trio.abc.Stream], Awaitable[None]]:
    async def attend(stream: trio.abc.Stream) -> None:
        for piece in pieces:
            await stream.send_all(piece)
            await trio.lowlevel.checkpoint()
        if hold:
            await trio.sleep_forever()

    return attend


def all_pods(client: ApiClient, version: str = "5", *, initial: bool = False) -> Any:
    return client.watch(PODS, Selection(fields="spec.nodeName=w"), resource_version=version, initial=initial)


@pytest.mark.parametrize("cuts", [range(1000), range(0, 1000, 7), (0,), (0, 150), (0, 50, 51, 400)], ids=str)
async def test_changes_are_cut_out_however_they_are_chopped(cuts: Sequence[int], authority: CA) -> None:
    large = pod("large", 8, spec={"text": "x" * 200})
    said = word("ADDED", pod("a", 6)) + word("MODIFIED", large) + b"\n" + word("DELETED", pod("a", 9))
    ends = [*cuts[1:], len(said)]
    pieces = [chunked(said[start:end]) for start, end in zip(cuts, ends, strict=True) if said[start:end]]

    async with watching(authority, saying(HEAD, *pieces, END)) as (_, client), all_pods(client) as changes:
        seen = [change async for change in changes]

    assert [
        Change(ChangeKind.ADDED, item(pod("a", 6))),
        Change(ChangeKind.MODIFIED, item(large)),
        Change(ChangeKind.DELETED, item(pod("a", 9))),
    ] == seen


async def test_a_watch_asks_for_bookmarks_and_an_end_and_for_what_is_there_when_wanted(authority: CA) -> None:
    async def answer(request: Request) -> Response:
        return Response(200, {}, b"")

    async with (
        serving(serving_certificate(authority, "127.0.0.1"), answer) as server,
        asking(access_to(server.url, authority.cert_pem.bytes())) as client,
    ):
        for version, initial in (("5", False), ("", True), ("0", True)):
            async with all_pods(client, version, initial=initial) as changes:
                assert [] == [change async for change in changes]

    queries = [dict(request.query) for request in server.requests]
    assert all(300 <= int(query.pop("timeoutSeconds")) <= 600 for query in queries)
    every = {"fieldSelector": "spec.nodeName=w", "watch": "true", "allowWatchBookmarks": "true"}
    first = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    assert [
        {**every, "resourceVersion": "5"},
        {**every, **first},
        {**every, **first, "resourceVersion": "0"},
    ] == queries


async def test_a_bookmark_says_where_the_first_objects_end(authority: CA) -> None:
    end = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}
    said = word("BOOKMARK", {"metadata": {"resourceVersion": "8"}}) + word("BOOKMARK", end)

    async with watching(authority, saying(HEAD, chunked(said), END)) as (_, client), all_pods(client) as changes:
        seen = [change async for change in changes]

    assert [("8", False), ("9", True)] == [(change.item.resource_version, change.initial_end) for change in seen]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (word("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}), Expired),
        (word("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError", "message": "no"}), ApiFailure),
        (word("ADDED", {"spec": {}}), ApiFailure),
        (word("RENAMED", pod("a", 6)), ApiFailure),
        (b"[]\n", ApiFailure),
        (b"<html>\n", ApiFailure),
        (b'{"type":"ADDED","object":{"metadata"', ApiLost),
    ],
)
async def test_what_is_no_change_ends_the_watch_with_the_error_it_is(
    said: bytes, error: type[Exception], authority: CA
) -> None:
    first = word("ADDED", pod("a", 6))
    async with (
        watching(authority, saying(HEAD, chunked(first), chunked(said), END)) as (_, client),
        all_pods(client) as changes,
    ):
        assert "a" == (await anext(changes)).item.name
        with pytest.raises(error):
            await anext(changes)


@pytest.mark.parametrize(
    ("code", "reason", "error"), [(410, "Expired", Expired), (422, "Invalid", Invalid), (429, "", ApiBusy)]
)
async def test_a_watch_may_be_refused_at_its_beginning(
    code: int, reason: str, error: type[Exception], authority: CA
) -> None:
    body = json.dumps({"kind": "Status", "code": code, "reason": reason}).encode()
    answer = b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (code, len(body), body)
    async with watching(authority, saying(answer)) as (_, client):
        with pytest.raises(error):
            async with all_pods(client):
                raise AssertionError("it began")


async def test_a_change_longer_than_any_object_is_not_waited_for(
    authority: CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "LINE_BYTES_MAX", 1000)
    endless = [chunked(b"x" * 600)] * 3
    async with (
        watching(authority, saying(HEAD, *endless, hold=True)) as (_, client),
        all_pods(client) as changes,
    ):
        with pytest.raises(ApiFailure, match="longer than 1000 bytes"):
            await anext(changes)


async def test_the_largest_object_that_etcd_keeps_fits_in_a_watch_however_it_is_written(authority: CA) -> None:
    escaped = "\x01" * (1536 * 1024)  # six characters of JSON for each; so servers write <, > and &, too
    largest, longer = word("ADDED", pod("a", 6, text=escaped)), b"x" * (11 * 1024 * 1024)
    async with (
        watching(authority, saying(HEAD, chunked(largest), chunked(longer), END)) as (_, client),
        all_pods(client) as changes,
    ):
        assert len(escaped) * 6 < len((await anext(changes)).item.raw)
        with pytest.raises(ApiFailure, match="longer than"):
            await anext(changes)


async def test_a_watch_that_breaks_off_is_lost(authority: CA) -> None:
    said = chunked(word("ADDED", pod("a", 6)))
    async with watching(authority, saying(HEAD, said)) as (_, client), all_pods(client) as changes:
        await anext(changes)
        with pytest.raises(ApiLost):
            await anext(changes)


async def test_a_silent_watch_is_given_up_and_a_word_of_any_kind_is_a_sign_of_life(
    authority: CA, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05
    began = trio.current_time()

    async def attend(stream: trio.abc.Stream) -> None:
        await stream.send_all(HEAD)
        for version in (6, 7):
            await trio.sleep(SILENT_SECONDS_MAX - 1)
            await stream.send_all(chunked(word("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})))
        await trio.sleep_forever()

    async with watching(authority, attend) as (_, client), all_pods(client) as changes:
        seen = [(await anext(changes)).item.resource_version for _ in range(2)]
        with pytest.raises(ApiLost, match="was silent for 630 s"):
            await anext(changes)

    assert ["6", "7"] == seen
    assert 3 * SILENT_SECONDS_MAX - 2 == pytest.approx(trio.current_time() - began, abs=1)


async def test_a_watch_can_be_left_in_the_middle_and_its_connection_goes_with_it(authority: CA) -> None:
    gone = trio.Event()

    async def attend(stream: trio.abc.Stream) -> None:
        await stream.send_all(HEAD + chunked(word("ADDED", pod("a", 6)) * 3))
        assert b"" == await stream.receive_some(1)
        gone.set()

    async with watching(authority, attend, connections_max=1) as (_, client):
        async with all_pods(client) as changes:
            await anext(changes)
        with trio.fail_after(60):
            await gone.wait()
        async with all_pods(client) as changes:  # there is room for it
            pass


async def test_a_watch_can_be_left_by_cancellation_before_and_between_changes(authority: CA) -> None:
    async with watching(authority, saying(HEAD, chunked(word("ADDED", pod("a", 6))), hold=True)) as (_, client):
        with trio.CancelScope() as scope:
            async with all_pods(client) as changes:
                await anext(changes)
                scope.cancel()
                await anext(changes)
        assert scope.cancelled_caught
        with trio.CancelScope() as scope:
            async with all_pods(client):
                scope.cancel()
                await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught


async def test_wherever_a_watch_is_cancelled_its_place_is_free_again(authority: CA) -> None:
    said = chunked(word("ADDED", pod("a", 6)))
    async with watching(authority, saying(HEAD, said, said, hold=True), connections_max=1) as (_, client):
        for step in range(1, 1000):
            with cancelled_at(step) as scope:
                async with all_pods(client) as changes:
                    await anext(changes)
                    await anext(changes)
            with trio.fail_after(60):
                async with all_pods(client) as changes:
                    assert "a" == (await anext(changes)).item.name
            if not scope.cancelled_caught:
                break

    assert 3 < step < 1000


@pytest.mark.parametrize("said", [b"", b'{"type":"ADDED","ob'], ids=["between changes", "in the middle of one"])
async def test_a_reset_ends_a_watch_in_order(authority: CA, said: bytes) -> None:
    seen: list[Change] = []
    pieces = [chunked(word("ADDED", pod("a", 6)) + said)]

    async def follow(client: ApiClient) -> None:
        async with all_pods(client) as changes:
            async for change in changes:
                seen.append(change)  # noqa: PERF401 - what came before is seen before the end

    async with watching(authority, saying(HEAD, *pieces, hold=True)) as (_, client), trio.open_nursery() as nursery:
        nursery.start_soon(follow, client)
        with trio.fail_after(60):
            while not seen:  # noqa: ASYNC110 - it comes over a socket
                await trio.sleep(0.01)
        await wait_all_tasks_blocked(0.05)
        client.reset()

    assert [Change(ChangeKind.ADDED, item(pod("a", 6)))] == seen
