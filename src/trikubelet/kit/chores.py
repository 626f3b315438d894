"""Chores: the same small work for many, some side by side, and one that hangs in nobody's way.

    begin ─► waiting ─► under way ─► done: its place goes to the next
                            └──────► hangs: its place goes to the next at once, it goes on in parallel

Each chore has the name of whoever it is for, and there are never two of one name under way: what is begun for a name
meanwhile waits until that is over. So there are no more at a time than there are names, however many hang. A chore of
many steps says after each that it goes on, and does not count as hanging.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import trio

from trikubelet.kit.background import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Chores:
    """Owns which chores are under way and which wait, by the name of whoever they are for."""

    def __init__(self, places: int, hung_seconds: float) -> None:
        """``places``: chores side by side, but for those that have been at one step for ``hung_seconds``."""
        self._free = places
        self._hung_seconds = hung_seconds
        self._waiting: OrderedDict[str, Callable[[], Awaitable[object]]] = OrderedDict()
        self._under_way: dict[str, trio.CancelScope] = {}  # each ends when the place is given back
        self._tasks = BackgroundTasks()
        self._over = trio.lowlevel.ParkingLot()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Do what is begun, until cancelled. Started: chores may be begun."""
        await self._tasks.run(task_status=task_status)

    def begin(self, name: str, chore: Callable[[], Awaitable[object]]) -> None:
        """Do the chore when there is a place; in place of one of the name that still waits. Never blocks. What a chore
        raises ends ``run``."""
        self._waiting[name] = chore
        self._fill_places()

    def goes_on(self, name: str) -> None:
        """The chore of that name, which is under way, has done a step."""
        self._under_way[name].deadline = trio.current_time() + self._hung_seconds

    async def all_done(self) -> None:
        """Wait until none is under way and none waits. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while self._under_way or self._waiting:
            await self._over.park()

    def __contains__(self, name: object) -> bool:
        """Whether a chore of the name is under way or waits."""
        return name in self._under_way or name in self._waiting

    def __len__(self) -> int:
        """How many names have one under way or waiting."""
        return len(self._under_way.keys() | self._waiting.keys())

    def _fill_places(self) -> None:
        while self._free > 0 and (name := self._next()) is not None:
            self._free -= 1
            self._under_way[name] = held = trio.CancelScope(deadline=trio.current_time() + self._hung_seconds)
            self._tasks.start_soon(self._do, name, self._waiting.pop(name), held)

    def _next(self) -> str | None:
        return next((name for name in self._waiting if name not in self._under_way), None)

    async def _do(self, name: str, chore: Callable[[], Awaitable[object]], held: trio.CancelScope) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hold_place, held)
            await chore()
            held.cancel()
        del self._under_way[name]
        self._over.unpark_all()
        self._fill_places()

    async def _hold_place(self, held: trio.CancelScope) -> None:
        """Until the chore is over, or hangs."""
        with held:
            await trio.sleep_forever()
        self._free += 1
        self._fill_places()

    def __repr__(self) -> str:
        return f"<Chores: {len(self._under_way)} under way, {len(self._waiting)} wait>"
