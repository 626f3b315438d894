"""The local API: the state of the node and its pods, for clients that may open its socket.

    GET /healthz                          "ok" while the agent runs
    GET /pods[?watch=1]                   a PodList; watched: JSON lines {"type": ADDED|MODIFIED|DELETED, "object": Pod}
    GET /events                           an EventList
    GET /faults                           the faults of the manifests
    GET /manifests                        the content of each manifest: pods, and ConfigMaps and Secrets without values
    GET /node                             its name and problems
    GET /nodes                            a NodeList of this node
    GET /images                           images of the runtime
    GET /kubeconfig                       a kubeconfig for this node, where configured
    GET /config                           the configuration, and where each value was set
    GET /work                             the work of the agent, by pod
    GET /doctor                           findings of the doctor, good ones included
    POST /exec/NAMESPACE/POD/CONTAINER    a command: argv in command, and input, output, error, tty (1); changes
                                          the protocol, and so do
    POST /attach/NAMESPACE/POD/CONTAINER  the container's own process, and
    POST /portForward/NAMESPACE/POD       connections to its ports (server.streams)
    POST /restart/NAMESPACE/POD           request a restart of its containers (container: only that one): the ids of the
                                          runs that will be stopped, by the containers' names
    GET /stats/summary                    resource usage of node, pods, containers and volumes
    GET /metrics                          metrics of the node, for Prometheus
    GET /metrics/probes                   results of probes, likewise
    GET /logs/NAMESPACE/POD/CONTAINER     a container's log: follow previous timestamps (booleans), tailLines,
                                          sinceSeconds, sinceTime, limitBytes, stream (stdout or stderr)

It is served on a Unix socket of mode 0600, so only the agent's own user and root can connect. The command line is its
client. A watch compares the view every ``WATCH_SECONDS``. It holds one list of pods and sends the next change only
after the client took the last one, so a client that does not read costs nothing.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.query import Unprocessable, flag
from trikubelet.httpd.server import HttpLimits, Response, json, serve_http, text
from trikubelet.kit.every import Every
from trikubelet.model.runtime_errors import RuntimeCallError
from trikubelet.server.container_log import log_of, log_query
from trikubelet.server.kubectl.spelling import line
from trikubelet.server.local_socket import LocalSocket
from trikubelet.server.node_view import NoSuchPod, NotShown
from trikubelet.server.routes import parts, plain
from trikubelet.server.scrape import scrape, scrape_probes, stats_summary

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from trikubelet.httpd.messages import Upgrade
    from trikubelet.httpd.server import Request
    from trikubelet.model.k8s import Pod
    from trikubelet.ports import Clock
    from trikubelet.server.agent_view import AgentView
    from trikubelet.server.node_view import NodeView
    from trikubelet.server.routes import Handler
    from trikubelet.server.scrape import NodeStats
    from trikubelet.server.streams import Streams

WATCH_SECONDS = 0.5
"""How often a watch looks for changes, in seconds."""
LIMITS = HttpLimits(connections_max=64, header_bytes_max=16 * 1024, body_bytes_max=0)


async def serve_local_api(
    view: NodeView,
    agent: AgentView,
    streams: Streams,
    stats: NodeStats,
    clock: Clock,
    path: str,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the local API on a Unix socket at ``path`` until cancelled, then remove it. Started once it listens.

    Raises StartFailed when the socket cannot be made.
    """
    api, bound = LocalApi(view, agent, streams, stats, clock), LocalSocket(path)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bound.keep)
            await serve_http(api.handle, [bound], limits=LIMITS, task_status=task_status)
    finally:
        bound.remove()


