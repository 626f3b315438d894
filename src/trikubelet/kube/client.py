"""The client of the API server (``ports.Api``): one client for one purpose.

    caller ─► ApiClient ─► credentials' headers ─► Transport (connections of this client) ─► API server
                 ▲            errors, items, Watch ◄──────────────────────────────────────────┘
                 └ asked to come back later: waits and asks again, a bounded number of times

A client has connections of its own, so that a thousand status writes delay no lease. The caller's cancel scope bounds a
request; the client's own bound is for a server that took a request and says nothing.

HTTP/1.1, and why: docs/decisions/0011.
"""

from __future__ import annotations

import random
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote, urlencode

import httpx
import msgspec
import trio

from trikubelet.kit.backoff import Backoff
from trikubelet.kube.body import plain_body, read_body
from trikubelet.kube.errors import error_of_answer, transport_errors
from trikubelet.kube.figures import FAILED, ApiFigures
from trikubelet.kube.items import item_of, page_of, version_of
from trikubelet.kube.transport import Transport
from trikubelet.kube.watch import Watch
from trikubelet.model.api_errors import RETRY_AFTER_SECONDS_MAX, ApiBusy, ApiLost, Unauthorized
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping

    from trikubelet.kit.spans import Spans
    from trikubelet.kube.credentials import Credentials, Headers
    from trikubelet.model.api import Item, Page, PatchKind, Resource, Selection

ANSWER_SECONDS_MAX: Final = 75.0
"""For a whole answer, or the beginning of a watch. An API server gives a request up after 60 s and says so."""
ERROR_BYTES_MAX: Final = 1024 * 1024
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""A node's pods, all in one page, are some megabytes."""
TRIES_MAX: Final = 10
"""Tries of one request, when the server asks to come back later (upstream's client: 10)."""
PAUSE_FIRST_SECONDS: Final = 0.1
PAUSE_SECONDS_MAX: Final = 5.0
"""Between tries, where the server asks for 0 s."""
WATCH_SECONDS: Final = (300.0, 600.0)
"""How long the server is asked to keep a watch, drawn at random so that they do not all end together (upstream's)."""

_JSON: Final = "application/json"
_GZIP: Final = (b"accept-encoding", b"gzip")
_PLAIN: Final = (b"accept-encoding", b"identity")
"""For watches, too: a proxy that packs one keeps changes back until it has enough of them, and it is not unpacked
here."""

T = TypeVar("T")


