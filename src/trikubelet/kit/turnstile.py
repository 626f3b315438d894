"""Turnstile: limits concurrency where running everything at once would make everything late; the wait is bounded.

If ten pods start at once on two processors, all of them become ready at the end. Two at a time, the first become ready
at once and the last hardly later. But a slow holder may use no processor at all, because a network plugin waits or an
image is downloading. So the wait is short: a task that has waited that long enters anyway, and takes over the place of
the task that has been inside the longest.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Turnstile:
    """Owns the turns. Admits ``places`` tasks (at least one) at a time, first come, first served; no task waits longer
    than ``wait_seconds_max``."""

    def __init__(self, places: int, wait_seconds_max: float) -> None:
        self._places = trio.Semaphore(places)
        self._wait_seconds_max = wait_seconds_max
        self._holders: dict[object, None] = {}

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and hold it for the block."""
        holder = object()
        with trio.move_on_after(self._wait_seconds_max) as waiting:
            await self._places.acquire()
        if not waiting.cancelled_caught:
            self._holders[holder] = None
        elif self._holders:  # otherwise the free place is being handed to a task that waits longer
            del self._holders[next(iter(self._holders))]
            self._holders[holder] = None
        try:
            yield
        finally:
            # Without a place (it was taken over) there is nothing to release: the task that took it releases it.
            if holder in self._holders:
                del self._holders[holder]
                self._places.release()
