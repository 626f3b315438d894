"""A shared timer: many tasks woken at their times, by one timer.

A deadline of its own costs a task more than the little that many tasks do when they wake. Whoever can wait for the next
tick leaves an event here; those of one tick are woken together, so the process wakes up once for all of them.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush

import trio


class SharedTimer:
    """Owns who is to be woken at which tick. What is left here stays until its tick has come."""

    def __init__(self, seconds: float) -> None:
        assert seconds > 0
        self._seconds = seconds
        self._waiting: dict[int, list[trio.Event]] = {}
        self._ticks: list[int] = []  # a heap
        self._sooner = trio.Event()

    def wake_at(self, time: float, event: trio.Event) -> None:
        """Set the event at the first tick at that time (Trio's) or after it. Never blocks."""
        tick = math.ceil(time / self._seconds)
        if tick * self._seconds < time:  # the quotient was rounded down: who is woken too soon asks again, for ever
            tick += 1
        waiting = self._waiting.get(tick)
        if waiting is not None:
            waiting.append(event)
            return
        self._waiting[tick] = [event]
        heappush(self._ticks, tick)
        if self._ticks[0] == tick:
            self._sooner.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wake them until cancelled."""
        task_status.started()
        while True:
            self._sooner = trio.Event()
            with trio.move_on_at(self._ticks[0] * self._seconds if self._ticks else math.inf):
                await self._sooner.wait()
            while self._ticks and self._ticks[0] * self._seconds <= trio.current_time():
                for event in self._waiting.pop(heappop(self._ticks)):
                    event.set()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __repr__(self) -> str:
        return f"<SharedTimer of {self._seconds:g}s, {len(self)} to be woken>"
