"""Turnstile: one after another where side by side makes all late, and with a bounded wait.

Ten pods that start at once share the machine's processors: side by side all of them run at the end, two by two on two
processors the first run at once and the last hardly later. But a slow holder may be doing no work at all, a network
plugin that waits or an image on its way, so a turn lasts a moment only: a task that has waited for it so long goes in
anyway, and takes the place of the one that has been inside the longest.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Turnstile:
    """Owns the turns. Lets ``places`` (at least one) in at a time, in the order they came; none waits longer than
    ``wait_seconds_max``."""

    def __init__(self, places: int, wait_seconds_max: float) -> None:
        self._places = trio.Semaphore(places)
        self._wait_seconds_max = wait_seconds_max
        self._holders: dict[object, None] = {}

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn and have it for the length of the block."""
        holder = object()
        with trio.move_on_after(self._wait_seconds_max) as waiting:
            await self._places.acquire()
        if not waiting.cancelled_caught:
            self._holders[holder] = None
        elif self._holders:  # else its place is on its way to a task that came before
            del self._holders[next(iter(self._holders))]
            self._holders[holder] = None
        try:
            yield
        finally:
            if holder in self._holders:
                del self._holders[holder]
                self._places.release()
