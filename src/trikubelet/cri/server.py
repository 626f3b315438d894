"""A small gRPC server on Trio for Unix sockets: it serves the generated ``…Base`` classes to any gRPC client.

The embedded runtime and the tests' fake runtimes use it. It supports unary and server-streaming methods, deadlines,
cancellation, flow control, and limits for calls and message sizes; nothing else. On shutdown it accepts no new
connections and calls; running calls have ``farewell_seconds_max`` to end, then they are cancelled.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from trikubelet.cri.listener import UnixListener
from trikubelet.cri.server_call import Stream
from trikubelet.cri.server_connection import Prompt, ServerConnection
from trikubelet.kit.shielded_nursery import open_shielded_nursery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grpclib.const import Handler

__all__ = ["Servable", "Stream", "serve"]

MESSAGE_BYTES_MAX: Final = 16 * 2**20
CALLS_PER_CONNECTION_MAX: Final = 1000
FAREWELL_SECONDS_MAX: Final = 1.0


class Servable(Protocol):
    """The interface of a generated ``…Base`` class: a table of methods by path."""

    def __mapping__(self) -> Mapping[str, Handler]:
        """Return the handlers by path."""


async def serve(
    handlers: Sequence[Servable],
    where: str | trio.abc.Listener[Any],
    *,
    message_bytes_max: int = MESSAGE_BYTES_MAX,
    prompts: Mapping[str, Prompt] = MappingProxyType({}),
    calls_max: int = CALLS_PER_CONNECTION_MAX,
    farewell_seconds_max: float = FAREWELL_SECONDS_MAX,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve ``handlers`` at a Unix socket's path (or ``unix://`` URL) or on a listener, until cancelled. ``started``
    means that clients can connect. ``message_bytes_max`` bounds requests, ``calls_max`` the calls of one connection;
    ``prompts``: by path, functions that may answer a request without its handler.

    Raises OSError if it cannot listen.
    """
    methods: dict[str, Handler] = {}
    for handler in handlers:
        methods.update(handler.__mapping__())
    unix: UnixListener | None = None
    listener: trio.abc.Listener[Any]
    if isinstance(where, str):
        unix = UnixListener(where)
        listener = unix.listener
    else:
        listener = where
    connections: set[ServerConnection] = set()

    async def attend(stream: trio.abc.Stream) -> None:
        connection = ServerConnection(
            stream, methods, prompts, message_bytes_max=message_bytes_max, calls_max=calls_max
        )
        connections.add(connection)
        try:
            await connection.run()
        finally:
            connections.discard(connection)

    async with trio.open_nursery() as outer:
        # The connections' nursery: cancelling the server drains them first.
        shielded = await open_shielded_nursery(outer)
        try:
            await trio.serve_listeners(
                attend, [listener], handler_nursery=shielded.nursery, task_status=_Started(task_status)
            )
        finally:
            if unix is not None:
                unix.remove()
            # This comes first, so that an error while a connection drains cannot keep a task here for ever.
            shielded.drain(farewell_seconds_max)
            for connection in connections:
                connection.drain()


class _Started:
    """Reports that the server is ready without returning its listeners."""

    def __init__(self, task_status: trio.TaskStatus[None]) -> None:
        self._task_status = task_status

    def started(self, _listeners: object = None) -> None:
        self._task_status.started()
