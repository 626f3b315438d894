"""A conversation with a container, or a port of a pod: a request to the agent that changes the protocol to SPDY."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import h11

from trikubelet.cli.client import FETCHED_SECONDS_MAX, AgentObjects, NoAgent, in_time
from trikubelet.core.remote_command import spdy_headers

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trikubelet.cli.connection import Connection, Stream

_RECEIVE_BYTES: Final = 64 * 1024
_ANSWER_BYTES_MAX: Final = 1024 * 1024
"""Of all that comes before the protocol is another, and of a refusal."""


@asynccontextmanager
async def spdy_conversation(
    connection: Connection, socket_path: str, target: str, protocol: str
) -> AsyncGenerator[Stream, None]:
    """SPDY/3.1 over a connection to the agent at ``socket_path``, with a protocol within it, for as long as the block
    lasts. Raises as ``AgentClient.get`` does."""
    headers = [("host", "trikubelet"), *spdy_headers(protocol)]
    request = h11.Request(method="POST", target=target, headers=headers)
    with in_time(connection, socket_path, FETCHED_SECONDS_MAX):
        try:
            early = await _change_protocol(connection, request)
        except (h11.RemoteProtocolError, ConnectionError) as error:
            raise NoAgent(f"what answers at {socket_path} is no trikubelet: {error}") from error
    yield _ReadEarly(connection, early)


async def _change_protocol(connection: Connection, request: h11.Request) -> bytes:
    """Ask for another protocol; its first bytes, which may have come with the answer. Raises AgentObjects,
    ConnectionError, and h11's RemoteProtocolError for what is no answer."""
    http = h11.Connection(h11.CLIENT)
    await connection.send_all((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
    body, came, status = bytearray(), 0, 0
    while True:
        match http.next_event():
            case h11.NEED_DATA:
                received = await connection.receive_some(_RECEIVE_BYTES)
                came += len(received)
                if came > _ANSWER_BYTES_MAX:
                    raise h11.RemoteProtocolError(f"more than {_ANSWER_BYTES_MAX} bytes")
                http.receive_data(received)
            case h11.InformationalResponse(status_code=101):
                return http.trailing_data[0]
            case h11.Response(status_code=status):
                pass
            case h11.Data(data=data):
                body += data
            case h11.EndOfMessage() | h11.ConnectionClosed():
                said = body.decode(errors="replace").strip()
                raise AgentObjects(status, said or f"the agent answered {status}")


class _ReadEarly:
    """Owns the bytes of a conversation that came with the answer before it; all else is the connection's."""

    def __init__(self, connection: Connection, early: bytes) -> None:
        self._early = early
        self._connection = connection
        self.send_all = connection.send_all
        self.break_off = connection.break_off

    async def receive_some(self, bytes_max: int) -> bytes:
        """See ``Stream``."""
        if not self._early:
            return await self._connection.receive_some(bytes_max)
        data, self._early = self._early[:bytes_max], self._early[bytes_max:]
        return data
