"""Slot: a queue of one value, the newest.

Channels between the agent's tasks must never block the producer and never lose important data. If only the newest value
matters (a source's snapshot, the newest request to a worker), the channel is a Slot: putting overwrites, taking waits.
There is one consumer; a value put while it is busy is the next one it gets.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class Slot(Generic[T]):
    """Owns one value: the newest that was put and not yet taken."""

    def __init__(self) -> None:
        self._values: list[T] = []
        self._filled = trio.Event()

    def put(self, value: T) -> None:
        """Set the value, replacing one that was not taken. Never blocks."""
        self._values[:] = [value]
        self._filled.set()

    def put_if_empty(self, value: T) -> None:
        """Set the value, unless another one waits to be taken. Never blocks."""
        if not self._values:
            self.put(value)

    async def take(self) -> T:
        """Wait for a value and take it. Always a checkpoint."""
        await self._filled.wait()
        self._filled = trio.Event()
        return self._values.pop()

    def __repr__(self) -> str:
        return f"<Slot {'full' if self._values else 'empty'}>"
