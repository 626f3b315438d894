"""The server's side of a WebSocket: ``core.websocket`` over a stream.

    check_handshake(request) ─► agreement ─► accept ─► WebSocket: receive … send … ─► close, with the reason

A browser cannot authenticate with a header, so it may name its token as one more protocol (``bearer_token``), which is
not passed on to the runtime. Pings are answered here. Every conversation ends with a close frame, if the client reads
one within a second.
"""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.websocket import (
    CloseCode,
    FrameReader,
    NotWebSocket,
    Opcode,
    Piece,
    Ping,
    accept_key,
    close_frame,
    frame,
)
from trikubelet.server.client_sender import ClientSender
from trikubelet.server.relay import GOING_DOWN, silent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.httpd.messages import Request

VERSION: Final = "13"
READ_BYTES: Final = 16 * 1024
"""Bytes of one read, and so of one turn: a client's frames may be as short as six bytes, and each costs as much as a
long one."""
_KEY_BYTES: Final = 16
_BEARER: Final = "base64url.bearer.authorization.k8s.io."
"""Prefix of a token as a protocol (upstream's ProtocolAuthenticator)."""


class NoHandshake(ValueError):
    """A WebSocket handshake is invalid; the message has the reason."""


def is_web_socket(request: Request) -> bool:
    """True if the client requests a WebSocket."""
    return request.upgrade == "websocket"


def check_handshake(request: Request) -> None:
    """Check the request of a handshake (RFC 6455, 4.2.1). Raises NoHandshake."""
    if request.method != "GET":
        raise NoHandshake("a WebSocket handshake must be a GET")
    if request.headers.get("sec-websocket-version") != VERSION:
        raise NoHandshake(f"only version {VERSION} of WebSocket is supported")
    try:
        key = base64.b64decode(request.headers.get("sec-websocket-key", ""), validate=True)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise NoHandshake(f"Sec-WebSocket-Key is not {_KEY_BYTES} bytes in base64")


def offered(request: Request) -> list[str]:
    """Return the protocols that a client offers for its WebSocket."""
    return [name for name in _named(request) if not name.startswith(_BEARER)]


def bearer_token(request: Request) -> str:
    """Return the token that a WebSocket's client names as a protocol; "" where there is none. Raises ValueError for an
    invalid one, for a second one, and for a token without another protocol to agree on."""
    if not is_web_socket(request):
        return ""
    tokens = [name.removeprefix(_BEARER) for name in _named(request) if name.startswith(_BEARER)]
    if len(tokens) > 1 or (tokens and not offered(request)):
        raise ValueError("exactly one token and another protocol are required")
    padding = "=" * (-len(tokens[0]) % 4) if tokens else ""
    return base64.b64decode("".join(tokens) + padding, altchars=b"-_", validate=True).decode()


def _named(request: Request) -> list[str]:
    names = [name.strip() for name in request.headers.get("sec-websocket-protocol", "").split(",")]
    return [name for name in names if name]


def agreement(request: Request, protocol: str) -> Mapping[str, str]:
    """Return the headers that accept a WebSocket, whose handshake was checked, for a protocol."""
    return {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-accept": accept_key(request.headers["sec-websocket-key"]),
        "sec-websocket-protocol": protocol,
    }


class WebSocket(trio.abc.Stream):
    """Owns a client's frames. As a stream it is the bytes of the binary messages, whatever their boundaries."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._reader = FrameReader()
        self.sender = ClientSender(stream)
        """Sends to the client; its ``finishes`` runs next to every conversation."""
        self._sending = trio.Lock()
        self._is_over = False
        self._close_status: tuple[CloseCode, str] | None = None

    async def pieces(self) -> list[Piece]:
        """Return the next pieces of the client's messages, one at least; none at the end, and after invalid frames.
        Raises the stream's errors."""
        while not self._is_over:
            data = await self._stream.receive_some(READ_BYTES)
            if not data:
                self._is_over = True
            elif pieces := await self._taken(data):
                return pieces
        return []

    async def _taken(self, data: bytes | bytearray) -> list[Piece]:
        pieces = []
        try:
            for event in self._reader.feed(data):
                if isinstance(event, Piece):
                    pieces.append(event)
                elif isinstance(event, Ping):
                    await self._send(frame(Opcode.PONG, event.data))
                else:
                    self._is_over = True
                    self.ends_because(CloseCode.NORMAL, "")
        except NotWebSocket as error:
            self._is_over = True
            self.ends_because(CloseCode.PROTOCOL_ERROR, str(error))
        return pieces

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the bytes of the next pieces, possibly more than ``max_bytes``; b"" at the end."""
        while pieces := await self.pieces():
            if data := b"".join(piece.data for piece in pieces):
                return data
        return b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send one binary message."""
        await self._send(frame(Opcode.BINARY, bytes(data)))

    async def wait_send_all_might_not_block(self) -> None:
        """Wait like the stream below."""
        await self._stream.wait_send_all_might_not_block()

    def ends_because(self, code: CloseCode, reason: str) -> None:
        """Set the reason that ``aclose`` sends. The first one counts; the default is that the agent is stopping."""
        if self._close_status is None:
            self._close_status = code, reason

    def ends_by_silence(self, seconds: float) -> None:
        """Have ``aclose`` report an idle timeout."""
        self.ends_because(CloseCode.GOING_AWAY, silent(seconds))

    async def aclose(self) -> None:
        """Send the reason, if the client still reads, and close the stream below."""
        self.ends_because(CloseCode.GOING_AWAY, GOING_DOWN)
        assert self._close_status is not None
        await self.sender.end(partial(self._send, close_frame(*self._close_status)))

    async def _send(self, data: bytes) -> None:
        async with self._sending:
            await self.sender.send_all(data)
