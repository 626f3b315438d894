"""The local API: what the node is doing, for those who may open its socket.

    GET /healthz                          "ok": somebody is there
    GET /pods[?watch=1]                   a PodList; watched: JSON lines {"type": ADDED|MODIFIED|DELETED, "object": Pod}
    GET /events                           an EventList
    GET /faults                           what is wrong with the manifests
    GET /node                             its name, and why it cannot do its work, if it cannot
    GET /work                             what the agent is doing, pod by pod
    GET /logs/NAMESPACE/POD/CONTAINER     a container's log: follow previous timestamps (booleans), tailLines,
                                          sinceSeconds, sinceTime, limitBytes, stream (stdout or stderr)

Read-only, and on a Unix socket of mode 0600: who may read the agent's directory may read this. The commands ``get``,
``describe`` and ``logs`` are its clients. A watch compares every ``WATCH_SECONDS`` what the view says; it holds one
list of pods and sends the next change only when the last was taken, so a client that does not read costs nothing.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339
from trikubelet.kit.every import Every
from trikubelet.model.errors import StartFailed
from trikubelet.server.http import HttpLimits, Response, json, serve_http, text
from trikubelet.server.log_reader import LogQuery, read_log
from trikubelet.server.node_view import NoSuchPod, NotShown

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

    from trikubelet.model.k8s import Pod
    from trikubelet.ports import Clock
    from trikubelet.server.http import Request
    from trikubelet.server.node_view import NodeView

SOCKET_MODE = 0o600
WATCH_SECONDS = 0.5
"""How often a watch looks for changes."""
LIMITS = HttpLimits(connections_max=64, header_bytes_max=16 * 1024, body_bytes_max=0)
_SOCKET_PATH_BYTES_MAX = 107
_BACKLOG = 64
_DIGITS_MAX = 12
"""Of a number in a query: enough for every byte and second there is, and far from where numbers overflow."""


async def serve_local_api(
    view: NodeView, clock: Clock, path: str, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve the local API on a Unix socket at ``path`` until cancelled, then remove it. Started: it can be asked.

    Raises StartFailed when there can be no socket at that place.
    """
    listener = _listen(path)
    try:
        await serve_http(LocalApi(view, clock).handle, [listener], limits=LIMITS, task_status=task_status)
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
    """The routes. Owns nothing: everything it says is the view's."""

    def __init__(self, view: NodeView, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._routes: Mapping[str, Callable[[Request], Response]] = {
            "healthz": lambda _: text("ok"),
            "pods": self._pods,
            "events": lambda _: json({"apiVersion": "v1", "kind": "EventList", "items": self._view.events()}),
            "faults": lambda _: json({"faults": self._view.faults()}),
            "node": lambda _: json(self._view.node()),
            "work": lambda _: json({"pods": self._view.work()}),
        }

    async def handle(self, request: Request) -> Response:
        """Answer one request; every way to be wrong is answered with what would be right."""
        await trio.lowlevel.checkpoint()
        if request.method not in ("GET", "HEAD"):
            return text("the local API is read-only: only GET", HTTPStatus.METHOD_NOT_ALLOWED, {"allow": "GET, HEAD"})
        try:
            match request.path.strip("/").split("/"):
                case ["logs", namespace, name, container]:
                    return self._log(request, namespace, name, container)
                case [word] if word in self._routes:
                    return self._routes[word](request)
                case _:
                    return text(
                        f"nothing is at {request.path}; there are {_places(self._routes)}", HTTPStatus.NOT_FOUND
                    )
        except NoSuchPod as error:
            return text(str(error), HTTPStatus.NOT_FOUND)
        except (NotShown, ValueError) as error:
            return text(str(error), HTTPStatus.BAD_REQUEST)

    def _pods(self, request: Request) -> Response:
        if _flag(request, "watch"):
            return Response(headers={"content-type": "application/json"}, body=self._changes())
        return json({"apiVersion": "v1", "kind": "PodList", "items": self._view.pods()})

    async def _changes(self) -> AsyncGenerator[bytes, None]:
        """The pods, and then what becomes of them, a line for each."""
        known: dict[str, Pod] = {}
        async for _ in Every(WATCH_SECONDS):
            now = {pod.metadata.uid: pod for pod in self._view.pods()}
            lines = [_line("DELETED", pod) for uid, pod in known.items() if uid not in now]
            for uid, pod in now.items():
                if uid not in known:
                    lines.append(_line("ADDED", pod))
                elif pod is not known[uid] and pod != known[uid]:
                    lines.append(_line("MODIFIED", pod))
            known = now
            yield b"".join(lines)

    def _log(self, request: Request, namespace: str, name: str, container: str) -> Response:
        query = _log_query(request, self._clock.now_ns())
        place = self._view.log(namespace, name, container, previous=_flag(request, "previous"))
        body = read_log(place.path, query, place.is_over)
        return Response(headers={"content-type": "text/plain; charset=utf-8"}, body=body)


def _places(words: Iterable[str]) -> str:
    return ", ".join([*(f"/{word}" for word in words), "/logs/NAMESPACE/POD/CONTAINER"])


def _line(kind: str, pod: Pod) -> bytes:
    return msgspec.json.encode({"type": kind, "object": pod}) + b"\n"


def _flag(request: Request, name: str) -> bool:
    """A boolean of the query, in the spellings Go reads. Raises ValueError."""
    word = request.query.get(name, "false").lower()
    if word in ("", "1", "t", "true"):
        return True
    if word in ("0", "f", "false"):
        return False
    raise ValueError(f"{name}={word}: write true or false")


def _count(request: Request, name: str, least: int) -> int | None:
    """A number of the query, or None. Raises ValueError."""
    word = request.query.get(name)
    if word is None:
        return None
    if not (word.isascii() and word.isdigit()) or len(word) > _DIGITS_MAX or int(word) < least:
        raise ValueError(f"{name}={word}: write a whole number, {least} or more")
    return int(word)


def _log_query(request: Request, now_ns: int) -> LogQuery:
    """What of the log is wanted. Raises ValueError."""
    stream = request.query.get("stream", "all").lower()
    if stream not in ("all", "stdout", "stderr"):
        raise ValueError(f"stream={stream}: write stdout, stderr or all")
    seconds = _count(request, "sinceSeconds", 1)
    moment = request.query.get("sinceTime", "")
    if seconds is not None and moment:
        raise ValueError("sinceSeconds and sinceTime: give one of them")
    since_ns = now_ns - seconds * SECOND_NS if seconds is not None else 0
    if moment:
        try:
            since_ns = parse_rfc3339(moment)
        except ValueError as error:
            raise ValueError(f"sinceTime={moment}: write a time such as 2026-11-21T07:01:02Z") from error
    return LogQuery(
        follow=_flag(request, "follow"),
        tail_lines=_count(request, "tailLines", 0),
        since_ns=max(0, since_ns),
        limit_bytes=_count(request, "limitBytes", 1),
        timestamps=_flag(request, "timestamps"),
        stream="" if stream == "all" else stream,
    )
