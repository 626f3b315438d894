"""The node's own API, as the API server and Prometheus ask it: who asks, may they, and what answers.

    request ─► who asks (authentication) ─► may they (authorization) ─► the route's handler
                  └ nobody known: 401           └ no: 403; nobody can tell: 500      └ no route: 404

    path                                     right, on nodes/…     what it is
    /healthz, /healthz/NAME                  healthz or proxy      is the agent well?
    /pods                                    pods or proxy         a PodList of the node's pods
    /runningpods                             pods or proxy         a PodList of what runs, as the runtime has it
    /configz                                 configz or proxy      the configuration that holds
    /metrics, /metrics/…                     metrics               what was measured, for Prometheus (``scrape``)
    /stats/summary                           stats                 what node, pods, containers and volumes use
    /containerLogs/NAMESPACE/POD/CONTAINER   proxy                 a container's log
    /exec, /run, /attach/N…/P…[/UID]/C…      proxy, to create      a command, or the container's process itself
    /portForward/NAMESPACE/POD[/UID]         proxy, to create      connections to the pod's ports
    what ``node_pages`` has                  log, statusz, …       /statusz, /flagz, /logs, /debug/pprof, /checkpoint
    anything else                            as for its path       404

The rights are those of ``core.node_access``. Nothing is told, not even that there is no such path, before the caller is
known and allowed. On the read-only port, where there is one, everybody may ask for the routes marked so and for nothing
more. (upstream-behaviour.md §1.21)
"""

from __future__ import annotations

import logging
import re
from contextlib import nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.configuration.written import written
from trikubelet.core.node_access import subresources, verb
from trikubelet.httpd.messages import Response, bare, json, text
from trikubelet.model.api_errors import ApiError
from trikubelet.server.container_log import container_log
from trikubelet.server.health import Verdicts, health_handler
from trikubelet.server.http_figures import HttpFigures
from trikubelet.server.scrape import scrape, scrape_cadvisor, scrape_probes, scrape_resource, scrape_slis, stats_summary

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trikubelet.httpd.messages import Request, Upgrade
    from trikubelet.kit.spans import Spans
    from trikubelet.model.callers import Caller
    from trikubelet.model.kubelet_configuration import KubeletConfiguration
    from trikubelet.ports import Clock
    from trikubelet.server.authentication import Authenticator
    from trikubelet.server.authorization import Authorizer
    from trikubelet.server.health import Checks
    from trikubelet.server.node_view import NodeView
    from trikubelet.server.scrape import NodeStats
    from trikubelet.server.streams import Streams

log = logging.getLogger(__name__)

REVIEWS_SECONDS_MAX: Final = 30.0
"""From a request until it is known who asks and what they may; nobody waits for a slow API server for longer."""
DEBUGGING: Final = frozenset({"run", "exec", "attach", "portForward", "containerLogs", "runningpods", "debug", "logs"})
"""The first parts of the paths that upstream answers with "disabled" where ``enableDebuggingHandlers`` is false."""
_WAYS_TO_UPGRADE: Final = ("GET", "POST")
"""A WebSocket begins with a GET, SPDY with either."""


@dataclass(frozen=True, slots=True)
class Route:
    """One path, a part in braces standing for any text without a slash (``{x...}`` for any text), and what answers to
    it: the handler is given the request and those parts. ``debugging``: only with enableDebuggingHandlers.
    ``read_only``: on the read-only port too."""

    path: str
    answer: Callable[..., Awaitable[Response | Upgrade]]
    debugging: bool = False
    read_only: bool = False
    methods: tuple[str, ...] = ("GET",)

    def parts(self, path: str) -> tuple[str, ...] | None:
        """What stands for the braces, or None for another path."""
        pattern = re.sub(r"{\w+(\.\.\.)?}", lambda part: "(.+)" if part[1] else "([^/]+)", self.path)
        found = re.fullmatch(pattern, path, re.DOTALL)
        return None if found is None else found.groups()

    @property
    def rights(self) -> tuple[str, ...]:
        """The subresources of the node of which a right to any one is enough."""
        return subresources(self.path)


