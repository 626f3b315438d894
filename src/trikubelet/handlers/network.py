"""The real network, as probes and hooks ask it."""

from __future__ import annotations

import trio

from trikubelet.handlers.dial import dial
from trikubelet.handlers.grpc_health import grpc_health
from trikubelet.handlers.http_get import http_get


class NetworkHandlers:
    """Asks containers from the node's own network (``ports.Handlers``). Owns nothing."""

    http_get = staticmethod(http_get)
    grpc_health = staticmethod(grpc_health)

    async def tcp_connect(self, host: str, port: int) -> None:
        """Open a connection, and close it. Raises Unreachable."""
        (await dial(host, port)).close()
        await trio.lowlevel.checkpoint()
