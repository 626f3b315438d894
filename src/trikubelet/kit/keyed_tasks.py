"""Keyed tasks: one at a time of each name, so many concurrently, and one that hangs delays no other.

    begin ─► waiting ─► running ─► done: its slot goes to the next
                            └────► hangs: its slot goes to the next at once, it runs on beside it

Each task has the name of what it is for, and there are never two of one name running: what is begun for a name
meanwhile waits until that is over. So there are no more at a time than there are names, however many hang. A task of
many steps says after each that it made progress, and does not count as hanging.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import trio

from trikubelet.kit.background import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class KeyedTasks:
    """Owns which tasks run and which wait, by the name of what they are for."""

    def __init__(self, slots: int, hung_seconds: float) -> None:
        """``slots``: tasks that run concurrently, without those that have been at one step for ``hung_seconds``."""
        self._free = slots
        self._hung_seconds = hung_seconds
        self._waiting: OrderedDict[str, Callable[[], Awaitable[object]]] = OrderedDict()
        self._running: dict[str, trio.CancelScope] = {}  # each ends when the slot is given back
        self._tasks = BackgroundTasks()
        self._over = trio.lowlevel.ParkingLot()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Do what is begun, until cancelled. Started: tasks may be begun."""
        await self._tasks.run(task_status=task_status)

    def begin(self, name: str, task: Callable[[], Awaitable[object]]) -> None:
        """Run the task when there is a slot; the newest of a name wins, and one that still waits is never run. Never
        blocks. An exception of a task ends ``run``."""
        self._waiting[name] = task
        self._fill_slots()

    def made_progress(self, name: str) -> None:
        """The task of that name, which runs, has done a step."""
        self._running[name].deadline = trio.current_time() + self._hung_seconds

    async def all_done(self) -> None:
        """Wait until none runs and none waits. Always a checkpoint."""
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
        del self._running[name]
        self._over.unpark_all()
        self._fill_slots()

    async def _hold_slot(self, held: trio.CancelScope) -> None:
        """Until the task is over, or hangs."""
        with held:
            await trio.sleep_forever()
        self._free += 1
        self._fill_slots()

    def __repr__(self) -> str:
        return f"<KeyedTasks: {len(self._running)} running, {len(self._waiting)} wait>"
