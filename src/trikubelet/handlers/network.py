"""The network over which probes and hooks ask containers (``ports.Handlers``): the real one, and one where all is well.

The second is for a fake runtime. Nothing runs there, and no server listens at the addresses; a pod that is probed is to
be as ready on such a node as any.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.handlers.dial import dial
from trikubelet.handlers.grpc_health import grpc_health
from trikubelet.handlers.http_get import HttpGet, http_get
from trikubelet.model.handlers import Health, HttpAnswer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trikubelet.model.handlers import HttpTarget


class NetworkHandlers:
    """Asks containers from the node's own network (``ports.Handlers``). Owns nothing."""

    http_get = staticmethod(http_get)
    prepare_http_get = staticmethod(HttpGet)
    grpc_health = staticmethod(grpc_health)

    async def tcp_connect(self, host: str, port: int) -> None:
        """Open a connection, and close it. Raises Unreachable."""
        (await dial(host, port)).close()
        await trio.lowlevel.checkpoint()


class FakeHandlers:
    """Sends nothing, and answers that all is well (``ports.Handlers``). Owns nothing."""

    async def http_get(self, _target: HttpTarget) -> HttpAnswer:
        """200, with nothing in it."""
        await trio.lowlevel.checkpoint()
        return HttpAnswer(200)

    def prepare_http_get(self, target: HttpTarget) -> Callable[[], Awaitable[HttpAnswer]]:
        """There is nothing to prepare."""
        return partial(self.http_get, target)

    async def tcp_connect(self, _host: str, _port: int) -> None:
        """As if it had been opened."""
        await trio.lowlevel.checkpoint()

    async def grpc_health(self, _host: str, _port: int, _service: str, _agent: str) -> Health:
        """SERVING."""
        await trio.lowlevel.checkpoint()
        return Health.SERVING