class NodeApi:
    """``routes`` is all there is; what is said is the view's and the checks'."""

    def __init__(
        self,
        view: NodeView,
        stats: NodeStats,
        streams: Streams,
        checks: Checks,
        remarks: Checks,
        configuration: KubeletConfiguration,
        clock: Clock,
        more: Sequence[Route] = (),
        spans: Spans | None = None,
    ) -> None:
        """``more``: routes besides those made here. ``spans``: who makes one of each answer to somebody who may ask, if
        anybody does."""
        self._spans = spans
        self._view = view
        self._stats = stats
        self._clock = clock
        self._configuration = configuration
        self._verdicts = Verdicts(checks)
        health = health_handler(self._verdicts, remarks)
        self.routes: Final = (
            Route("/healthz", health, read_only=True, methods=("GET", "HEAD")),
            Route("/healthz/{check}", lambda request, _: health(request), read_only=True, methods=("GET", "HEAD")),
            Route("/pods", self._pods, read_only=True),
            Route("/metrics", self._metrics, read_only=True),
            Route("/metrics/probes", self._probes, read_only=True),
            Route("/metrics/slis", self._slis, read_only=True),
            Route("/metrics/resource", self._resource, read_only=True),
            Route("/metrics/cadvisor", self._cadvisor, read_only=True),
            Route("/stats/summary", self._summary, read_only=True, methods=("GET", "POST")),
            Route("/runningpods", self._running, debugging=True),
            Route("/configz", self._configz, debugging=True),
            Route("/containerLogs/{namespace}/{pod}/{container}", self._log, debugging=True),
            *_both("/exec/{namespace}/{pod}", "/{container}", streams.exec, _WAYS_TO_UPGRADE),
            *_both("/attach/{namespace}/{pod}", "/{container}", streams.attach, _WAYS_TO_UPGRADE),
            *_both("/portForward/{namespace}/{pod}", "", streams.port_forward, _WAYS_TO_UPGRADE),
            *_both("/run/{namespace}/{pod}", "/{container}", streams.run, ("POST",)),
            *more,
        )
        self.figures: Final = HttpFigures((route.path for route in self.routes), streams.web_sockets)

    async def answer(self, request: Request) -> Response | Upgrade:
        """Answer somebody who may ask."""
        if self._configuration.enable_debugging_handlers:
            return await _answer(self.routes, request, self._spans)
        if plain(request.path).split("/")[1] in DEBUGGING:
            return bare("Debug endpoints are disabled.", HTTPStatus.METHOD_NOT_ALLOWED)
        return await _answer([route for route in self.routes if not route.debugging], request, self._spans)

    async def answer_anybody(self, request: Request) -> Response | Upgrade:
        """Answer on the read-only port; strangers make no spans."""
        return await _answer([route for route in self.routes if route.read_only], request)

    async def _pods(self, _: Request) -> Response:
        return json({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": self._view.pods()})

    async def _running(self, _: Request) -> Response:
        return json({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": self._view.running()})

    async def _configz(self, _: Request) -> Response:
        return json({"kubeletconfig": written(self._configuration)})

    async def _metrics(self, _: Request) -> Response:
        return await scrape(self._view, self._clock, self.figures, await self._stats.claimed())

    async def _probes(self, _: Request) -> Response:
        return await scrape_probes(self._view)

    async def _slis(self, _: Request) -> Response:
        return await scrape_slis(self._verdicts)

    async def _resource(self, _: Request) -> Response:
        return await scrape_resource(self._stats)

    async def _cadvisor(self, _: Request) -> Response:
        return await scrape_cadvisor(self._stats)

    async def _summary(self, request: Request) -> Response:
        return await stats_summary(self._stats, request.query)

    async def _log(self, request: Request, namespace: str, pod: str, container: str) -> Response:
        return container_log(self._view, self._clock.now_ns(), request.query, namespace, pod, container)


class Gate:
    """Lets through to the API who may pass; a ``Handler`` by its ``answer``."""

    def __init__(self, api: NodeApi, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._api = api
        self._authenticator = authenticator
        self._authorizer = authorizer

    async def answer(self, request: Request) -> Response | Upgrade:
        """Answer on the node's port."""
        refusal = await self._refusal(request)
        return await self._api.answer(request) if refusal is None else refusal

    async def _refusal(self, request: Request) -> Response | None:
        """What is said to a caller who may not pass; None for one who may."""
        caller = None
        try:
            with trio.fail_after(REVIEWS_SECONDS_MAX):
                caller = await self._authenticator.caller(request)
                if caller is None:
                    return bare("Unauthorized", HTTPStatus.UNAUTHORIZED)
                allowed = await self._authorizer.allows(caller, request.method, plain(request.path))
        except (ApiError, trio.TooSlowError) as error:
            log.debug("Nobody can tell whether %s may have %s: %r", caller, request.path, error)
            if caller is None:
                return bare("Unauthorized", HTTPStatus.UNAUTHORIZED)
            return bare(f"Authorization error {_asked(caller, request)}", HTTPStatus.INTERNAL_SERVER_ERROR)
        return None if allowed else bare(f"Forbidden {_asked(caller, request)}", HTTPStatus.FORBIDDEN)


def _both(
    pod: str, rest: str, answer: Callable[..., Awaitable[Response | Upgrade]], methods: tuple[str, ...]
) -> tuple[Route, Route]:
    """The routes to one thing, with the pod's UID in the path and without."""
    return (
        Route(f"{pod}{rest}", answer, debugging=True, methods=methods),
        Route(f"{pod}/{{uid}}{rest}", answer, debugging=True, methods=methods),
    )


async def _answer(routes: Sequence[Route], request: Request, spans: Spans | None = None) -> Response | Upgrade:
    await trio.lowlevel.checkpoint()
    for route in routes:
        parts = route.parts(plain(request.path))
        if parts is None:
            continue
        if request.method not in route.methods:
            allow = {"allow": ", ".join(route.methods)}
            return text("method not allowed", HTTPStatus.METHOD_NOT_ALLOWED, allow)
        with nullcontext() if spans is None else spans.answer(request.method, route.path, request.headers):
            return await route.answer(request, *parts)
    return text("404 page not found", HTTPStatus.NOT_FOUND)


def plain(path: str) -> str:
    """A path as it is looked up and as rights are asked for it: with a slash before it and none behind."""
    return "/" + path.removeprefix("/").rstrip("/")


def _asked(caller: Caller, request: Request) -> str:
    """What somebody wanted, in upstream's words."""
    path = plain(request.path)
    rights = " ".join(subresources(path))
    return f"(user={caller.name}, verb={verb(request.method, path)}, resource=nodes, subresource(s)=[{rights}])"
