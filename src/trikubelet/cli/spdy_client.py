"""A conversation with a container, or a port of a pod, through the agent: a request that changes the protocol to SPDY.

Apart from ``cli.client``, because it takes an event loop and the HTTP of a server, which other commands do not load.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import h11
import trio

from trikubelet.cli.client import FETCHED_SECONDS_MAX, AgentObjects, NoAgent, in_time
from trikubelet.cli.connection import InTrio
from trikubelet.core.remote_command import spdy_headers
from trikubelet.server.runtime_stream import Declined, change_protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trio.abc import Stream

    from trikubelet.cli.connection import Connection


@asynccontextmanager
async def spdy_conversation(
    connection: Connection, socket_path: str, target: str, protocol: str
) -> AsyncGenerator[Stream, None]:
    """SPDY/3.1 over a connection to the agent at ``socket_path``, with a protocol within it, for as long as the block
    lasts. Raises as ``AgentClient.get`` does."""
    assert isinstance(connection, InTrio)
    headers = [("host", "trikubelet"), *spdy_headers(protocol)]
    request = h11.Request(method="POST", target=target, headers=headers)
    with in_time(connection, socket_path, FETCHED_SECONDS_MAX):
        try:
            agreed = await change_protocol(connection.stream, request)
        except Declined as declined:
            said = declined.response.body
            message = said.decode(errors="replace").strip() if isinstance(said, bytes) else ""
            raise AgentObjects(declined.response.status, message) from declined
        except (h11.RemoteProtocolError, trio.BrokenResourceError) as error:
            raise NoAgent(f"what answers at {socket_path} is no trikubelet: {error}") from error
    yield agreed.stream