class ApiClient:
    """Owns the connections of one purpose. ``figures``: of its requests, or of those of all clients that share them.
    ``spans``: makes a span of each request, until its answer begins, if traces are wanted.

    ``tries_max`` is 1 for a caller that has something newer to say by the time the server wants to be asked again.
    Raises StartFailed when the server's URL is none.
    """

    def __init__(
        self,
        credentials: Credentials,
        user_agent: str,
        *,
        connections_max: int = 16,
        tries_max: int = TRIES_MAX,
        chance: random.Random | None = None,
        figures: ApiFigures | None = None,
        spans: Spans | None = None,
    ) -> None:
        self.figures: Final = figures or ApiFigures()
        self._spans = spans
        self._credentials = credentials
        self._server = credentials.server.url
        try:
            self._base = httpx.URL(self._server)
        except httpx.InvalidURL as error:  # names of other scripts: httpx knows fewer than may be looked up
            raise StartFailed(f"{self._server} is no URL of a server: {error}") from error
        self._host = self._base.netloc.decode()
        self._prefix = self._base.raw_path.decode().rstrip("/")  # as written: ``path`` has %20 as a space
        self._transport = Transport(credentials.server, lambda: credentials.tls, connections_max)
        self._tries_max = tries_max
        self._chance = chance or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._coding = _GZIP if credentials.server.compression else _PLAIN
        self._headers = [
            (b"host", self._base.netloc),
            (b"user-agent", user_agent.encode()),
            (b"accept", _JSON.encode()),
        ]
        credentials.on_change(self.reset)

    def reset(self) -> None:
        """Close all connections: a watch that has begun ends in order, what else is under way with ApiLost. The next
        request makes new ones. Never blocks."""
        self._transport.close_all()

    # ---- ports.Api -------------------------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Item:
        """See ``ports.Api``; so for all below."""
        return item_of(await self._ask("GET", resource.path(namespace, name)))

    async def list(
        self,
        resource: Resource,
        selection: Selection,
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        query = _selecting(selection)
        if limit:
            query["limit"] = str(limit)
        if continue_token:  # it says which version; the server refuses to hear it twice
            query["continue"] = continue_token
        elif resource_version:
            query |= {"resourceVersion": resource_version, "resourceVersionMatch": "NotOlderThan"}
        return page_of(await self._ask("GET", resource.path(selection.namespace), query))

    @asynccontextmanager
    async def watch(
        self, resource: Resource, selection: Selection, *, resource_version: str, initial: bool = False
    ) -> AsyncGenerator[Watch, None]:
        query = _selecting(selection) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(round(self._chance.uniform(*WATCH_SECONDS))),
        }
        if resource_version:
            query["resourceVersion"] = resource_version
        if initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        response = await self._open(resource.path(selection.namespace), query)
        watch = Watch(plain_body(response), self._server)
        try:
            yield watch
        finally:
            watch.leave()

    async def create(self, resource: Resource, body: object, namespace: str = "", *, under: str = "") -> Item:
        name, _, subresource = under.partition("/")
        path = resource.path(namespace, name, subresource)
        return item_of(await self._ask("POST", path, content=msgspec.json.encode(body)))

    async def replace(
        self, resource: Resource, name: str, body: object, namespace: str = "", *, subresource: str = ""
    ) -> Item:
        path = resource.path(namespace, name, subresource)
        return item_of(await self._ask("PUT", path, content=msgspec.json.encode(body)))

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: object,
        namespace: str = "",
        *,
        kind: PatchKind,
        subresource: str = "",
    ) -> Item:
        path = resource.path(namespace, name, subresource)
        return item_of(await self._ask("PATCH", path, content=msgspec.json.encode(body), content_type=kind))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        grace_seconds: int | None = None,
        uid: str = "",
    ) -> None:
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if uid:
            options["preconditions"] = {"uid": uid}
        await self._ask("DELETE", resource.path(namespace, name), content=msgspec.json.encode(options))

    # ---- of the server itself --------------------------------------------------------------------------------------

    async def server_version(self) -> str:
        """The server's version, as ``v1.37.2``. Raises ApiError."""
        return version_of(await self._ask("GET", "/version"))

    # ---- asking ----------------------------------------------------------------------------------------------------

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        content_type: str = _JSON,
    ) -> bytearray:
        """The body of a good answer."""
        call = self._call(method, path, query, content, content_type)

        async def once() -> bytearray:
            with self._bounded() as bound, transport_errors(self._server):
                body = await read_body(await self._begin(call, bound), ANSWER_BYTES_MAX)
            self.figures.received[method, self._host].add(len(body))
            return body

        return await self._patiently(once, method)

    async def _open(self, path: str, query: Mapping[str, str]) -> httpx.Response:
        """A good answer that has only begun."""
        call = self._call("GET", path, query, coding=_PLAIN)

        async def once() -> httpx.Response:
            with self._bounded() as bound, transport_errors(self._server):
                return await self._begin(call, bound)

        return await self._patiently(once, "GET")

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        content: bytes | None = None,
        content_type: str = _JSON,
        *,
        coding: tuple[bytes, bytes] | None = None,
    ) -> Callable[[Headers], httpx.Request]:
        """Makes the request, given what it shows. ``coding``: how the answer may be packed, where that is not up to the
        kubeconfig."""
        target = self._prefix + quote(path) + (f"?{urlencode(query)}" if query else "")
        # A URL made for each would be a tenth of a request's time.
        extensions = {"target": target.encode()}
        headers = [*self._headers, coding or self._coding]
        if content is not None:
            headers.append((b"content-type", content_type.encode()))
        return lambda shown: httpx.Request(
            method, self._base, headers=headers + shown, content=content, extensions=extensions
        )

    async def _begin(self, call: Callable[[Headers], httpx.Request], bound: trio.CancelScope) -> httpx.Response:
        """Ask once; the bound begins when it has a connection. Raises what a bad answer means."""
        shown = await self._credentials.headers()
        request = call(shown)
        request.extensions["begins"] = partial(_set_bound, bound)
        path = request.extensions["target"].decode()
        self.figures.asked(request.method, path)
        span = None if self._spans is None else self._spans.request(request.method, self._host, path.partition("?")[0])
        if span is not None:
            request.headers.update(span.headers)
        began, code = trio.current_time(), FAILED
        try:
            response = await self._transport.handle_async_request(request)
            code = str(response.status_code)
        finally:
            took = trio.current_time() - began
            self.figures.answered(self._host, request.method, code, took, len(request.content))
            if span is not None:
                span.end(failed=code == FAILED or code >= "400", status=code)
        if response.is_success:
            self._credentials.accepted()
            return response
        body = await read_body(response, ERROR_BYTES_MAX)
        error = error_of_answer(response.status_code, response.headers, body)
        if isinstance(error, Unauthorized):
            self._credentials.refused(shown, error)
        raise error

    async def _patiently(self, once: Callable[[], Awaitable[T]], method: str) -> T:
        """Ask, and again as often as the server wishes. Only what the server said it has not done is repeated here;
        whether a lost request may be, its caller knows."""
        backoff = Backoff(PAUSE_FIRST_SECONDS, PAUSE_SECONDS_MAX)
        for _ in range(self._tries_max - 1):
            try:
                return await once()
            except ApiBusy as busy:
                if busy.after is None or busy.after > RETRY_AFTER_SECONDS_MAX:
                    raise  # to be left alone for longer is the caller's problem
                after = busy.after or backoff.next_seconds()  # Retry-After: 0 is no leave to ask without a pause
                self.figures.retries[str(busy.code), method, self._host] += 1
            # Not all at the same moment, which is what made the server busy.
            await trio.sleep(after * (1.0 + 0.1 * self._chance.random()))
        return await once()

    @contextmanager
    def _bounded(self) -> Iterator[trio.CancelScope]:
        with trio.CancelScope() as scope:
            _set_bound(scope)
            yield scope
        if scope.cancelled_caught:
            raise ApiLost(f"{self._server} has not answered for {ANSWER_SECONDS_MAX:g} s")

    def __repr__(self) -> str:
        return f"<ApiClient {self._server}, {self._transport!r}>"


def _set_bound(scope: trio.CancelScope) -> None:
    scope.deadline = trio.current_time() + ANSWER_SECONDS_MAX


def _selecting(selection: Selection) -> dict[str, str]:
    query = {"fieldSelector": selection.fields, "labelSelector": selection.labels}
    return {name: value for name, value in query.items() if value}
