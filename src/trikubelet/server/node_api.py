"""The node's own API for the API server and Prometheus: authentication, authorization, and the route's handler.

    request ─► authentication ─► authorization ─► the route's handler (routes)
                  ├ invalid: 401     ├ denied: 403    └ no route: 404
                  │                  └ unknown: 500
                  └ too many tokens are queued for review: 429

Paths, methods and rights are one table, ``core.node_access.PLACES``; the handlers are here and in ``node_pages``.
Nothing is disclosed, not even that a path does not exist, before the caller is authenticated and authorized. On the
read-only port, where there is one, every client may read the rows marked so and nothing else. (upstream-behaviour.md
§1.21)
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.configuration.written import written
from trikubelet.core.node_access import subresources, verb
from trikubelet.httpd.messages import Response, bare, json
from trikubelet.kit.fair_queue import Crowded
from trikubelet.model.api_errors import ApiError
from trikubelet.model.callers import ANONYMOUS
from trikubelet.server.container_log import container_log
from trikubelet.server.health import Verdicts, health_handler
from trikubelet.server.http_figures import HttpFigures
from trikubelet.server.routes import answer_by, plain, table
from trikubelet.server.scrape import scrape, scrape_cadvisor, scrape_probes, scrape_resource, scrape_slis, stats_summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.httpd.messages import Request, Upgrade
    from trikubelet.kit.spans import Spans
    from trikubelet.model.callers import Caller
    from trikubelet.model.kubelet_configuration import KubeletConfiguration
    from trikubelet.ports import Clock
    from trikubelet.server.authentication import Authenticator
    from trikubelet.server.authorization import Authorizer
    from trikubelet.server.health import Checks
    from trikubelet.server.node_view import NodeView
    from trikubelet.server.routes import Handler
    from trikubelet.server.scrape import NodeStats
    from trikubelet.server.streams import Streams

log = logging.getLogger(__name__)

REVIEWS_SECONDS_MAX: Final = 30.0
"""Time for authentication and authorization of a request, in seconds, so that a slow API server delays callers no
longer."""
DEBUGGING: Final = frozenset({"run", "exec", "attach", "portForward", "containerLogs", "runningpods", "debug", "logs"})
"""The first parts of the paths that upstream answers with "disabled" where ``enableDebuggingHandlers`` is false, and on
the read-only port."""


class NodeApi:
    """``routes`` are the table's; the answers come from the view and the checks."""

    def __init__(
        self,
        view: NodeView,
        stats: NodeStats,
        streams: Streams,
        checks: Checks,
        remarks: Checks,
        configuration: KubeletConfiguration,
        clock: Clock,
        pages: Mapping[str, Handler | None],
        spans: Spans | None = None,
    ) -> None:
        """``pages``: those of ``node_pages``, by their paths. ``spans``: makes a span of each answer to an authorized
        caller, or None."""
        self._spans = spans
        self._view = view
        self._stats = stats
        self._clock = clock
        self._configuration = configuration
        self._verdicts = Verdicts(checks)
        health = health_handler(self._verdicts, remarks)
        self.routes: Final = table(
            {
                "/healthz": health,
                "/healthz/{check}": lambda request, _: health(request),
                "/pods": self._pods,
                "/runningpods": self._running,
                "/metrics": self._metrics,
                "/metrics/probes": self._probes,
                "/metrics/slis": self._slis,
                "/metrics/resource": self._resource,
                "/metrics/cadvisor": self._cadvisor,
                "/stats/summary": self._summary,
                "/configz": self._configz,
                "/containerLogs/{namespace}/{pod}/{container}": self._log,
                "/exec/{namespace}/{pod}/{container}": streams.exec,
                "/exec/{namespace}/{pod}/{uid}/{container}": streams.exec,
                "/attach/{namespace}/{pod}/{container}": streams.attach,
                "/attach/{namespace}/{pod}/{uid}/{container}": streams.attach,
                "/run/{namespace}/{pod}/{container}": streams.run,
                "/run/{namespace}/{pod}/{uid}/{container}": streams.run,
                "/portForward/{namespace}/{pod}": streams.port_forward,
                "/portForward/{namespace}/{pod}/{uid}": streams.port_forward,
                **pages,
            }
        )
        self.figures: Final = HttpFigures((route.path for route in self.routes), streams.web_sockets)

    async def answer(self, request: Request) -> Response | Upgrade:
        """Answer an authorized caller."""
        if self._configuration.enable_debugging_handlers:
            return await answer_by(self.routes, request, self._spans)
        routes = [route for route in self.routes if not route.opened.debugging]
        return _disabled(request) or await answer_by(routes, request, self._spans)

    async def answer_anybody(self, request: Request) -> Response | Upgrade:
        """Answer on the read-only port; unauthenticated requests make no spans."""
        return _disabled(request) or await answer_by([one for one in self.routes if one.opened.read_only], request)

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
        return await container_log(self._view, self._clock.now_ns(), request.query, namespace, pod, container)


class Gate:
    """Admits authorized callers to the API; a ``Handler`` by its ``answer``."""

    def __init__(self, api: NodeApi, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._api = api
        self._authenticator = authenticator
        self._authorizer = authorizer

    async def answer(self, request: Request) -> Response | Upgrade:
        """Answer on the node's port."""
        refusal = await self._refusal(request)
        return await self._api.answer(request) if refusal is None else refusal

    async def _refusal(self, request: Request) -> Response | None:
        """Return the refusal of an unauthorized caller; None for an authorized one. An anonymous caller's connection is
        admitted for this answer only, because it has proved nothing."""
        caller = None
        try:
            with trio.fail_after(REVIEWS_SECONDS_MAX):
                caller = await self._authenticator.caller(request)
                if caller is None:
                    return bare("Unauthorized", HTTPStatus.UNAUTHORIZED)
                has_proof = caller != ANONYMOUS
                if has_proof:
                    request.admit(for_good=False)  # a delay from here on is not the caller's fault
                allowed = await self._authorizer.allows(caller, request.method, plain(request.path))
        except Crowded as error:
            log.debug("Cannot authenticate a request for %s: %s", request.path, error)
            return bare("Too many tokens are being reviewed", HTTPStatus.TOO_MANY_REQUESTS, {"retry-after": "1"})
        except (ApiError, trio.TooSlowError) as error:
            log.debug("Cannot authorize %s for %s: %r", caller, request.path, error)
            if caller is None:
                return bare("Unauthorized", HTTPStatus.UNAUTHORIZED)
            return bare(f"Authorization error {_asked(caller, request)}", HTTPStatus.INTERNAL_SERVER_ERROR)
        if allowed:
            request.admit(for_good=has_proof)
        return None if allowed else bare(f"Forbidden {_asked(caller, request)}", HTTPStatus.FORBIDDEN)


def _disabled(request: Request) -> Response | None:
    """Return the answer at a debugging path where those are disabled; None for another path."""
    if plain(request.path).split("/")[1] not in DEBUGGING:
        return None
    return bare("Debug endpoints are disabled.", HTTPStatus.METHOD_NOT_ALLOWED)


def _asked(caller: Caller, request: Request) -> str:
    """Return the request in upstream's words."""
    path = plain(request.path)
    rights = " ".join(subresources(path))
    return f"(user={caller.name}, verb={verb(request.method, path)}, resource=nodes, subresource(s)=[{rights}])"
