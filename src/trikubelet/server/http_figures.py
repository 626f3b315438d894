"""How the node's API was asked: upstream's ``kubelet_http_…`` metrics, counted around a handler.

    handler = figures.counted("readwrite", gate.answer)

A request counts whether or not it was let in, and lasts until its answer begins; what is streamed after that is not
waited for. Paths are cut to what distinguishes routes, and those that no route has are one, so that no client can make
up labels. (upstream-behaviour.md §1.22: http_requests_total, http_requests_duration_seconds, http_inflight_requests)
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import trio

from trikubelet.kit.distribution import Distributions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from trikubelet.httpd.connection_limit import ConnectionLimit
    from trikubelet.httpd.messages import Request

T = TypeVar("T")

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

    def counted(self, server: str, answer: Callable[[Request], Awaitable[T]]) -> Callable[[Request], Awaitable[T]]:
        """The same handler, counted."""

        async def handle(request: Request) -> T:
            asked = self._asked(request, server)
            begun = trio.current_time()
            self.under_way[asked] += 1
            try:
                return await answer(request)
            finally:
                self.under_way[asked] -= 1
                self.durations[asked].add(trio.current_time() - begun)

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


def _cut(path: str) -> str:
    """The first part of a path, and the second of those below /metrics, as upstream shows them."""
    first, _, rest = path.strip("/").partition("/")
    second = rest.partition("/")[0]
    return f"{first}/{second}" if first == "metrics" and second else first
