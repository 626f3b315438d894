"""A tiny HTTP/1.1 server on Trio: the one the health endpoint, the local API and the node's API are built on.

    listeners ─► a task per connection: read a request ─► handler ─► write its response ─► the next request

``h11`` knows the protocol, Trio the sockets, and a handler is ``async def handle(request) -> Response``. It runs over
TCP and Unix sockets alike, and over TLS when the listener brings it. A request is read whole before the handler sees
it; a response may be streamed from an async iterator, which is closed when the client has gone.

Everything a stranger can make large or slow has a bound, see ``HttpLimits``. A handler that fails costs its own
response (500, and a line in the log), never the server; a broken invariant ends the process, as everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.server.http_connection import HttpConnection, refuse
from trikubelet.server.http_messages import Handler, HttpLimits, Request, Response, json, text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Handler", "HttpLimits", "Request", "Response", "json", "serve_http", "text"]


async def serve_http(
    handler: Handler,
    listeners: Sequence[trio.abc.Listener[Any]],
    *,
    limits: HttpLimits | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on ``listeners`` until cancelled, then close them and every connection at once. ``started`` means that
    clients are accepted. Raises only what a listener raises, and ``InvariantBroken`` from a handler."""
    bounds = limits or HttpLimits()
    present = 0

    async def attend(stream: trio.abc.Stream) -> None:
        nonlocal present
        present += 1
        try:
            if present > bounds.connections_max:
                await refuse(stream, "too many connections", bounds)
            else:
                await HttpConnection(stream, handler, bounds).run()
        finally:
            present -= 1

    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, attend, list(listeners))
        task_status.started()
