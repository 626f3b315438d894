"""A shared timer: many tasks woken at their times, by one timer.

A deadline of its own costs a task more than the little that many tasks do when they wake. A task that can wait for the
next tick waits here; those of one tick are woken together, so the process wakes up once for all of them.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush
from typing import Final

import trio

_TICKS_LEFT_MAX: Final = 64
"""Beside as many as are waited for: what they are swept out for is memory, not order."""


class SharedTimer:
    """Owns who is to be woken at which tick."""

    def __init__(self, seconds: float) -> None:
        assert seconds > 0
        self._seconds = seconds
        self._waiting: dict[int, dict[trio.Event, None]] = {}
        self._ticks: list[int] = []  # a heap, in which may be left ticks without waiting tasks
        self._sooner = trio.Event()

    async def wait_until(self, time: float, event: trio.Event) -> None:
        """Wait for the event, which is set at the first tick at that time (Trio's) or after it, unless it is set
        before."""
        tick = math.ceil(time / self._seconds)
        if tick * self._seconds < time:  # the quotient was rounded down: a task woken too soon asks again, for ever
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
        """Remove a task that was woken otherwise, or waits no more: the tick may be years away, and they come again."""
        waiting = self._waiting.get(tick)
        if waiting is None or waiting.pop(event, self) is self:
            return  # the tick has come
        if not waiting:
            del self._waiting[tick]
            if len(self._ticks) > 2 * len(self._waiting) + _TICKS_LEFT_MAX:
                self._ticks = list(self._waiting)
                heapify(self._ticks)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wake them until cancelled."""
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
        return f"<SharedTimer of {self._seconds:g}s, {len(self)} to be woken>"
