"""/exec, /attach, /portForward and /run, for ``kubectl exec``, ``attach``, ``port-forward``, ``cp`` and ``debug``.

    request ─► the container or sandbox ─► its runtime's URL ─► request to the runtime's server ─► 101 to the client
        └ invalid: 400, no such pod: 404     └ its error                  └ its refusal

    client speaks                     the runtime is asked for     and between them
    SPDY/3.1                          the same                     whole frames are copied, pings answered
    WebSocket, v4 or v5.channel       SPDY/3.1, v4.channel         server.remote_command translates
    WebSocket, SPDY/3.1+portforward   SPDY/3.1, portforward        messages are unpacked to frames, and these copied
    WebSocket, anything else          the same                     bytes are copied

The API server speaks SPDY. So only the ends of its frames are parsed (``spdy_end``), and what a command's status needs
(``copied_command``). A stream costs what its two connections hold. It ends with either of them, after an idle time of
``streamingConnectionIdleTimeout``, and with the agent; then both are closed. (upstream-behaviour.md §1.21)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from math import ceil
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.query import whole
from trikubelet.core.remote_command import (
    PORT_FORWARD,
    PROTOCOL_HEADER,
    TUNNEL,
    V4,
    V5,
    spdy_headers,
    wanted_streams,
)
from trikubelet.core.websocket import CloseCode
from trikubelet.httpd.messages import Response, Upgrade, bare
from trikubelet.model.names import PORT_MAX
from trikubelet.model.runtime_errors import NotFound, ResourceExhausted, RuntimeCallError
from trikubelet.server.copied_command import CopiedCommand
from trikubelet.server.node_view import NoSuchPod, NotShown
from trikubelet.server.relay import either, relay
from trikubelet.server.remote_command import RemoteCommand
from trikubelet.server.runtime_stream import Declined, open_runtime_stream
from trikubelet.server.spdy_end import SpdyEnd
from trikubelet.server.web_socket import (
    VERSION,
    NoHandshake,
    WebSocket,
    agreement,
    check_handshake,
    is_web_socket,
    offered,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from trikubelet.httpd.messages import Accept, Request
    from trikubelet.model.runtime import ExecResult
    from trikubelet.model.standard_streams import StandardStreams
    from trikubelet.ports import Runtime
    from trikubelet.server.node_view import NodeView, RunningContainer
    from trikubelet.server.relay import Silence

    Part = Callable[[Silence], Awaitable[None]]
    _Found = tuple[str, StandardStreams | None]

CALL_SECONDS_MAX: Final = 120.0
"""Time for the runtime to return a streaming URL, in seconds: upstream's runtimeRequestTimeout."""
RETRY_SECONDS: Final = 60
"""Seconds after which to retry at a runtime with too many waiting streams: its server keeps a URL that long
(k8s.io/cri-streaming)."""

_PASSED_ON: Final = ("upgrade", "origin", "sec-websocket-key", "sec-websocket-version")
_REASONS: Final = (ValueError, NotShown, RuntimeCallError, trio.TooSlowError)
"""Errors that mean that there can be no stream."""


