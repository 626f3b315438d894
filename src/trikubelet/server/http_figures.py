"""How the node's API was asked: upstream's ``kubelet_http_…`` metrics, counted around a handler.

    handler = figures.counted("readwrite", gate.answer)

A request counts whether or not it was let in, and lasts as long as its answer does: a followed log until its body has
ended, a command or a forwarded port until the connection that was taken over has, whoever ends it. Paths are cut to
what distinguishes routes, and those that no route has are one, so that no client can make up labels.
(upstream-behaviour.md §1.22: http_requests_total, http_requests_duration_seconds, http_inflight_requests)
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
"""The first parts of paths that upstream calls so. It means portForward, too, and writes it in another way."""


class Asked(NamedTuple):
    """What requests are distinguished by: upstream's labels. ``server``: readwrite or readonly."""

    method: str
    path: str
    server: str
    long_running: bool


class HttpFigures:
    """Owns how often each path was asked for, how long that took, and what is under way. ``paths``: the routes';
    ``web_sockets``: how many came, by what they want, as ``Streams`` counts them."""

    def __init__(self, paths: Iterable[str], web_sockets: Mapping[str, int]) -> None:
        self._known = frozenset(map(_cut, paths))
        self.web_sockets = web_sockets
        self.durations: Distributions[Asked] = Distributions()
        self.under_way: Counter[Asked] = Counter()
        self.connection_limits: dict[str, ConnectionLimit] = {}
        """Who is connected to each server, where the composition root says so."""

    def counted(self, server: str, answer: Handler) -> Handler:
        """The same handler, counted."""

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
        return f"<HttpFigures: {len(self.durations)} kinds of requests, {self.under_way.total()} under way>"


async def _answered(answering: Awaitable[T], ended: Callable[[], None]) -> T:
    """The same answer, by which ``ended`` is called once: when its last part has ended, or before it where there is
    none."""
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
    """A response's stream, which says when it is closed; that is its end in any case (``httpd.messages.Response``)."""

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
    """The first part of a path, and the second of those below /metrics, as upstream shows them."""
    first, _, rest = path.strip("/").partition("/")
    second = rest.partition("/")[0]
    return f"{first}/{second}" if first == "metrics" and second else first
