"""The containers of a ``World``, reached over a network in memory (``ports.Handlers``).

A path ``/NAME/WORDS…`` or a service ``NAME/WORDS…`` addresses the container of that name of the pod at the address; its
answers are described in ``testing.health``. At an address without a running sandbox connections are refused.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.model.handlers import Health, HttpAnswer, Unreachable
from trikubelet.model.runtime import ContainerState, SandboxState
from trikubelet.testing.health import answers_after, is_well, split_kind, to_nobody

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trikubelet.model.handlers import HttpTarget
    from trikubelet.model.runtime import ContainerStatus
    from trikubelet.testing.health import Listener
    from trikubelet.testing.world import World


class MemoryHandlers:
    """Owns nothing: the world has the running containers, and their start times. ``listener`` is called with every
    answer."""

    def __init__(self, world: World, listener: Listener = to_nobody) -> None:
        self._world = world
        self._listener = listener

    async def http_get(self, target: HttpTarget) -> HttpAnswer:
        """200 or 500."""
        name, *behaviour = target.path.strip("/").split("/")
        return HttpAnswer(200 if await self._asked(target.host, name, behaviour) else 500)

    def prepare_http_get(self, target: HttpTarget) -> Callable[[], Awaitable[HttpAnswer]]:
        """Return the same, to be called repeatedly."""
        return partial(self.http_get, target)

    async def tcp_connect(self, host: str, port: int) -> None:
        """Succeeds while any container of the pod runs."""
        await trio.lowlevel.checkpoint()
        if not self._running_at(host):
            raise Unreachable(f"dial tcp {host}:{port}: connect: connection refused")

    async def grpc_health(self, host: str, _port: int, service: str, _agent: str) -> Health:
        """Return SERVING or not."""
        name, *behaviour = service.split("/")
        return Health.SERVING if await self._asked(host, name, behaviour) else Health.NOT_SERVING

    async def _asked(self, host: str, name: str, said: list[str]) -> bool:
        await trio.lowlevel.checkpoint()
        kind, behaviour = split_kind(said)
        found = next((c for c in self._running_at(host) if c.name == name), None)
        if found is None:
            raise Unreachable(f"dial tcp {host}: connect: connection refused")
        deadline = trio.current_effective_deadline()
        try:
            await trio.sleep(answers_after(behaviour))
        except trio.Cancelled:
            if kind and trio.current_time() >= deadline:  # not in time; a caller that leaves before that got no answer
                self._listener(found.id, kind, False)
            raise
        well = is_well(behaviour, self._world.ran_seconds(found.id))
        if kind:
            self._listener(found.id, kind, well)
        return well

    def _running_at(self, host: str) -> list[ContainerStatus]:
        sandbox = next(
            (s for s in self._world.sandboxes.values() if host in s.ips and s.state is SandboxState.READY), None
        )
        if sandbox is None:
            return []
        here = (c for c in self._world.all_containers() if c.sandbox_id == sandbox.id)
        return [c for c in here if c.state is ContainerState.RUNNING]
