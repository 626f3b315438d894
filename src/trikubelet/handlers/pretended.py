"""The containers of a runtime that only pretends, asked over the network (``ports.Handlers``): all is well.

Nothing runs there, and nobody listens at the addresses. A pod that is probed is to be as ready on such a node as any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.model.handlers import Health, HttpAnswer

if TYPE_CHECKING:
    from trikubelet.model.handlers import HttpTarget


class PretendedHandlers:
    """Owns nothing."""

    async def http_get(self, _target: HttpTarget) -> HttpAnswer:
        """200, with nothing in it."""
        await trio.lowlevel.checkpoint()
        return HttpAnswer(200)

    async def tcp_connect(self, _host: str, _port: int) -> None:
        """As if it had been opened."""
        await trio.lowlevel.checkpoint()

    async def grpc_health(self, _host: str, _port: int, _service: str, _agent: str) -> Health:
        """SERVING."""
        await trio.lowlevel.checkpoint()
        return Health.SERVING
