"""Threads, for what can hang: mounts, foreign file systems, slow name lookups.

Never Trio's default limiter, which everything else shares: each kind of work has a named limiter of its own, so hung
mounts exhaust only the mounts' threads. A thread takes values and returns a value. When its caller is cancelled the
thread is abandoned, not waited for; it still counts against the limiter until it ends, which is the bound.

One hung server must not eat the whole pool by being asked again and again, nor may two threads change the same thing
at once. So work may be given a key: while an abandoned thread of that key is still alive, the next one is refused.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class StillRunning(Exception):
    """An earlier thread of the same key was abandoned and has not ended. Try again later."""


class ThreadPool:
    """A named share of threads. Owns which keys have a thread; only Trio's own thread writes that."""

    def __init__(self, name: str, threads_max: int) -> None:
        self._name = name
        self._limiter = trio.CapacityLimiter(threads_max)
        self._busy: set[str] = set()

    async def run(self, work: Callable[[], T], key: str = "") -> T:
        """Do ``work`` in a thread. Raises what it raises, and StillRunning when ``key`` is given and busy."""
        if not key:
            return await trio.to_thread.run_sync(work, limiter=self._limiter, abandon_on_cancel=True)
        if key in self._busy:
            raise StillRunning(f"{key}: what was begun before has not ended yet")
        self._busy.add(key)
        begun = threading.Lock()
        token = trio.lowlevel.current_trio_token()

        def in_thread() -> T:
            if not begun.acquire(blocking=False):
                raise StillRunning(f"{key}: given up before it began")  # nobody is left to hear this
            try:
                return work()
            finally:
                self._free(key, token)

        try:
            return await trio.to_thread.run_sync(in_thread, limiter=self._limiter, abandon_on_cancel=True)
        finally:
            # Whoever gets the lock first frees the key: the thread when it ends, or we for a thread that, cancelled
            # while it waited for its turn, will now never do anything.
            if begun.acquire(blocking=False):
                self._busy.discard(key)

    def _free(self, key: str, token: trio.lowlevel.TrioToken) -> None:
        # Delivered in order, so a caller that gets the thread's result finds the key free again.
        with contextlib.suppress(trio.RunFinishedError):  # the agent went down without this thread
            token.run_sync_soon(self._busy.discard, key)

    def __repr__(self) -> str:
        busy = self._limiter.borrowed_tokens
        return f"<ThreadPool {self._name}: {busy} of {self._limiter.total_tokens:g} busy>"
