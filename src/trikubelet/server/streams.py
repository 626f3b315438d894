"""/exec, /attach, /portForward and /run: what ``kubectl exec``, ``attach``, ``port-forward``, ``cp`` and ``debug`` use.

    request ─► which container or sandbox ─► its runtime's URL ─► the runtime's server is asked ─► 101 to the client
        └ nothing wanted: 400, no such pod: 404   └ its error            └ its refusal

    client speaks                     the runtime is asked for     and between them
    SPDY/3.1                          the same                     whole frames are copied, pings answered
    WebSocket, v4 or v5.channel       SPDY/3.1, v4.channel         server.remote_command translates
    WebSocket, SPDY/3.1+portforward   SPDY/3.1, portforward        messages are unpacked to frames, and these copied
    WebSocket, anything else          the same                     bytes are copied

The API server speaks SPDY, so of what it carries no more is looked at than where frames end (``spdy_end``), and what a
command's status needs (``copied_command``). A stream costs what its two connections hold; it ends with either of
them, after a silence of ``streamingConnectionIdleTimeout``, and with the agent, and then both are closed.
(upstream-behaviour.md §1.21)
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
"""For the runtime to say where it streams: upstream's runtimeRequestTimeout."""
RETRY_SECONDS: Final = 60
"""When to ask again a runtime with too many streams waiting: its server keeps a URL so long (k8s.io/cri-streaming)."""

_PASSED_ON: Final = ("upgrade", "origin", "sec-websocket-key", "sec-websocket-version")
_REASONS: Final = (ValueError, NotShown, RuntimeCallError, trio.TooSlowError)
"""Why there is no stream."""


class Streams:
    """Owns how many WebSockets were asked for. What is wanted is looked up in ``view``, asked of ``runtime`` and joined
    with who wants it."""

    def __init__(self, view: NodeView, runtime: Runtime, idle_seconds_max: float) -> None:
        """``idle_seconds_max``: how long a stream may be silent; 0 is for ever."""
        self._view = view
        self._runtime = runtime
        self._idle_seconds_max = idle_seconds_max
        self.web_sockets: Counter[str] = Counter()
        """Requests that came as a WebSocket, by upstream's name for what they want: exec, attach, portforward."""

    async def exec(self, request: Request, namespace: str, pod: str, *rest: str) -> Response | Upgrade:
        """A command; ``rest`` is the pod's UID, or not, and the container's name."""

        async def find() -> _Found:
            streams = wanted_streams(request.query, tty=request.query.get("tty") == "1")
            found = self._container(namespace, pod, rest)
            return await self._runtime.exec_url(found.id, request.repeated.get("command", ()), streams), streams

        return await self._upgrade(request, "exec", find)

    async def attach(self, request: Request, namespace: str, pod: str, *rest: str) -> Response | Upgrade:
        """The container's own process; whether that has a terminal is not for the client to say."""

        async def find() -> _Found:
            found = self._container(namespace, pod, rest)
            streams = wanted_streams(request.query, tty=found.tty)
            return await self._runtime.attach_url(found.id, streams), streams

        return await self._upgrade(request, "attach", find)

    async def port_forward(self, request: Request, namespace: str, pod: str, *uid: str) -> Response | Upgrade:
        """Connections to ports of a pod."""

        async def find() -> _Found:
            said = [port for some in request.repeated.get("port", ()) for port in some.split(",")]
            ports = [port for one in said if (port := whole({"port": one}, "port", 1, PORT_MAX)) is not None]
            sandbox_id = self._view.running_sandbox(namespace, pod, *uid)
            return await self._runtime.port_forward_url(sandbox_id, ports), None

        return await self._upgrade(request, "portforward", find)

    async def run(self, request: Request, namespace: str, pod: str, *rest: str) -> Response:
        """A command whose output is wanted when it has ended. It is killed when it runs for as long as a stream may be
        silent, and when the client has gone."""
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
            return bare("given up, since the client has ended its side", HTTPStatus.INTERNAL_SERVER_ERROR)
        if result.exit_code:
            message = f"command '{' '.join(command)}' exited with {result.exit_code}: "
            return bare(message + result.stderr.decode(errors="replace"), HTTPStatus.INTERNAL_SERVER_ERROR)
        return Response(headers={"content-type": "text/plain; charset=utf-8"}, body=result.stdout + result.stderr)

    def _container(self, namespace: str, pod: str, rest: Sequence[str]) -> RunningContainer:
        *uid, container = rest
        return self._view.running_container(namespace, pod, container, *uid)

    async def _upgrade(self, request: Request, what: str, find: Callable[[], Awaitable[_Found]]) -> Response | Upgrade:
        """``what``: what is wanted, by upstream's name; ``find``: the runtime's URL, and which streams are behind it if
        it is a process'."""
        if not request.upgrade:
            return bare("Upgrade request required", HTTPStatus.BAD_REQUEST)
        try:
            if is_web_socket(request):
                check_handshake(request)  # first: the runtime keeps a place for each URL it has given
                self.web_sockets[what] += 1
            with trio.fail_after(CALL_SECONDS_MAX):
                url, streams = await find()
        except _REASONS as error:
            return _refusal(error)
        return Upgrade(partial(_converse, self._way(request, url, streams)))

    def _way(self, request: Request, url: str, streams: StandardStreams | None) -> Callable[[Accept], Awaitable[None]]:
        """Between what the client speaks and what the runtime speaks."""
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
        """Copy SPDY that needs no closing message; as ``relay``."""
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
    """Which of a client's headers the runtime receives: how they will speak, and nothing about who it is. Protocols are
    sent one a line, since older runtimes read them so."""
    headers = [("connection", "Upgrade")]
    headers += [(name, request.headers[name]) for name in _PASSED_ON if name in request.headers]
    headers += [("sec-websocket-protocol", one) for one in offered(request)]
    headers += [
        (PROTOCOL_HEADER, one.strip()) for one in request.headers.get(PROTOCOL_HEADER, "").split(",") if one.strip()
    ]
    return headers


def _refusal(error: Exception) -> Response:
    """The answer to a client that cannot have a stream, with upstream's statuses."""
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
