"""Fair queues: each owner has its own queue, and the queues are served in turn; also places that are assigned so.

    add ─► the owner's queue, in order ─┬─ next_in_turn: one item of each owner, in turn
                                        └─ of_the_largest: the oldest item of the longest queue, to be dropped

In a single queue, an owner that adds a thousand items makes all others wait for a thousand.
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
    """Owns the waiting items, by owner. The cost of a call is at most linear in the number of owners."""

    def __init__(self) -> None:
        self._by_owner: dict[Hashable, dict[T, None]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, owner: Hashable, item: T) -> None:
        """Append an item to its owner's queue; does nothing if it is queued already."""
        items = self._by_owner.setdefault(owner, {})
        self._size += item not in items
        items[item] = None

    def discard(self, owner: Hashable, item: T) -> bool:
        """Remove an item. Return True if it was queued."""
        items = self._by_owner.get(owner, {})
        if item not in items:
            return False
        del items[item]
        self._size -= 1
        if not items:
            del self._by_owner[owner]
        return True

    def next_in_turn(self) -> T | None:
        """Remove and return the oldest item of the owner whose turn it is; None if the queue is empty. The owner moves
        to the end."""
        owner = next(iter(self._by_owner), None)
        if owner is None:
            return None
        items = self._by_owner.pop(owner)
        self._by_owner[owner] = items  # behind the others
        item = next(iter(items))
        self.discard(owner, item)
        return item

    def of_the_largest(self) -> T | None:
        """Remove and return the oldest item of the owner with the most items; None if the queue is empty. Among equals
        the owner that came first loses one."""
        owner = max(self._by_owner, key=lambda one: len(self._by_owner[one]), default=None)
        if owner is None:
            return None
        item = next(iter(self._by_owner[owner]))
        self.discard(owner, item)
        return item

    def __repr__(self) -> str:
        return f"<FairQueue: {self._size} of {len(self._by_owner)} owners>"


class Crowded(Exception):
    """No place is available in time: too many callers wait, or the deadline of this one has expired."""


class _Waiter:
    """Owns the result of one waiting call."""

    def __init__(self) -> None:
        self.is_over = trio.Event()
        self.has_place = False


class FairPlaces:
    """Owns the callers that have one of ``places``, and those that wait, at most ``waiting_max``. Places are assigned
    to owners in turn. If too many wait, the oldest waiter of the owner with the most waiters is rejected."""

    def __init__(self, places: int, waiting_max: int) -> None:
        self._free = places
        self._waiting: FairQueue[_Waiter] = FairQueue()
        self._waiting_max = waiting_max

    @asynccontextmanager
    async def place(self, owner: Hashable, until: float = math.inf) -> AsyncIterator[None]:
        """Wait for a place until ``until`` (Trio's clock), and hold it for the block. Raises Crowded."""
        await self._take(owner, until)
        try:
            yield
        finally:
            self._give_on()

    async def _take(self, owner: Hashable, until: float) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._free:  # then no other caller waits
            self._free -= 1
            # Shielded: a cancellation here would lose the place, because the caller never enters its ``finally``.
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
                # The place may have been assigned in the same step in which this task was cancelled.
                if waiter.has_place:
                    self._give_on()
                raise
        if patience.cancelled_caught:
            raise Crowded("no place became free before the deadline")
        if not waiter.has_place:
            raise Crowded(f"more than {self._waiting_max} callers wait already")

    def _give_on(self) -> None:
        waiter = self._waiting.next_in_turn()
        if waiter is None:
            self._free += 1
            return
        waiter.has_place = True
        waiter.is_over.set()

    def __repr__(self) -> str:
        return f"<FairPlaces: {self._free} free, {len(self._waiting)} waiting>"
