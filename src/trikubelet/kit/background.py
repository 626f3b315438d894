"""Tasks in the background: begun by any holder of the object, from synchronous code, and held by one task in the tree.

When an agent ends, everything in it is cancelled at once. A task that had been woken just before still makes one step,
and may want to begin something in a nursery that is closed already. Trio's ``start_soon`` raises then, and the agent
would end with a traceback instead of its last message. Here nothing is begun: it would have been cancelled.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVarTuple

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

Ts = TypeVarTuple("Ts")


class BackgroundTasks:
    """Owns the nursery in which they run. An exception of a task ends it, as in any nursery."""

    def __init__(self) -> None:
        self._nursery: trio.Nursery | None = None
        self._is_over = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the tasks until cancelled. Started: some may be begun."""
        async with self.held():
            task_status.started()
            await trio.sleep_forever()

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None, None]:
        """As ``run``, within the block; at its end it waits for those that are under way."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                yield
            finally:
                # In the same step in which the block ends: the nursery may be closed after the next.
                self._nursery, self._is_over = None, True

    def start_soon(self, task: Callable[[*Ts], Awaitable[object]], *arguments: *Ts) -> None:
        """Begin a task. Does nothing when all is over."""
        if self._nursery is not None:
            self._nursery.start_soon(task, *arguments)
        else:
            assert self._is_over, "no task holds them yet: run was not started"

    def __repr__(self) -> str:
        return f"<BackgroundTasks{' that are over' if self._is_over else ''}>"
