"""Gather: a set of names that waits to be collected.

A wake-up in this agent carries the names of the changed objects, never their state: the woken task reads the state
itself. So wake-ups can be merged. Adding never blocks and never drops; a name that is added twice before it is
collected is collected once, so the set is never larger than the number of objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

K = TypeVar("K", bound="Hashable")


class Gather(Generic[K]):
    """Owns the names added since the last collection, in the order of their first addition."""

    def __init__(self) -> None:
        self._names: dict[K, None] = {}
        self._filled = trio.Event()

    def add(self, *names: K) -> None:
        """Add names. Never blocks."""
        self.update(names)

    def update(self, names: Iterable[K]) -> None:
        """Add names. Never blocks."""
        self._names.update(dict.fromkeys(names))
        if self._names:
            self._filled.set()

    async def collect(self) -> tuple[K, ...]:
        """Wait until there is at least one name, and take all of them. Always a checkpoint."""
        await self._filled.wait()
        self._filled = trio.Event()
        names = tuple(self._names)
        self._names.clear()
        return names

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<Gather of {len(self._names)}>"
