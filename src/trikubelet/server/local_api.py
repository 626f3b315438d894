"""The local API: what the node is doing, for those who may open its socket.

    GET /healthz                          "ok": somebody is there
    GET /pods[?watch=1]                   a PodList; watched: JSON lines {"type": ADDED|MODIFIED|DELETED, "object": Pod}
    GET /events                           an EventList
    GET /faults                           what is wrong with the manifests
    GET /node                             its name, and why it cannot do its work, if it cannot
    GET /nodes                            a NodeList of this node
    GET /images                           what the runtime has
    GET /kubeconfig                       how kubectl asks this node, where it can
    GET /config                           what the agent runs with, and where each value was given
    GET /work                             what the agent is doing, pod by pod
    GET /doctor                           what is wrong with the node, and what is well
    POST /exec/NAMESPACE/POD/CONTAINER    a command: its words in command, and input, output, error, tty (1); changes
                                          the protocol, and so do
    POST /attach/NAMESPACE/POD/CONTAINER  the container's own process, and
    POST /portForward/NAMESPACE/POD       connections to its ports (server.streams)
    POST /restart/NAMESPACE/POD           have its containers restarted (container: only that one); their names
    GET /stats/summary                    what node, pods, containers and volumes use
    GET /metrics                          what it has measured, for Prometheus
    GET /metrics/probes                   what probes were answered, likewise
    GET /logs/NAMESPACE/POD/CONTAINER     a container's log: follow previous timestamps (booleans), tailLines,
                                          sinceSeconds, sinceTime, limitBytes, stream (stdout or stderr)

On a Unix socket of mode 0600: who may write to the agent's directory, its own user and root, may ask, and nobody else.
The command line is its client. A watch compares every ``WATCH_SECONDS`` what the view says; it holds one
list of pods and sends the next change only when the last was taken, so a client that does not read costs nothing.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from trikubelet.core.query import flag
from trikubelet.httpd.server import HttpLimits, Response, json, serve_http, text
from trikubelet.kit.every import Every
from trikubelet.model.errors import StartFailed
from trikubelet.model.runtime_errors import RuntimeCallError
from trikubelet.server.container_log import log_query
from trikubelet.server.kubectl.spelling import line
from trikubelet.server.log_reader import read_log
from trikubelet.server.node_view import NoSuchPod, NotShown
from trikubelet.server.scrape import scrape, scrape_probes, stats_summary

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping

    from trikubelet.httpd.messages import Upgrade
    from trikubelet.httpd.server import Request
    from trikubelet.model.k8s import Pod
    from trikubelet.ports import Clock
    from trikubelet.server.agent_view import AgentView
    from trikubelet.server.node_view import NodeView
    from trikubelet.server.scrape import NodeStats
    from trikubelet.server.streams import Streams

SOCKET_MODE = 0o600
WATCH_SECONDS = 0.5
"""How often a watch looks for changes."""
LIMITS = HttpLimits(connections_max=64, header_bytes_max=16 * 1024, body_bytes_max=0)
_SOCKET_PATH_BYTES_MAX = 107
_BACKLOG = 64


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
    """Serve the local API on a Unix socket at ``path`` until cancelled, then remove it. Started: it can be asked.

    Raises StartFailed when there can be no socket at that place.
    """
    listener = _listen(path)
    try:
        await serve_http(
            LocalApi(view, agent, streams, stats, clock).handle, [listener], limits=LIMITS, task_status=task_status
        )
    finally:
        _remove(path)


def _remove(path: str) -> None:
    with suppress(OSError):
        Path(path).unlink()


def _listen(path: str) -> trio.SocketListener:
    """A socket that only its owner may use. One that an earlier life left behind is replaced: the lock on the root
    directory says that this life is the only one."""
    place = Path(path)
    if len(path.encode()) > _SOCKET_PATH_BYTES_MAX:
        limit = f"the system allows {_SOCKET_PATH_BYTES_MAX} bytes; choose a shorter --root-dir"
        raise StartFailed(f"{path} is too long for the path of a socket: {limit}")
    ears = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists() and not place.is_socket():
            raise StartFailed(f"{path} exists and is no socket: remove it, or choose another --root-dir")
        place.unlink(missing_ok=True)
        # Linux gives the file the mode of the open socket: it never has other rights, and no umask is touched,
        # which every thread of the process shares.
        os.fchmod(ears.fileno(), SOCKET_MODE)
        ears.bind(path)
        ears.listen(_BACKLOG)
        ears.setblocking(False)
    except OSError as error:
        ears.close()
        raise StartFailed(f"there can be no socket at {path}: {error.strerror or error}") from error
    except StartFailed:
        ears.close()
        raise
    return trio.SocketListener(trio.socket.from_stdlib_socket(ears))


class LocalApi:
    """The routes. Owns nothing: everything it says is the views'."""

    def __init__(self, view: NodeView, agent: AgentView, streams: Streams, stats: NodeStats, clock: Clock) -> None:
        self._view = view
        self._agent = agent
        self._streams = streams
        self._stats = stats
        self._clock = clock
        self._routes: Mapping[str, Callable[[Request], Response]] = {
            "healthz": lambda _: text("ok"),
            "pods": self._pods,
            "events": lambda _: json({"apiVersion": "v1", "kind": "EventList", "items": self._view.events()}),
            "faults": lambda _: json({"faults": self._view.faults()}),
            "node": lambda _: json(self._view.node()),
            "work": lambda _: json({"pods": self._view.work()}),
            "config": lambda _: json(self._agent.configuration()),
            "kubeconfig": lambda _: Response(
                headers={"content-type": "application/json"}, body=self._agent.kubeconfig()
            ),
        }
        self._asked: Mapping[str, Callable[[], Awaitable[Response]]] = {
            "metrics": lambda: scrape(self._view, self._clock),
            "nodes": self._nodes,
            "images": self._images,
            "doctor": self._doctor,
        }

    async def handle(self, request: Request) -> Response | Upgrade:
        """Answer one request; every way to be wrong is answered with what would be right."""
        await trio.lowlevel.checkpoint()
        try:
            if request.method == "POST":
                return await self._post(request)
            if request.method not in ("GET", "HEAD"):
                return text("only GET and POST", HTTPStatus.METHOD_NOT_ALLOWED, {"allow": "GET, HEAD, POST"})
            match request.path.strip("/").split("/"):
                case ["logs", namespace, name, container]:
                    return self._log(request, namespace, name, container)
                case ["stats", "summary"]:
                    return await stats_summary(self._stats, request.query)
                case ["metrics", "probes"]:
                    return await scrape_probes(self._view)
                case [word] if word in self._routes:
                    return self._routes[word](request)
                case [word] if word in self._asked:
                    return await self._asked[word]()
                case _:
                    return text(
                        f"nothing is at {request.path}; there are {_places((*self._routes, *self._asked))}",
                        HTTPStatus.NOT_FOUND,
                    )
        except NoSuchPod as error:
            return text(str(error), HTTPStatus.NOT_FOUND)
        except (NotShown, ValueError) as error:
            return text(str(error), HTTPStatus.BAD_REQUEST)
        except RuntimeCallError as error:
            return text(f"the container runtime: {error}", HTTPStatus.SERVICE_UNAVAILABLE)

    async def _post(self, request: Request) -> Response | Upgrade:
        """What changes something, or talks to what runs. Raises NotShown."""
        match request.path.strip("/").split("/"):
            case ["exec", namespace, name, container]:
                return await self._streams.exec(request, namespace, name, container)
            case ["attach", namespace, name, container]:
                return await self._streams.attach(request, namespace, name, container)
            case ["portForward", namespace, name]:
                return await self._streams.port_forward(request, namespace, name)
            case ["restart", namespace, name]:
                return json({"restarted": self._agent.restart(namespace, name, request.query.get("container", ""))})
            case _:
                return text(
                    f"nothing at {request.path} can be changed", HTTPStatus.METHOD_NOT_ALLOWED, {"allow": "GET"}
                )

    async def _nodes(self) -> Response:
        return json({"apiVersion": "v1", "kind": "NodeList", "items": [await self._agent.node()]})

    async def _images(self) -> Response:
        return json({"images": await self._agent.images()})

    async def _doctor(self) -> Response:
        return json({"findings": await self._agent.examined()})

    def _pods(self, request: Request) -> Response:
        if flag(request.query, "watch"):
            return Response(headers={"content-type": "application/json"}, body=self._changes())
        return json({"apiVersion": "v1", "kind": "PodList", "items": self._view.pods()})

    async def _changes(self) -> AsyncGenerator[bytes, None]:
        """The pods, and then what becomes of them, a line for each."""
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

    def _log(self, request: Request, namespace: str, name: str, container: str) -> Response:
        query = log_query(request.query, self._clock.now_ns())
        place = self._view.log(namespace, name, container, previous=flag(request.query, "previous"))
        body = read_log(place.path, query, place.is_over)
        return Response(headers={"content-type": "text/plain; charset=utf-8"}, body=body)


def _places(words: Iterable[str]) -> str:
    return ", ".join([*(f"/{word}" for word in words), "/metrics/probes", "/logs/NAMESPACE/POD/CONTAINER"])
