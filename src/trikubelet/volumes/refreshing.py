"""Refreshes volumes that a pod has already: those made of data are compared with their sources, and those of drivers
with ``requiresRepublish`` are published again.

    sync of a pod ─► a task for each volume, unless one runs ─┬─ all end soon ─► the sync continues
                                                              └─ one does not ─► so it does, next to the task
    pod torn down ──► the tasks are cancelled, and waited for

A running pod keeps its files, so a server, driver or disk that does not answer must not delay its restarts and kills;
but an update that comes soon is there before a container is started with it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from trikubelet.kit.background import BackgroundTasks
from trikubelet.kit.fault_barriers import FaultBarriers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

log = logging.getLogger(__name__)

WAIT_SECONDS_MAX: Final = 1.0
"""How long a sync of a pod waits for its volumes to be refreshed, all together."""


class _Task(NamedTuple):
    scope: trio.CancelScope
    done: trio.Event


class Refreshing:
    """Owns the refreshes in progress, by the pod's UID and the volume's name: one task each."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, str], _Task] = {}
        self._again: dict[tuple[str, str], Callable[[], Awaitable[None]]] = {}
        self._tasks = BackgroundTasks()
        self._barriers = FaultBarriers(log, "%s: a bug in refreshing it; it stays unchanged")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks that are started, until cancelled."""
        await self._tasks.run(task_status=task_status)

    async def refresh(self, uid: str, works: Mapping[str, Callable[[], Awaitable[None]]]) -> None:
        """Start the work of each volume, by its name, and wait for those that were started up to WAIT_SECONDS_MAX. Work
        that has not ended since an earlier sync is run once more afterwards, because it may have read old data. The
        work itself logs its errors."""
        await trio.lowlevel.checkpoint()
        begun = []
        for name, work in works.items():
            key = (uid, name)
            if key in self._under_way:
                self._again[key] = work
            else:
                task = self._under_way[key] = _Task(trio.CancelScope(), trio.Event())
                self._tasks.start_soon(self._refresh, key, work, task)
                begun.append(task.done)
        with trio.move_on_after(WAIT_SECONDS_MAX):
            for done in begun:
                await done.wait()

    async def end(self, uid: str) -> None:
        """Cancel all refreshing of a pod's volumes, because it is torn down; none runs when this returns."""
        tasks = [task for (owner, _), task in self._under_way.items() if owner == uid]
        for task in tasks:
            task.scope.cancel()
        for task in tasks:
            await task.done.wait()

    async def _refresh(self, key: tuple[str, str], work: Callable[[], Awaitable[None]], task: _Task) -> None:
        try:
            with self._barriers.of("Pod {}, volume {}".format(*key)), task.scope:
                await work()
                while again := self._again.pop(key, None):
                    await again()
        finally:
            del self._under_way[key]
            self._again.pop(key, None)
            task.done.set()

    def __repr__(self) -> str:
        return f"<Refreshing: {len(self._under_way)} under way>"
