"""What a handler is given and gives back, and the limits it is served under. See ``server.http``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``path`` is decoded and has no query; of a ``query`` key given twice the first counts, as in Go;
    ``headers`` have lower-case names, and the values of a repeated one are joined by commas."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """One response. A ``body`` of bytes is sent with its length, an iterator's chunks as they come; the iterator is
    closed, if it can be, whether or not it was read to its end. The answer to HEAD leaves the body out by itself."""

    status: int = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | AsyncIterator[bytes] = b""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What one client may take."""

    connections_max: int = 64
    """Further ones are told 503 and closed."""
    header_bytes_max: int = 64 * 1024
    """Request line and headers together (431 when exceeded)."""
    body_bytes_max: int = 1024 * 1024
    """A request's body (413 when exceeded)."""
    idle_seconds_max: float = 90.0
    """From the end of a response (or the connection's beginning) to the whole of the next request."""
    send_seconds_max: float = 30.0
    """One write to a client that does not read."""


def text(body: str, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    """Plain text; a final newline is added."""
    typed = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff", **(headers or {})}
    return Response(status, typed, f"{body.rstrip()}\n".encode())


def json(value: object, status: int = HTTPStatus.OK) -> Response:
    """A value msgspec can encode, as JSON."""
    return Response(status, {"content-type": "application/json"}, msgspec.json.encode(value))


Handler = Callable[[Request], Awaitable[Response]]
