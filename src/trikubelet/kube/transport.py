"""The transport of requests to an API server: httpx's requests and responses over connections of our own.

    request ─► a place ─► an idle connection, or a new one (``dial``) ─► Exchange ─► head ─► Response
                                  ▲                                                    │
                                  └──────────── read to its end ◄──── Body ◄───────────┘   left before: closed

httpx brings a transport with it, but does not let a caller make its connections (``dial`` explains why that matters),
and asks more of a processor for each request than all the rest of a client together; docs/decisions/0011 has figures.
HTTP itself is h11's, below httpx too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import h11
import httpx
import trio

from trikubelet.kube.dial import INFORMATIONAL_MAX, CannotConnect, Dialer

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from trikubelet.kube.dial import DialedStream
    from trikubelet.model.kubeconfig import Server

IDLE_SECONDS_MAX: Final = 60.0
"""How long an unused connection is kept: less than the 90 s after which an API server closes it, so that no request is
sent into a connection that is being closed."""
PLACE_SECONDS_MAX: Final = 60.0
"""How long a request waits for one of its client's places: less than an informer's patience with a server, which has no
part in it."""
HEAD_BYTES_MAX: Final = 100 * 1024
AROUND_BYTES_MAX: Final = 1024 * 1024
"""Bytes that may come before a response's head has ended, and then beyond three times its body and a few bytes for each
chunk: extensions of chunks could go on for ever, and a bound on the body does not see them (Go has such a bound,
too)."""
CHUNK_BYTES: Final = 16
"""That go with each chunk."""
READ_BYTES_MAX: Final = 64 * 1024
"""At once, and so the size of a chunk."""


class NoPlace(CannotConnect):
    """Every connection that a client may have is in use."""


class Transport(httpx.AsyncBaseTransport):
    """Owns the connections of one client: which are idle, and how many requests have a place among them."""

    def __init__(self, server: Server, tls: Callable[[], ssl.SSLContext], connections_max: int) -> None:
        self._places = trio.Semaphore(connections_max)
        self._dialer = Dialer(server, tls)
        self._idle: list[tuple[float, _Exchange]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; its extension ``target`` stands for the path and query of the URL, and ``begins``, where
        there is one, is called once it has a place: before that the server has no part in how long it takes. The
        response's body is a ``Body``, still to be read, or to be closed. Raises CannotConnect, h11's errors and
        trio's."""
        await self._take_place()
        exchange = None
        try:
            if (begins := request.extensions.get("begins")) is not None:
                begins()
            exchange = self._take_idle() or _Exchange(await self._dialer.connect())
            head = await exchange.ask(request)
        except BaseException:
            if exchange is not None:
                exchange.close()
            self._places.release()
            raise
        return httpx.Response(head.status_code, headers=list(head.headers), stream=Body(exchange, self._take_back))

    def close_all(self) -> None:
        """Close every connection; requests under way fail. Never blocks."""
        self._dialer.close_all()
        self._idle.clear()

    async def _take_place(self) -> None:
        with trio.move_on_after(PLACE_SECONDS_MAX) as patience:
            await self._places.acquire()
        if patience.cancelled_caught:
            raise NoPlace(f"all connections to it are in use, and none came free for {PLACE_SECONDS_MAX:g} s")

    def _take_idle(self) -> _Exchange | None:
        """The connection that was used last, if one is fit to be used again; the others are closed."""
        oldest = trio.current_time() - IDLE_SECONDS_MAX
        while self._idle:
            since, exchange = self._idle.pop()
            if since >= oldest and not exchange.has_ended:
                return exchange
            exchange.close()
        return None

    def _take_back(self, exchange: _Exchange) -> None:
        """A response was read or left: its connection waits for another request, or is closed."""
        self._places.release()
        if exchange.start_over():
            self._idle.append((trio.current_time(), exchange))
        else:
            exchange.close()

    def __repr__(self) -> str:
        return f"<Transport, {len(self._idle)} idle, {self._dialer!r}>"


class Body(httpx.AsyncByteStream):
    """Owns what is still to come of one response, and with it a place and a connection. Iterates over chunks."""

    def __init__(self, exchange: _Exchange, leave: Callable[[_Exchange], None]) -> None:
        self._exchange = exchange
        self._leave: Callable[[_Exchange], None] | None = leave

    def __aiter__(self) -> Body:
        return self

    async def __anext__(self) -> bytes:
        """The next chunk. Raises h11's errors and trio's, after which it is to be closed."""
        chunk = await self._exchange.read()
        if not chunk:
            self.close()
            raise StopAsyncIteration
        return chunk

    def close(self) -> None:
        """Give up what is still to come; nothing when all was read. Never blocks."""
        if self._leave is not None:
            leave, self._leave = self._leave, None
            leave(self._exchange)

    async def aclose(self) -> None:
        """Close it, under httpx's name."""
        self.close()
        await trio.lowlevel.checkpoint()


class _Exchange:
    """Owns how far the request and the response on one connection are, and how much came that is no body."""

    def __init__(self, stream: DialedStream) -> None:
        self._stream = stream
        self._around = 0
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)

    @property
    def has_ended(self) -> bool:
        """True if the connection, which is idle, has ended."""
        return self._stream.has_ended

    async def ask(self, request: httpx.Request) -> h11.Response:
        """Send a request whole, in one piece, and wait for the head of its response."""
        self._around = 0
        http, target = self._http, request.extensions["target"]
        begun = h11.Request(method=request.method, target=target, headers=request.headers.raw)
        parts = [http.send(begun), http.send(h11.Data(data=request.content)), http.send(h11.EndOfMessage())]
        await self._stream.send(b"".join(filter(None, parts)))
        for _ in range(INFORMATIONAL_MAX + 1):
            event = await self._next()
            if isinstance(event, h11.Response):
                self._around = 0
                return event
            if isinstance(event, h11.ConnectionClosed):
                raise h11.RemoteProtocolError("it was closed without an answer")
        raise h11.RemoteProtocolError(f"the server sent more than {INFORMATIONAL_MAX} answers before the answer (1xx)")

    async def read(self) -> bytes:
        """More of the response's body; b"" at its end."""
        event = await self._next()
        if not isinstance(event, h11.Data):
            return b""
        self._around = max(0, self._around - 3 * len(event.data) - CHUNK_BYTES)
        return bytes(event.data)

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            received = await self._stream.receive(READ_BYTES_MAX)
            self._around += len(received)
            if self._around > AROUND_BYTES_MAX:
                raise h11.RemoteProtocolError(f"the server sent more than {AROUND_BYTES_MAX} bytes around its answer")
            self._http.receive_data(received)
        return event

    def start_over(self) -> bool:
        """Get ready for another request. Whether that can be: response and request have come to their ends."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def close(self) -> None:
        """Close the connection. Never blocks."""
        self._stream.close()
