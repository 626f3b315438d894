"""Background tasks: started from synchronous code by any holder of the object, and run by one task in the tree.

When an agent ends, everything in it is cancelled at once. A task that was woken just before still makes one step, and
may want to start a task in a nursery that is closed already. Trio's ``start_soon`` raises then, and the agent would end
with a traceback instead of its last message. Here that start is ignored, because the task would have been cancelled.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVarTuple

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

Ts = TypeVarTuple("Ts")


class BackgroundTasks:
    """Owns the nursery of the background tasks. An exception of a task ends it, as in any nursery."""

    def __init__(self) -> None:
        self._nursery: trio.Nursery | None = None
        self._is_over = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks until cancelled. Started once tasks may be started."""
        async with self.held():
            task_status.started()
            await trio.sleep_forever()

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None, None]:
        """Run the tasks within the block; its end waits for those in progress."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                yield
            finally:
                # Cleared in the same step in which the block ends: after the next checkpoint the nursery may be closed.
                self._nursery, self._is_over = None, True

    def start_soon(self, task: Callable[[*Ts], Awaitable[object]], *arguments: *Ts) -> None:
        """Start a task. Does nothing after ``run`` has ended."""
        if self._nursery is not None:
            self._nursery.start_soon(task, *arguments)
        else:
            assert self._is_over, "run was not started"

    def __repr__(self) -> str:
        return f"<BackgroundTasks{' (ended)' if self._is_over else ''}>"