class LocalApi:
    """The table of the paths above with their methods and handlers. Owns nothing: all of its answers come from the
    views."""

    def __init__(self, view: NodeView, agent: AgentView, streams: Streams, stats: NodeStats, clock: Clock) -> None:
        self._view = view
        self._agent = agent
        self._streams = streams
        self._stats = stats
        self._clock = clock
        self._routes: Final[Mapping[str, tuple[str, Handler]]] = {
            "/healthz": ("GET", self._healthz),
            "/pods": ("GET", self._pods),
            "/events": ("GET", self._events),
            "/faults": ("GET", self._faults),
            "/manifests": ("GET", self._manifests),
            "/node": ("GET", self._node),
            "/nodes": ("GET", self._nodes),
            "/images": ("GET", self._images),
            "/kubeconfig": ("GET", self._kubeconfig),
            "/config": ("GET", self._config),
            "/work": ("GET", self._work),
            "/doctor": ("GET", self._doctor),
            "/stats/summary": ("GET", self._summary),
            "/metrics": ("GET", self._metrics),
            "/metrics/probes": ("GET", self._probes),
            "/logs/{namespace}/{pod}/{container}": ("GET", self._log),
            "/exec/{namespace}/{pod}/{container}": ("POST", streams.exec),
            "/attach/{namespace}/{pod}/{container}": ("POST", streams.attach),
            "/portForward/{namespace}/{pod}": ("POST", streams.port_forward),
            "/restart/{namespace}/{pod}": ("POST", self._restart),
        }

    async def handle(self, request: Request) -> Response | Upgrade:
        """Answer one request; the answer to an invalid request names what is valid."""
        await trio.lowlevel.checkpoint()
        try:
            return await self._answer(request)
        except NoSuchPod as error:
            return text(str(error), HTTPStatus.NOT_FOUND)
        except Unprocessable as error:
            return text(str(error), HTTPStatus.UNPROCESSABLE_ENTITY)
        except (NotShown, ValueError) as error:
            return text(str(error), HTTPStatus.BAD_REQUEST)
        except RuntimeCallError as error:
            return text(f"the container runtime: {error}", HTTPStatus.SERVICE_UNAVAILABLE)

    async def _answer(self, request: Request) -> Response | Upgrade:
        """Have the route of the path answer. Raises its handler's errors."""
        path = plain(request.path)
        for template, (method, handler) in self._routes.items():
            found = parts(template, path)
            if found is None:
                continue
            allowed = ("GET", "HEAD") if method == "GET" else (method,)
            if request.method not in allowed:
                allow = ", ".join(allowed)
                return text(f"{template} allows only {allow}", HTTPStatus.METHOD_NOT_ALLOWED, {"allow": allow})
            return await handler(request, *found)
        return text(f"unknown path {request.path}; paths: {', '.join(self._routes)}", HTTPStatus.NOT_FOUND)

    async def _healthz(self, _: Request) -> Response:
        return text("ok")

    async def _events(self, _: Request) -> Response:
        return json({"apiVersion": "v1", "kind": "EventList", "items": self._view.events()})

    async def _faults(self, _: Request) -> Response:
        return json({"faults": self._view.faults()})

    async def _manifests(self, _: Request) -> Response:
        return json({"manifests": self._view.manifests()})

    async def _node(self, _: Request) -> Response:
        return json(self._view.node())

    async def _work(self, _: Request) -> Response:
        return json({"pods": self._view.work()})

    async def _config(self, _: Request) -> Response:
        return json(self._agent.configuration())

    async def _kubeconfig(self, _: Request) -> Response:
        return Response(headers={"content-type": "application/json"}, body=self._agent.kubeconfig())

    async def _summary(self, request: Request) -> Response:
        return await stats_summary(self._stats, request.query)

    async def _metrics(self, _: Request) -> Response:
        return await scrape(self._view, self._clock)

    async def _probes(self, _: Request) -> Response:
        return await scrape_probes(self._view)

    async def _restart(self, request: Request, namespace: str, name: str) -> Response:
        return json({"runs": self._agent.restart(namespace, name, request.query.get("container", ""))})

    async def _nodes(self, _: Request) -> Response:
        return json({"apiVersion": "v1", "kind": "NodeList", "items": [await self._agent.node()]})

    async def _images(self, _: Request) -> Response:
        return json({"images": await self._agent.images()})

    async def _doctor(self, _: Request) -> Response:
        return json({"findings": await self._agent.examined()})

    async def _pods(self, request: Request) -> Response:
        if flag(request.query, "watch"):
            return Response(headers={"content-type": "application/json"}, body=self._changes())
        return json({"apiVersion": "v1", "kind": "PodList", "items": self._view.pods()})

    async def _changes(self) -> AsyncGenerator[bytes, None]:
        """Yield the pods, and then their changes, a line for each."""
        known: dict[str, Pod] = {}
        async for _ in Every(WATCH_SECONDS):
            now = {pod.metadata.uid: pod for pod in self._view.pods()}
            lines = [line("DELETED", pod) for uid, pod in known.items() if uid not in now]
            for uid, pod in now.items():
                if uid not in known:
                    lines.append(line("ADDED", pod))
                elif pod is not known[uid] and pod != known[uid]:
                    lines.append(line("MODIFIED", pod))
            known = now
            yield b"".join(lines)

    async def _log(self, request: Request, namespace: str, name: str, container: str) -> Response:
        query = log_query(request.query, self._clock.now_ns())
        place = await self._view.log(namespace, name, container, previous=flag(request.query, "previous"))
        return await log_of(container, place, query)
