"""gRPC's health protocol: ``grpc.health.v1.Health/Check`` without TLS, one connection for one question.

h2 speaks the HTTP/2 of it. The request is one field and so is the reply, so both are written and read here and nothing
is generated (https://github.com/grpc/grpc/blob/master/doc/health-checking.md).
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.events
import trio
from h2.exceptions import ProtocolError

from trikubelet.core.grpc_messages import Assembler, frame
from trikubelet.handlers.dial import RECEIVE_BYTES, dial, message_of, stream_of
from trikubelet.model.handlers import Health, Unreachable, authority

REPLY_BYTES_MAX: Final = 10 * 1024
RECEIVED_BYTES_MAX: Final = 256 * 1024
"""Bytes of all that is received: settings, headers, the reply."""
_BROKEN: Final = (trio.BrokenResourceError, trio.ClosedResourceError)
_UNIMPLEMENTED: Final = "12"
_OK: Final = "0"
_CONFIG: Final = h2.config.H2Configuration(client_side=True, header_encoding="latin-1")


async def grpc_health(host: str, port: int, service: str, agent: str) -> Health:
    """Return the service's health; "" asks for the server as a whole. Raises Unreachable."""
    where = authority(host, port)
    try:
        connection = await dial(host, port)
    except Unreachable as error:
        raise Unreachable(f'error: failed to connect service "{where}": {error}') from error
    try:
        with connection:
            return await _Question(stream_of(connection), where, agent).check(service)
    except _BROKEN as error:
        raise Unreachable(f"error: health rpc probe failed: {message_of(error)}") from error
    except ProtocolError as error:
        raise Unreachable(f"error: health rpc probe failed: no HTTP/2: {error}") from error


class _Question:
    """Holds where one question stands: what was heard of its answer."""

    def __init__(self, stream: trio.abc.Stream, where: str, agent: str) -> None:
        self._stream = stream
        self._where = where
        self._agent = agent
        self._http = h2.connection.H2Connection(_CONFIG)
        self._reply = Assembler(REPLY_BYTES_MAX)
        self._messages: list[bytes] = []
        self._fields: dict[str, str] = {}
        self._over = False

    async def check(self, service: str) -> Health:
        """Ask, and wait for the end of the answer."""
        self._http.initiate_connection()
        self._http.send_headers(1, self._headers())
        self._http.send_data(1, frame(_string_field(service)), end_stream=True)
        received = 0
        while not self._over:
            await self._stream.send_all(self._http.data_to_send())
            data = await self._stream.receive_some(RECEIVE_BYTES)
            received += len(data)
            if not data or received > RECEIVED_BYTES_MAX:
                raise Unreachable("error: health rpc probe failed: the connection ended before the answer")
            for event in self._http.receive_data(bytes(data)):
                self._hear(event)
        return self._verdict()

    def _headers(self) -> list[tuple[str, str]]:
        return [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/grpc.health.v1.Health/Check"),
            (":authority", self._where),
            ("content-type", "application/grpc"),
            ("user-agent", self._agent),
            ("te", "trailers"),
        ]

    def _hear(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                self._fields.update((str(name), str(value)) for name, value in event.headers or ())
            case h2.events.DataReceived():
                self._messages += self._reply.feed(event.data or b"")
                self._http.acknowledge_received_data(event.flow_controlled_length or 0, 1)
            case h2.events.StreamEnded() | h2.events.StreamReset() | h2.events.ConnectionTerminated():
                self._over = True

    def _verdict(self) -> Health:
        if self._fields.get(":status", "200") != "200":
            raise Unreachable(f"error: health rpc probe failed: HTTP status {self._fields[':status']}")
        status, message = self._fields.get("grpc-status", ""), unquote(self._fields.get("grpc-message", ""))
        if status == _UNIMPLEMENTED:
            raise Unreachable(
                f"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
            )
        if status != _OK:
            raise Unreachable(f"error: health rpc probe failed: gRPC status {status or 'missing'}: {message}")
        if len(self._messages) != 1 or self._reply.refusal is not None:
            raise Unreachable("error: health rpc probe failed: no reply that can be read")
        return _health(self._messages[0])


def _string_field(text: str) -> bytes:
    """A protobuf message whose field 1 is this string."""
    raw = text.encode()
    return b"\x0a" + _varint(len(raw)) + raw if raw else b""


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def _health(reply: bytes) -> Health:
    """Field 1 of the reply; a message that says anything else is not one of this protocol. Raises Unreachable."""
    if not reply:
        return Health.UNKNOWN
    if len(reply) == 2 and reply[0] == 0x08 and reply[1] in set(Health):
        return Health(reply[1])
    raise Unreachable("error: health rpc probe failed: no reply that can be read")
