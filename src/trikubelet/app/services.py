"""The services nursery: tasks that outlive the work, so that the work can shut down cleanly.

    open_services ──► start(name, run) … ──► the block: the work ──► end of the block: services are ended

Services are shielded from the caller's cancellation; the work inside the block is not, ends first, and may still use
them. A service that ends by itself is a broken invariant and ends the process.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from trikubelet.kit.barrier import InvariantBroken
from trikubelet.kit.shielded_nursery import open_shielded_nursery

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from trikubelet.kit.shielded_nursery import ShieldedNursery


class Services:
    """Owns the services' nursery. ``broken`` is set when a service has ended before ``end``: the work cannot go on."""

    def __init__(self, shielded: ShieldedNursery) -> None:
        self._shielded = shielded
        self._is_ending = False
        self.broken = trio.Event()

    async def start(self, name: str, run: Callable[..., Awaitable[None]]) -> Any:
        """Start one, wait until it is ready, and return what it passed to ``started``. Raises its errors until then."""

        async def kept(*, task_status: trio.TaskStatus[Any]) -> None:
            try:
                await run(task_status=task_status)
                raise InvariantBroken(f"the {name} has ended by itself")
            finally:
                if not self._is_ending:
                    self.broken.set()

        return await self._shielded.nursery.start(kept)

    def end(self) -> None:
        """Cancel them all. A service that needs to clean up shields that itself, with a deadline."""
        self._is_ending = True
        self._shielded.cancel()


@asynccontextmanager
async def open_services() -> AsyncGenerator[Services, None]:
    """Services for the length of the block, which they outlive."""
    async with trio.open_nursery() as nursery:
        services = Services(await open_shielded_nursery(nursery))
        try:
            yield services
        finally:
            services.end()
