"""Threads for operations that can hang: mounts, remote file systems, slow DNS lookups.

They never use Trio's default limiter, which all other work shares: each kind of work has its own named limiter, so hung
mounts exhaust only the mounts' threads. A thread takes values and returns a value. When its caller is cancelled, the
thread is abandoned; it counts against the limiter until it ends, which bounds the number of threads.

Retries against one hung server must not exhaust the pool, and two threads must not change the same object concurrently.
So work may have a key: while an abandoned thread of that key still runs, the next one is rejected. Work that may hang
can have its own share of threads. That share may be large, because a hanging thread costs only its stack, and then
neither kind waits for the other.

A thread that computes still delays the event loop: ``take_short_turns`` limits for how long.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.kit.log_rate_limit import LogRateLimit

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

T = TypeVar("T")

TURN_SECONDS: Final = 0.0005
"""Python's switch interval: the longest wait of a thread for a computing one. Python's default is ten times that, and
the event loop waits again after every read and write: a request took 20 ms while a thread formatted a scrape."""


def take_short_turns() -> None:
    """Shorten the turns of this process's threads, because the event loop is one of them."""
    sys.setswitchinterval(TURN_SECONDS)


class StillRunning(Exception):
    """An earlier thread of the same key was abandoned and still runs. Retry later."""


class ThreadPool:
    """Owns the keys that have a thread in a named pool; only Trio's thread changes them."""

    def __init__(self, name: str, threads_max: int, hanging_max: int = 0) -> None:
        """``hanging_max``: the threads for work that may hang; 0: it has no share of its own."""
        self._name = name
        self._limiter = trio.CapacityLimiter(threads_max)
        self._patient = trio.CapacityLimiter(hanging_max) if hanging_max else self._limiter
        self._busy: set[str] = set()
        self._exhausted_warning = LogRateLimit()

    async def run(self, work: Callable[[], T], key: str = "", *, may_hang: bool = False) -> T:
        """Do ``work`` in a thread. Raises its exceptions, StillRunning if ``key`` is given and busy, and OSError with
        EAGAIN while the kernel has no thread."""
        limiter = self._patient if may_hang else self._limiter
        if not key:
            return await self._started(work, limiter)
        if key in self._busy:
            raise StillRunning(f"{key}: an earlier operation has not ended yet")
        self._busy.add(key)
        begun = threading.Lock()  # taken once, by the thread or below, and never released
        token = trio.lowlevel.current_trio_token()

        def in_thread() -> T:
            if not begun.acquire(blocking=False):
                raise StillRunning(f"{key}: abandoned before it began")  # no caller is left to see this
            try:
                return work()
            finally:
                self._free(key, token)

        try:
            return await self._started(in_thread, limiter)
        finally:
            # The first to get the lock frees the key: the thread when it ends; or this task, if it was cancelled while
            # it waited for a thread, so that the work will never begin.
            if begun.acquire(blocking=False):
                self._busy.discard(key)

    async def _started(self, work: Callable[[], T], limiter: trio.CapacityLimiter) -> T:
        """Do ``work`` in a thread. Raises its exceptions, and OSError if no thread can be started."""
        # A container may have used up all process ids of the machine. Python raises RuntimeError then, which may also
        # be an error of the work; but that is raised only after the work has begun.
        has_begun = False

        def begun() -> T:
            nonlocal has_begun
            has_begun = True
            return work()

        try:
            return await trio.to_thread.run_sync(begun, limiter=limiter, abandon_on_cancel=True)
        except RuntimeError as error:
            if has_begun:
                raise
            if self._exhausted_warning.may_log():
                log.warning("Cannot start a thread for %s (too many processes?); retrying later", self._name)
            raise OSError(errno.EAGAIN, "cannot start a thread") from error

    def run_aside(self, work: Callable[[], object]) -> None:
        """Do ``work``, which raises nothing, in an abandoned thread, at once if one is free. If none can be started, do
        it in the calling thread."""
        turn = object()
        try:
            self._limiter.acquire_on_behalf_of_nowait(turn)
        except trio.WouldBlock:
            # A system task, because the caller is often cancelled at this point and has no nursery left.
            trio.lowlevel.spawn_system_task(self._aside_in_turn, work, turn)
        else:
            self._start_aside(work, turn)

    async def _aside_in_turn(self, work: Callable[[], object], turn: object) -> None:
        await self._limiter.acquire_on_behalf_of(turn)
        self._start_aside(work, turn)

    def _start_aside(self, work: Callable[[], object], turn: object) -> None:
        token = trio.lowlevel.current_trio_token()
        give_back = partial(self._limiter.release_on_behalf_of, turn)

        def ended(_: object) -> None:
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(give_back)

        try:
            trio.lowlevel.start_thread_soon(work, ended)
        except RuntimeError:  # no thread is available; skipping the work would leak what it closes
            work()
            give_back()

    def running(self, owner: str) -> frozenset[str]:
        """Return ``<rest>`` of each key ``<owner>/<rest>`` that has a thread, running or waiting for its turn."""
        return frozenset(key.removeprefix(f"{owner}/") for key in self._busy if key.startswith(f"{owner}/"))

    @property
    def is_idle(self) -> bool:
        """True if no thread of the pool runs, and nothing waits for one."""
        return not self._limiter.borrowed_tokens and not self._patient.borrowed_tokens

    def _free(self, key: str, token: trio.lowlevel.TrioToken) -> None:
        # Trio delivers in order, so a caller that gets the thread's result finds the key free again.
        with contextlib.suppress(trio.RunFinishedError):  # the agent ended without waiting for this thread
            token.run_sync_soon(self._busy.discard, key)

    def __repr__(self) -> str:
        shares = dict.fromkeys((self._limiter, self._patient))
        busy = " and ".join(f"{one.borrowed_tokens} of {one.total_tokens:g}" for one in shares)
        return f"<ThreadPool {self._name}: {busy} busy>"
