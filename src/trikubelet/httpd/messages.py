"""The request of a handler, its response, and the limits under which it is served. See ``httpd.server``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

import msgspec
import trio
from msgspec import field

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from trikubelet.model.certificates import Certificate


class Admit(Protocol):
    """Says to the server that it must not close a client's connection for others while it is being answered, or,
    ``for_good``, at any time."""

    def __call__(self, *, for_good: bool) -> None: ...


def _anybody(*, for_good: bool) -> None:
    """The admission of a server that does not count its clients."""


class Request(Frozen):
    """One request. ``path`` is decoded and has no query; of a ``query`` key given twice the first counts, as in Go, and
    ``repeated`` has all its values; ``headers`` have lower-case names, and the values of a repeated one are joined by
    commas. ``certificate`` is the client's, as far as TLS has found it good when the connection began; None where there
    was none. ``gone`` waits until the client has ended its side: whose answer takes long may give it up then. One task
    may wait, and only until the answer begins. ``network``: where the client comes from (``httpd.client_network``);
    ``admit``: for the handler of a server that wants a proof (``httpd.connection_limit``)."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    certificate: Certificate | None = None
    repeated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gone: Callable[[], Awaitable[None]] = trio.sleep_forever
    network: str = ""
    admit: Admit = _anybody

    @property
    def upgrade(self) -> str:
        """The protocol the client would go on with, in lower case; "" where it wants none."""
        options = [option.strip() for option in self.headers.get("connection", "").lower().split(",")]
        return self.headers.get("upgrade", "").lower() if "upgrade" in options else ""


class Response(Frozen):
    """One response. A ``body`` of bytes is sent with its length, an iterator's chunks as they come; the iterator is
    closed, if it can be, whether or not it was read to its end. The answer to HEAD leaves the body out by itself."""

    status: int = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | AsyncIterator[bytes] = b""


Accept = Callable[["Mapping[str, str]"], Awaitable[trio.abc.Stream]]
"""Sends ``101 Switching Protocols`` with those headers; what the client's connection is from there on."""


class Upgrade(Frozen):
    """The answer to a request that wants another protocol, from its own beginning to the connection's end.

    ``converse`` is called with the way to accept. It returns None once it is done with the connection, which is closed
    then; or, without having accepted, a response, after which it is closed, too: a client that asked for another
    protocol and does not get it has to connect again."""

    converse: Callable[[Accept], Awaitable[Response | None]]


class HttpLimits(Frozen):
    """The limits of one client."""

    connections_max: int = 64
    """Where no connection can be closed (``httpd.connection_limit``), further ones get 503 and are closed; over TLS,
    and beyond twice as many, they are closed without an answer."""
    header_bytes_max: int = 64 * 1024
    """Request line and headers together (431 when exceeded)."""
    body_bytes_max: int = 1024 * 1024
    """A request's body (413 when exceeded)."""
    held_bytes_max: int = 16 * 1024
    """A connection may always hold this much of unanswered requests."""
    shared_bytes_max: int = 16 * 1024 * 1024
    """The limit of all connections together beyond that (503 for one that finds no room)."""
    handshake_seconds_max: float = 10.0
    """From a connection's beginning to the end of its TLS handshake."""
    idle_seconds_max: float = 90.0
    """From the end of a response (or the connection's beginning) to the whole of the next request."""
    unauthenticated_seconds_max: float = 10.0
    """The same, if less, on a connection that is unauthenticated (``httpd.connection_limit``)."""
    send_seconds_max: float = 30.0
    """One write to a client that does not read."""
    stream_seconds_max: float = 4 * 3600.0
    """Seconds for one write of a body that comes bit by bit, like a log: its reader may be a person at a pager, for
    whom a cut would look like the end (upstream: 4 h)."""


def text(body: str, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    """Plain text; a final newline is added."""
    typed = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff", **(headers or {})}
    return Response(status, typed, f"{body.rstrip()}\n".encode())


def bare(body: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Return plain text as it is, for a caller that passes it on."""
    typed = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff", **(headers or {})}
    return Response(status, typed, body.encode())


def json(value: object, status: int = HTTPStatus.OK) -> Response:
    """A value msgspec can encode, as JSON."""
    return Response(status, {"content-type": "application/json"}, msgspec.json.encode(value))


Handler = Callable[[Request], Awaitable[Response | Upgrade]]
