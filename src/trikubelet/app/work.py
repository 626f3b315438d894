"""The work nursery, which ends before the services, and may get time to end the pods first.

    open_work ──► the block: tasks begun in the work ──► cancelled ──► ``last`` (if any) ──► the work is cancelled

With a runtime inside the agent, ``last`` ends the pods while everything that runs them still works. Without, or if the
work or a service has failed, the work is cancelled at once.
"""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from trikubelet.kit.shielded_nursery import open_shielded_nursery

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable


@asynccontextmanager
async def open_work(
    broken: trio.Event, last: Callable[[], Awaitable[None]] | None
) -> AsyncGenerator[tuple[trio.Nursery, trio.Nursery]]:
    """Yield two nurseries, both open until the caller is cancelled: one that ends then, and the work, which continues
    while ``last`` runs. ``broken``: a service has ended, so the work cannot continue. ``last`` bounds its own time."""
    async with trio.open_nursery() as nursery:
        shielded = await open_shielded_nursery(nursery)
        is_ending = trio.Event()

        async def end() -> None:
            # In the work's own nursery: if a part of the work has failed, this is cancelled with it.
            await is_ending.wait()
            if last is not None:
                await last()
            shielded.cancel()

        async def give_up() -> None:
            await broken.wait()
            shielded.cancel()

        try:
            shielded.nursery.start_soon(end)
            shielded.nursery.start_soon(give_up)
            yield nursery, shielded.nursery
            await trio.sleep_forever()
        finally:
            if trio.current_effective_deadline() == -math.inf:  # cancelled, rather than failed in the block
                is_ending.set()
            else:
                shielded.cancel()
