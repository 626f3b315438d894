"""A shared timer: one timer that wakes many tasks at their times.

For many tasks their own deadline costs more than the work they do when they wake. A task that can wait for the next
tick waits here. The tasks of one tick are woken together, so the process wakes up once for all of them.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush
from typing import Final

import trio

_TICKS_LEFT_MAX: Final = 64
"""Ticks without waiters that may stay in the heap, in addition to as many as have waiters. Removing them only saves
memory."""


class SharedTimer:
    """Owns the waiting tasks of each tick."""

    def __init__(self, seconds: float) -> None:
        assert seconds > 0
        self._seconds = seconds
        self._waiting: dict[int, dict[trio.Event, None]] = {}
        self._ticks: list[int] = []  # a heap; may contain ticks without waiting tasks
        self._sooner = trio.Event()

    async def wait_until(self, time: float, event: trio.Event) -> None:
        """Wait for the event, which is set at the first tick at or after this time (Trio's clock), unless it is set
        earlier."""
        tick = math.ceil(time / self._seconds)
        if tick * self._seconds < time:  # rounded down: a task that is woken too early would ask again, endlessly
            tick += 1
        self._add(tick, event)
        try:
            await event.wait()
        finally:
            self._withdraw(tick, event)

    def _add(self, tick: int, event: trio.Event) -> None:
        waiting = self._waiting.get(tick)
        if waiting is not None:
            waiting[event] = None
            return
        self._waiting[tick] = {event: None}
        heappush(self._ticks, tick)
        if self._ticks[0] == tick:
            self._sooner.set()

    def _withdraw(self, tick: int, event: trio.Event) -> None:
        """Remove a task that was woken otherwise or is cancelled: its tick may be years away, and entries would pile
        up."""
        waiting = self._waiting.get(tick)
        if waiting is None or waiting.pop(event, self) is self:
            return  # the tick has fired
        if not waiting:
            del self._waiting[tick]
            if len(self._ticks) > 2 * len(self._waiting) + _TICKS_LEFT_MAX:
                self._ticks = list(self._waiting)
                heapify(self._ticks)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wake the tasks until cancelled."""
        task_status.started()
        while True:
            self._sooner = trio.Event()
            with trio.move_on_at(self._ticks[0] * self._seconds if self._ticks else math.inf):
                await self._sooner.wait()
            while self._ticks and self._ticks[0] * self._seconds <= trio.current_time():
                for event in self._waiting.pop(heappop(self._ticks), ()):
                    event.set()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __repr__(self) -> str:
        return f"<SharedTimer of {self._seconds:g}s, {len(self)} waiting>"
