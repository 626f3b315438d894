"""Queues by owner, so that no owner gets more for having brought more; and places that are given out so.

    add ─► by owner, in the order it came ─┬─ next_in_turn: of each owner one, in turn
                                           └─ of_the_largest: the oldest of the owner with most, where something has to
                                           go

In a single line, an owner that brings a thousand makes all others wait for a thousand.
"""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Owns the waiting items, by owner. A call takes as many steps as there are owners at most."""

    def __init__(self) -> None:
        self._by_owner: dict[Hashable, dict[T, None]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, owner: Hashable, item: T) -> None:
        """Behind what this owner has; nothing where it is there."""
        items = self._by_owner.setdefault(owner, {})
        self._size += item not in items
        items[item] = None

    def discard(self, owner: Hashable, item: T) -> bool:
        """Take it out. Whether it was there."""
        items = self._by_owner.get(owner, {})
        if item not in items:
            return False
        del items[item]
        self._size -= 1
        if not items:
            del self._by_owner[owner]
        return True

    def next_in_turn(self) -> T | None:
        """Take out the oldest item of the owner whose turn it is, which is the last in turn then; None if there is
        none."""
        owner = next(iter(self._by_owner), None)
        if owner is None:
            return None
        items = self._by_owner.pop(owner)
        self._by_owner[owner] = items  # behind the others
        item = next(iter(items))
        self.discard(owner, item)
        return item

    def of_the_largest(self) -> T | None:
        """Take out the oldest of the owner who has most, and of several such of who came first; None where there is
        none."""
        owner = max(self._by_owner, key=lambda one: len(self._by_owner[one]), default=None)
        if owner is None:
            return None
        item = next(iter(self._by_owner[owner]))
        self.discard(owner, item)
        return item

    def __repr__(self) -> str:
        return f"<FairQueue: {self._size} of {len(self._by_owner)} owners>"


class Crowded(Exception):
    """There are more who wait for a place than may wait, or too many before this one for the time there is."""


class _Waiter:
    """Owns what became of one who waits."""

    def __init__(self) -> None:
        self.is_over = trio.Event()
        self.has_place = False


class FairPlaces:
    """Owns who has one of ``places``, and who waits for one: ``waiting_max`` at most. They are given to the owners in
    turn; where too many wait, the oldest of the owner who has most waiting is sent away."""

    def __init__(self, places: int, waiting_max: int) -> None:
        self._free = places
        self._waiting: FairQueue[_Waiter] = FairQueue()
        self._waiting_max = waiting_max

    @asynccontextmanager
    async def place(self, owner: Hashable, until: float = math.inf) -> AsyncIterator[None]:
        """Wait for a place, no longer than ``until`` (Trio's clock), and have it for the length of the block. Raises
        Crowded."""
        await self._take(owner, until)
        try:
            yield
        finally:
            self._give_on()

    async def _take(self, owner: Hashable, until: float) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._free:  # no other waits then
            self._free -= 1
            await trio.lowlevel.cancel_shielded_checkpoint()
            return
        waiter = _Waiter()
        self._waiting.add(owner, waiter)
        if len(self._waiting) > self._waiting_max and (leaves := self._waiting.of_the_largest()) is not None:
            leaves.is_over.set()
        with trio.move_on_at(until) as patience:
            try:
                await waiter.is_over.wait()
            except trio.Cancelled:
                self._waiting.discard(owner, waiter)
                if waiter.has_place:
                    self._give_on()
                raise
        if patience.cancelled_caught:
            raise Crowded("others were before it for as long as it could wait")
        if not waiter.has_place:
            raise Crowded(f"more than {self._waiting_max} wait already")

    def _give_on(self) -> None:
        waiter = self._waiting.next_in_turn()
        if waiter is None:
            self._free += 1
            return
        waiter.has_place = True
        waiter.is_over.set()

    def __repr__(self) -> str:
        return f"<FairPlaces: {self._free} free, {len(self._waiting)} waiting>"
