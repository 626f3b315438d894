"""Threads for many owners, each with a few of its own: an owner that hangs uses up its own, and no other's.

A pool that all share (``kit.threads``) is empty once enough hang, unless each key has one thread at most; and that
refuses readers who could well read beside each other. Here a reader waits for one of its owner's threads, for as long
as its own deadline lets it, and readers of other owners do not notice.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final, TypeVar

from trikubelet.kit.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

EACH_MAX: Final = 2
OWNERS_MAX: Final = 256
"""That have a thread at the same time. With ``EACH_MAX`` it bounds how many threads there are, all of them hanging."""


class ThreadShares:
    """Owns a pool for each owner that asked lately; those that have nothing to do are forgotten when there are many."""

    def __init__(self, name: str, each_max: int = EACH_MAX, owners_max: int = OWNERS_MAX) -> None:
        self._name = name
        self._each_max = each_max
        self._owners_max = owners_max
        self._pools: dict[str, ThreadPool] = {}

    async def run(self, owner: str, work: Callable[[], T]) -> T:
        """Do ``work`` in a thread of that owner's, once it has one to spare. If cancelled, the thread goes on. Raises
        what the work raises, and OSError with EAGAIN where there is no thread: the kernel has none for us, or too many
        other owners have one each."""
        return await self._pool(owner).run(work)

    def run_aside(self, owner: str, work: Callable[[], object]) -> None:
        """Close what the owner has open, say, in an abandoned thread of that owner's; ``work`` raises nothing. It takes
        its turn with all else of that owner: once all its threads hang, nothing more is opened, and what could not be
        closed stays open, no more than there were readers then. An owner that was forgotten may close beside
        ``OWNERS_MAX`` others: that is one thread more for each reader, of which a server has as many as connections. So
        512 threads and those are all there can be."""
        if owner not in self._pools:
            self._pools[owner] = ThreadPool(self._name, self._each_max)
        self._pools[owner].run_aside(work)

    def _pool(self, owner: str) -> ThreadPool:
        pool = self._pools.get(owner)
        if pool is None:
            if len(self._pools) >= self._owners_max:
                self._pools = {owner: pool for owner, pool in self._pools.items() if not pool.is_idle}
            if len(self._pools) >= self._owners_max:
                raise OSError(errno.EAGAIN, f"{len(self._pools)} directories are waited for already", owner)
            pool = self._pools[owner] = ThreadPool(self._name, self._each_max)
        return pool
