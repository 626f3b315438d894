"""A tiny HTTP/1.1 server on Trio: the one the health endpoint, the local API, and the fake runtime's page are built on.

    listeners ─► a task per connection: read a request ─► handler ─► write its response ─► the next request

``h11`` knows the protocol, Trio the sockets, and a handler is ``async def handle(request) -> Response``. It runs over
TCP and Unix sockets alike, and over TLS when the listener brings it (``httpd.tls``). A request is read whole before the
handler sees it; a response may be streamed from an async iterator, which is closed when the client has gone; and a
handler may go on with the connection in another protocol (``messages.Upgrade``).

Everything a client can make large or slow has a bound, see ``HttpLimits``. A handler that fails costs its own
response (500, and a line in the log), never the server; a broken invariant ends the process, as everywhere.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from trikubelet.httpd.client_network import client_network
from trikubelet.httpd.connection import HttpConnection, refuse
from trikubelet.httpd.connection_limit import ConnectionLimit
from trikubelet.httpd.messages import Handler, HttpLimits, Request, Response, json, text
from trikubelet.httpd.request_bytes import RequestByteBudget
from trikubelet.httpd.tls import NoHandshake, let_go, shake_hands

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from trikubelet.httpd.connection_limit import ConnectionSlot

__all__ = ["Handler", "HttpLimits", "Request", "Response", "json", "serve_http", "text"]

log = logging.getLogger(__name__)


async def serve_http(
    handler: Handler,
    listeners: Sequence[trio.abc.Listener[Any]],
    *,
    limits: HttpLimits | None = None,
    goes_on: Callable[[trio.abc.Stream], bool] = lambda _: True,
    connection_limit: ConnectionLimit | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on ``listeners`` until cancelled, then close them and every connection at once. ``started`` means that
    clients are accepted. ``goes_on``: whether a connection is still good when its next request has come; one that is
    not is closed without an answer, which a client takes for a connection that had ended already. ``connection_limit``:
    has the bound, for who wants to know how many are there.

    Raises only what a listener raises, and ``InvariantBroken`` from a handler."""
    bounds = limits or HttpLimits()
    budget = RequestByteBudget(bounds.shared_bytes_max)
    present = connection_limit if connection_limit is not None else ConnectionLimit("HTTP", bounds.connections_max)
    refused = 0

    async def attend(stream: trio.abc.Stream) -> None:
        nonlocal refused
        try:
            with present.slot(client_network(stream)) as slot:
                if slot is not None:
                    with slot.scope:
                        await _serve(stream, handler, bounds, goes_on, budget, slot)
                elif refused < bounds.connections_max and not isinstance(stream, trio.SSLStream):
                    refused += 1
                    try:
                        await refuse(stream, "too many connections", bounds)
                    finally:
                        refused -= 1
                # Others are closed without an answer.
        finally:
            if isinstance(stream, trio.SSLStream):
                await let_go(stream)

    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, attend, list(listeners))
        task_status.started()


async def _serve(
    stream: trio.abc.Stream,
    handler: Handler,
    bounds: HttpLimits,
    goes_on: Callable[[trio.abc.Stream], bool],
    budget: RequestByteBudget,
    slot: ConnectionSlot,
) -> None:
    certificate = None
    if isinstance(stream, trio.SSLStream):
        try:
            certificate = await shake_hands(stream, bounds.handshake_seconds_max)
        except NoHandshake as error:
            log.debug("No TLS with a client: %s", error)
            return
    await HttpConnection(stream, handler, bounds, certificate, lambda: goes_on(stream), budget, slot).run()
