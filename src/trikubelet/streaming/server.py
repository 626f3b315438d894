"""The server on which a runtime of ours streams: one HTTP server on loopback, and URLs that cannot be guessed, each
good once.

It listens when the first URL is asked for: most agents never are, and a process may have thousands of runtimes. A
client with a URL got it over the CRI's socket and may use it; other processes of the machine may do nothing.
"""

from __future__ import annotations

import secrets
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.remote_command import PORT_FORWARD, PROTOCOL_HEADER, SPDY, TUNNEL, V4, V5, spdy_headers
from trikubelet.httpd.messages import HttpLimits, Response, Upgrade, bare
from trikubelet.httpd.server import serve_http
from trikubelet.model.runtime_errors import ResourceExhausted, RuntimeFailure
from trikubelet.streaming.ports import forward_ports
from trikubelet.streaming.process import talk_to_process
from trikubelet.streaming.session import Session

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trikubelet.httpd.messages import Accept, Request
    from trikubelet.model.standard_streams import StandardStreams
    from trikubelet.streaming.process import Talk

URLS_MAX: Final = 1000
URL_SECONDS_MAX: Final = 60.0
"""Both as in k8s.io/cri-streaming."""
LIMITS: Final = HttpLimits(connections_max=256, body_bytes_max=0, idle_seconds_max=10.0)
_TOKEN_BYTES: Final = 16


class StreamingServer:
    """Owns the URLs that were given out and not used yet. ``nursery`` holds the server, from the first of them on."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._waiting: dict[str, tuple[float, str, Callable[[Session], Awaitable[None]]]] = {}
        self._address = ""
        self._starting = trio.Lock()

    async def process_url(self, streams: StandardStreams, talk: Callable[[Talk], Awaitable[int]]) -> str:
        """A URL for talking to a process, see ``talk_to_process``. Raises ResourceExhausted, RuntimeFailure."""
        return await self._url(V4, partial(talk_to_process, streams=streams, talk=talk))

    async def ports_url(self, connect: Callable[[int], Awaitable[trio.abc.HalfCloseableStream]]) -> str:
        """A URL for connections to ports, see ``forward_ports``. Raises ResourceExhausted, RuntimeFailure."""
        return await self._url(PORT_FORWARD, partial(forward_ports, connect=connect))

    async def _url(self, protocol: str, serve: Callable[[Session], Awaitable[None]]) -> str:
        await self._listen()
        now = trio.current_time()
        self._waiting = {token: one for token, one in self._waiting.items() if one[0] > now}
        if len(self._waiting) >= URLS_MAX:
            raise ResourceExhausted("maximum number of in-flight requests exceeded")
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._waiting[token] = (now + URL_SECONDS_MAX, protocol, serve)
        return f"http://{self._address}/{token}"

    async def _listen(self) -> None:
        async with self._starting:
            if self._address:
                return
            try:
                listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            except OSError as error:
                raise RuntimeFailure(f"nothing can be streamed: no port on loopback ({error.strerror})") from error
            await self._nursery.start(partial(serve_http, self.answer, listeners, limits=LIMITS))
            self._address = f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"

    async def answer(self, request: Request) -> Response | Upgrade:
        """An ``httpd`` handler."""
        await trio.lowlevel.checkpoint()
        until, protocol, serve = self._waiting.pop(request.path.removeprefix("/"), (0.0, "", None))
        if serve is None or until <= trio.current_time():
            return bare("404 page not found", HTTPStatus.NOT_FOUND)
        offered = [one.strip() for one in request.headers.get(PROTOCOL_HEADER, "").split(",")]
        if request.headers.get("upgrade") != SPDY or protocol not in offered:
            return bare(_spoken(request, protocol), HTTPStatus.FORBIDDEN)
        return Upgrade(partial(_converse, protocol, serve))


def _spoken(request: Request, protocol: str) -> str:
    """Return the protocol that a client is to speak. WebSocket is translated by the node's API (``server.streams``),
    which passes a request on as it is when it knows none of its protocols."""
    if request.headers.get("upgrade", "").lower() != "websocket":
        return f"only {SPDY} with {protocol} is spoken here"
    if protocol == PORT_FORWARD:
        return f"over WebSocket the protocol is {TUNNEL}: ask the node's API with it"
    return f"over WebSocket the protocols are {V5} and {V4}: ask the node's API with one"


async def _converse(protocol: str, serve: Callable[[Session], Awaitable[None]], accept: Accept) -> None:
    session = Session(await accept(dict(spdy_headers(protocol))))

    async def until_it_has_gone() -> None:
        await session.run()
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(until_it_has_gone)
        try:
            await serve(session)
            await session.finish()
        except trio.BrokenResourceError:
            pass  # the client has gone amid what it was sent
        nursery.cancel_scope.cancel()
