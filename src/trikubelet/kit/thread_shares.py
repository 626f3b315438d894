"""Threads for many owners, each with a few of its own: an owner that hangs uses up only its own threads.

A shared pool (``kit.threads``) is exhausted once enough threads hang, unless each key has at most one thread; and that
would reject readers that could read concurrently. Here a reader waits for one of its owner's threads until its own
deadline, and readers of other owners are not affected.
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
"""Owners that have a thread at the same time. With ``EACH_MAX`` this bounds the number of threads if all hang."""


class ThreadShares:
    """Owns a pool for each recent owner; idle pools are dropped when there are many."""

    def __init__(self, name: str, each_max: int = EACH_MAX, owners_max: int = OWNERS_MAX) -> None:
        self._name = name
        self._each_max = each_max
        self._owners_max = owners_max
        self._pools: dict[str, ThreadPool] = {}

    async def run(self, owner: str, work: Callable[[], T]) -> T:
        """Do ``work`` in a thread of this owner, once one is free. If cancelled, the thread continues. Raises the
        work's exceptions, and OSError with EAGAIN if there is no thread: the kernel has none, or too many other owners
        hold one each."""
        return await self._pool(owner).run(work)

    def run_aside(self, owner: str, work: Callable[[], object]) -> None:
        """Do ``work``, for example closing files, in an abandoned thread of this owner; ``work`` raises nothing. It
        queues with the owner's other work: once all its threads hang, nothing more is opened, and the files that cannot
        be closed stay open, at most one set per reader. An owner that was dropped may close in addition to
        ``OWNERS_MAX`` others: one more thread for each reader, and a server has at most as many readers as connections.
        So the maximum is 512 threads plus those."""
        if owner not in self._pools:
            self._pools[owner] = ThreadPool(self._name, self._each_max)
        self._pools[owner].run_aside(work)

    def _pool(self, owner: str) -> ThreadPool:
        pool = self._pools.get(owner)
        if pool is None:
            if len(self._pools) >= self._owners_max:
                self._pools = {owner: pool for owner, pool in self._pools.items() if not pool.is_idle}
            if len(self._pools) >= self._owners_max:
                raise OSError(errno.EAGAIN, f"{len(self._pools)} directories already wait for their disks", owner)
            pool = self._pools[owner] = ThreadPool(self._name, self._each_max)
        return pool