class Streams:
    """Owns the number of requested WebSockets. Finds the container in ``view``, requests its URL from ``runtime`` and
    connects it with the client."""

    def __init__(self, view: NodeView, runtime: Runtime, idle_seconds_max: float) -> None:
        """``idle_seconds_max``: idle time after which a stream ends; 0 is no limit."""
        self._view = view
        self._runtime = runtime
        self._idle_seconds_max = idle_seconds_max
        self.web_sockets: Counter[str] = Counter()
        """Requests that came as a WebSocket, by upstream's name for their purpose: exec, attach, portforward."""

    async def exec(self, request: Request, namespace: str, pod: str, *rest: str) -> Response | Upgrade:
        """Run a command; ``rest`` is the pod's UID (optional) and the container's name."""

        async def find() -> _Found:
            streams = wanted_streams(request.query, tty=request.query.get("tty") == "1")
            found = self._container(namespace, pod, rest)
            return await self._runtime.exec_url(found.id, request.repeated.get("command", ()), streams), streams

        return await self._upgrade(request, "exec", find)

    async def attach(self, request: Request, namespace: str, pod: str, *rest: str) -> Response | Upgrade:
        """Attach to the container's own process; the container, not the client, decides whether it has a terminal."""

        async def find() -> _Found:
            found = self._container(namespace, pod, rest)
            streams = wanted_streams(request.query, tty=found.tty)
            return await self._runtime.attach_url(found.id, streams), streams

        return await self._upgrade(request, "attach", find)

    async def port_forward(self, request: Request, namespace: str, pod: str, *uid: str) -> Response | Upgrade:
        """Forward connections to ports of a pod."""

        async def find() -> _Found:
            said = [port for some in request.repeated.get("port", ()) for port in some.split(",")]
            ports = [port for one in said if (port := whole({"port": one}, "port", 1, PORT_MAX)) is not None]
            sandbox_id = self._view.running_sandbox(namespace, pod, *uid)
            return await self._runtime.port_forward_url(sandbox_id, ports), None

        return await self._upgrade(request, "portforward", find)

    async def run(self, request: Request, namespace: str, pod: str, *rest: str) -> Response:
        """Run a command and return its output when it has ended. It is killed after the streams' idle time, and when
        the client disconnects."""
        command = request.query.get("cmd", "").split(" ")
        result: ExecResult | None = None

        async def execute(_: Silence) -> None:
            nonlocal result
            result = await self._runtime.exec_sync(found.id, command, ceil(self._idle_seconds_max))

        try:
            if not command[0]:
                raise ValueError("cmd: the command is empty")
            found = self._container(namespace, pod, rest)
            await either(execute, lambda _: request.gone(), idle_seconds_max=0)
        except _REASONS as error:
            return _refusal(error)
        if result is None:
            return bare("cancelled, because the client disconnected", HTTPStatus.INTERNAL_SERVER_ERROR)
        if result.exit_code:
            message = f"command '{' '.join(command)}' exited with {result.exit_code}: "
            return bare(message + result.stderr.decode(errors="replace"), HTTPStatus.INTERNAL_SERVER_ERROR)
        return Response(headers={"content-type": "text/plain; charset=utf-8"}, body=result.stdout + result.stderr)

    def _container(self, namespace: str, pod: str, rest: Sequence[str]) -> RunningContainer:
        *uid, container = rest
        return self._view.running_container(namespace, pod, container, *uid)

    async def _upgrade(self, request: Request, what: str, find: Callable[[], Awaitable[_Found]]) -> Response | Upgrade:
        """``what``: the purpose, by upstream's name; ``find``: returns the runtime's URL, and the streams behind it if
        it is a process'."""
        if not request.upgrade:
            return bare("Upgrade request required", HTTPStatus.BAD_REQUEST)
        try:
            if is_web_socket(request):
                check_handshake(request)  # first, because the runtime keeps a place for each URL that it has returned
                self.web_sockets[what] += 1
            with trio.fail_after(CALL_SECONDS_MAX):
                url, streams = await find()
        except _REASONS as error:
            return _refusal(error)
        return Upgrade(partial(_converse, self._way(request, url, streams)))

    def _way(self, request: Request, url: str, streams: StandardStreams | None) -> Callable[[Accept], Awaitable[None]]:
        """Return the connection of the client's protocol with the runtime's."""
        protocols = offered(request) if is_web_socket(request) else []
        if streams is not None and (spoken := next((one for one in (V5, V4) if one in protocols), None)):
            return partial(self._translate, url, agreement(request, spoken), streams)
        if streams is None and TUNNEL in protocols:
            return partial(self._tunnel, url, agreement(request, TUNNEL))
        return partial(self._pass, url, request, streams)

    async def _pass(self, url: str, request: Request, streams: StandardStreams | None, accept: Accept) -> None:
        async with open_runtime_stream(url, request.method, _passed_on(request)) as runtime:
            stream = await accept(runtime.headers)
            if is_web_socket(request):  # of a version that only the runtime may know
                await relay(stream, runtime.stream, self._idle_seconds_max)
            elif streams is None or runtime.headers.get(PROTOCOL_HEADER) != V4:
                await self._relay(stream, runtime.stream)
            else:
                async with CopiedCommand(stream, runtime.stream, streams) as client:
                    if await relay(client, client.runtime, self._idle_seconds_max, client.sender.finishes):
                        await client.has_ended()
                    else:
                        client.ends_by_silence(self._idle_seconds_max)

    async def _relay(self, client: trio.abc.Stream, runtime: trio.abc.Stream, *others: Part) -> bool:
        """Copy SPDY that needs no closing message; returns as ``relay``."""
        ends = SpdyEnd(client, is_client=True), SpdyEnd(runtime, is_client=False)
        return await relay(*ends, self._idle_seconds_max, *others)

    async def _tunnel(self, url: str, agreed: Mapping[str, str], accept: Accept) -> None:
        opened = open_runtime_stream(url, "POST", spdy_headers(PORT_FORWARD))
        async with opened as runtime, WebSocket(await accept(agreed)) as client:
            if await self._relay(client, runtime.stream, client.sender.finishes):
                client.ends_because(CloseCode.NORMAL, "")
            else:
                client.ends_by_silence(self._idle_seconds_max)

    async def _translate(self, url: str, agreed: Mapping[str, str], streams: StandardStreams, accept: Accept) -> None:
        opened = open_runtime_stream(url, "POST", spdy_headers(V4))
        async with opened as runtime, WebSocket(await accept(agreed)) as client:
            await RemoteCommand(client, runtime.stream, streams).translate(self._idle_seconds_max)


async def _converse(way: Callable[[Accept], Awaitable[None]], accept: Accept) -> Response | None:
    try:
        await way(accept)
    except Declined as declined:
        return declined.response
    return None


def _passed_on(request: Request) -> list[tuple[str, str]]:
    """Return the client's headers for the runtime: those about the protocol, and nothing that identifies the client.
    Each protocol has a line of its own, because older runtimes need that."""
    headers = [("connection", "Upgrade")]
    headers += [(name, request.headers[name]) for name in _PASSED_ON if name in request.headers]
    headers += [("sec-websocket-protocol", one) for one in offered(request)]
    headers += [
        (PROTOCOL_HEADER, one.strip()) for one in request.headers.get(PROTOCOL_HEADER, "").split(",") if one.strip()
    ]
    return headers


def _refusal(error: Exception) -> Response:
    """Return the answer to a client that cannot have a stream, with upstream's statuses."""
    match error:
        case NoHandshake():
            response = bare(str(error), HTTPStatus.BAD_REQUEST)
            return replace(response, headers={**response.headers, "sec-websocket-version": VERSION})
        case ValueError():
            return bare(str(error), HTTPStatus.BAD_REQUEST)
        case NoSuchPod():
            return bare("pod does not exist", HTTPStatus.NOT_FOUND)
        case NotFound():
            return bare(str(error), HTTPStatus.NOT_FOUND)
        case ResourceExhausted():
            response = bare(str(error), HTTPStatus.TOO_MANY_REQUESTS)
            return replace(response, headers={**response.headers, "retry-after": str(RETRY_SECONDS)})
        case trio.TooSlowError():
            return bare(f"the runtime did not answer within {CALL_SECONDS_MAX:g} s", HTTPStatus.INTERNAL_SERVER_ERROR)
    return bare(str(error), HTTPStatus.INTERNAL_SERVER_ERROR)
