"""Threads, for what can hang: mounts, foreign file systems, slow name lookups.

Never Trio's default limiter, which everything else shares: each kind of work has a named limiter of its own, so hung
mounts exhaust only the mounts' threads. A thread takes values and returns a value. When its caller is cancelled the
thread is abandoned, not waited for; it still counts against the limiter until it ends, which is the bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class ThreadPool:
    """A named share of threads."""

    def __init__(self, name: str, threads_max: int) -> None:
        self._name = name
        self._limiter = trio.CapacityLimiter(threads_max)

    async def run(self, work: Callable[[], T]) -> T:
        """Do ``work`` in a thread. Raises what it raises."""
        return await trio.to_thread.run_sync(work, limiter=self._limiter, abandon_on_cancel=True)

    def __repr__(self) -> str:
        busy = self._limiter.borrowed_tokens
        return f"<ThreadPool {self._name}: {busy} of {self._limiter.total_tokens:g} busy>"
