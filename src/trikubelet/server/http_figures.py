"""Counts and durations of requests to the node's API: upstream's ``kubelet_http_…`` metrics, counted around a handler.

    handler = figures.counted("readwrite", gate.answer)

A request counts whether or not it was admitted, and lasts as long as its answer: a followed log until its body ends, a
command or a forwarded port until the upgraded connection ends. Paths are cut to the parts that distinguish routes, and
paths without a route share one label, so that clients cannot invent labels. (upstream-behaviour.md §1.22:
http_requests_total, http_requests_duration_seconds, http_inflight_requests)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import trio

from trikubelet.httpd.messages import Response, Upgrade
from trikubelet.kit.distribution import Distributions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

    from trikubelet.httpd.connection_limit import ConnectionLimit
    from trikubelet.httpd.messages import Accept, Handler, Request

T = TypeVar("T", bound="Response | Upgrade | None")

OTHER: Final = "other"
METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
LONG_RUNNING: Final = frozenset({"exec", "attach", "debug"})
"""The first path parts of upstream's long-running requests. Upstream's list has portForward as well, spelled
differently."""


class Asked(NamedTuple):
    """The labels of a request, as upstream has them. ``server``: readwrite or readonly."""

    method: str
    path: str
    server: str
    long_running: bool


class HttpFigures:
    """Owns the number and duration of requests by path, and those in progress. ``paths``: the routes'; ``web_sockets``:
    counts of WebSockets by purpose, made by ``Streams``."""

    def __init__(self, paths: Iterable[str], web_sockets: Mapping[str, int]) -> None:
        self._known = frozenset(map(_cut, paths))
        self.web_sockets = web_sockets
        self.durations: Distributions[Asked] = Distributions()
        self.under_way: Counter[Asked] = Counter()
        self.connection_limits: dict[str, ConnectionLimit] = {}
        """The connection limit of each server; the composition root sets it."""

    def counted(self, server: str, answer: Handler) -> Handler:
        """Return the handler, counted."""

        async def handle(request: Request) -> Response | Upgrade:
            asked = self._asked(request, server)
            begun = trio.current_time()
            self.under_way[asked] += 1

            def ended() -> None:
                self.under_way[asked] -= 1
                self.durations[asked].add(trio.current_time() - begun)

            return await _answered(answer(request), ended)

        return handle

    def _asked(self, request: Request, server: str) -> Asked:
        path = _cut(request.path)
        return Asked(
            request.method if request.method in METHODS else OTHER,
            path if path in self._known else OTHER,
            server,
            path.partition("/")[0] in LONG_RUNNING,
        )

    def __repr__(self) -> str:
        return f"<HttpFigures: {len(self.durations)} kinds of requests, {self.under_way.total()} in progress>"


async def _answered(answering: Awaitable[T], ended: Callable[[], None]) -> T:
    """Return the same answer, which calls ``ended`` once: when its last part has ended, or at once if it has none."""
    try:
        answer = await answering
    except BaseException:
        ended()
        raise
    if isinstance(answer, Upgrade):
        return Upgrade(_conversation(answer, ended))  # type: ignore[return-value]  # mypy does not narrow T
    if answer is None or isinstance(answer.body, bytes):
        ended()
        return answer
    return replace(answer, body=_Body(answer.body, ended))


def _conversation(upgrade: Upgrade, ended: Callable[[], None]) -> Callable[[Accept], Awaitable[Response | None]]:
    async def converse(accept: Accept) -> Response | None:
        return await _answered(upgrade.converse(accept), ended)

    return converse


class _Body:
    """A response's stream that reports its closing, which always happens at its end (``httpd.messages.Response``)."""

    def __init__(self, parts: AsyncIterator[bytes], ended: Callable[[], None]) -> None:
        self._parts = parts
        self._ended = ended

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._parts)

    async def aclose(self) -> None:
        try:
            if (aclose := getattr(self._parts, "aclose", None)) is not None:
                await aclose()
        finally:
            self._ended()


def _cut(path: str) -> str:
    """Return the first part of a path, and the second for those below /metrics, like upstream."""
    first, _, rest = path.strip("/").partition("/")
    second = rest.partition("/")[0]
    return f"{first}/{second}" if first == "metrics" and second else first
