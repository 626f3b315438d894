"""Keyed tasks: one at a time per name, a limited number concurrently, and a task that hangs delays no other.

    begin ─► waiting ─► running ─► done: its slot goes to the next
                            └────► hangs: its slot goes to the next at once; it continues without a slot

Each task has the name of its object, and two tasks of one name never run concurrently: a new task for a name waits
until the running one ends. So there are at most as many tasks as names, however many hang. A task with many steps
reports its progress after each, and then does not count as hanging.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import trio

from trikubelet.kit.background import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class KeyedTasks:
    """Owns the running and the waiting tasks, by the name of their object."""

    def __init__(self, slots: int, hung_seconds: float) -> None:
        """``slots``: the number of concurrent tasks, not counting those whose current step takes longer than
        ``hung_seconds``."""
        self._free = slots
        self._hung_seconds = hung_seconds
        self._waiting: OrderedDict[str, Callable[[], Awaitable[object]]] = OrderedDict()
        self._running: dict[str, trio.CancelScope] = {}  # each scope ends when its slot is released
        self._tasks = BackgroundTasks()
        self._over = trio.lowlevel.ParkingLot()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks until cancelled. Started once tasks may be begun."""
        await self._tasks.run(task_status=task_status)

    def begin(self, name: str, task: Callable[[], Awaitable[object]]) -> None:
        """Run the task when a slot is free. A newer task of the same name replaces one that still waits. Never blocks.
        An exception of a task ends ``run``."""
        self._waiting[name] = task
        self._fill_slots()

    def made_progress(self, name: str) -> None:
        """Record that the running task of that name has finished a step."""
        self._running[name].deadline = trio.current_time() + self._hung_seconds

    async def all_done(self) -> None:
        """Wait until no task runs or waits. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while self._running or self._waiting:
            await self._over.park()

    def __contains__(self, name: object) -> bool:
        """True if a task of the name runs or waits."""
        return name in self._running or name in self._waiting

    def __len__(self) -> int:
        """The number of names with a task that runs or waits."""
        return len(self._running.keys() | self._waiting.keys())

    def _fill_slots(self) -> None:
        while self._free > 0 and (name := self._next()) is not None:
            self._free -= 1
            self._running[name] = held = trio.CancelScope(deadline=trio.current_time() + self._hung_seconds)
            self._tasks.start_soon(self._do, name, self._waiting.pop(name), held)

    def _next(self) -> str | None:
        return next((name for name in self._waiting if name not in self._running), None)

    async def _do(self, name: str, task: Callable[[], Awaitable[object]], held: trio.CancelScope) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hold_slot, held)
            await task()
            held.cancel()
        # Only here: the name stays taken while a task without a slot still runs.
        del self._running[name]
        self._over.unpark_all()
        self._fill_slots()

    async def _hold_slot(self, held: trio.CancelScope) -> None:
        """Hold the slot until the task ends, or hangs."""
        with held:
            await trio.sleep_forever()
        # The one place that releases a slot: the scope ends once, by its deadline or when the task has ended.
        self._free += 1
        self._fill_slots()

    def __repr__(self) -> str:
        return f"<KeyedTasks: {len(self._running)} running, {len(self._waiting)} wait>"
