"""Threads, for what can hang: mounts, remote file systems, slow DNS lookups.

Never Trio's default limiter, which everything else shares: each kind of work has a named limiter of its own, so hung
mounts exhaust only the mounts' threads. A thread takes values and returns a value. When its caller is cancelled the
thread is abandoned, not waited for; it still counts against the limiter until it ends, which is the bound.

One hung server must not eat the whole pool by being asked again and again, nor may two threads change the same thing at
once. So work may be given a key: while an abandoned thread of that key is still alive, the next one is refused. Work
that may hang can have a share of its own beside that of what cannot: it may be large, since a hanging thread costs a
stack and nothing else, and then neither waits for the other.

A thread that computes keeps the event loop from computing all the same: ``take_short_turns`` limits for how long.
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
"""So long a thread that has something to do waits for another to let it, at most. Python's own is ten times that, and
the event loop waits again after every read and write: a request took 20 ms while a thread spelled out a scrape."""


def take_short_turns() -> None:
    """Let the threads of this process take short turns, for the event loop is one of them."""
    sys.setswitchinterval(TURN_SECONDS)


class StillRunning(Exception):
    """An earlier thread of the same key was abandoned and has not ended. Try again later."""


class ThreadPool:
    """Owns which keys of a named share of threads have one; only Trio's own thread writes that."""

    def __init__(self, name: str, threads_max: int, hanging_max: int = 0) -> None:
        """``hanging_max``: the share of what may hang; 0: it has none of its own."""
        self._name = name
        self._limiter = trio.CapacityLimiter(threads_max)
        self._patient = trio.CapacityLimiter(hanging_max) if hanging_max else self._limiter
        self._busy: set[str] = set()
        self._exhausted_warning = LogRateLimit()

    async def run(self, work: Callable[[], T], key: str = "", *, may_hang: bool = False) -> T:
        """Do ``work`` in a thread. Raises what it raises, StillRunning when ``key`` is given and busy, and OSError with
        EAGAIN while the kernel has no thread for us."""
        limiter = self._patient if may_hang else self._limiter
        if not key:
            return await self._started(work, limiter)
        if key in self._busy:
            raise StillRunning(f"{key}: what was begun before has not ended yet")
        self._busy.add(key)
        begun = threading.Lock()  # taken once, by the thread or below, and never released
        token = trio.lowlevel.current_trio_token()

        def in_thread() -> T:
            if not begun.acquire(blocking=False):
                raise StillRunning(f"{key}: given up before it began")  # no caller is left to hear this
            try:
                return work()
            finally:
                self._free(key, token)

        try:
            return await self._started(in_thread, limiter)
        finally:
            # The first to get the lock frees the key: the thread when it ends, or we for a thread that, cancelled while
            # it waited for its turn, will now never do anything.
            if begun.acquire(blocking=False):
                self._busy.discard(key)

    async def _started(self, work: Callable[[], T], limiter: trio.CapacityLimiter) -> T:
        """A container may have taken every process number that the machine has, so that no thread can be started. To
        Python that is a RuntimeError, and so may a bug in the work be; but the work raises only once it began."""
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
                log.warning("No thread can be started for %s, are there too many processes? Will try again", self._name)
            raise OSError(errno.EAGAIN, "no thread can be started") from error

    def run_aside(self, work: Callable[[], object]) -> None:
        """Do ``work``, which raises nothing, in an abandoned thread: at once if one is free. Where none can be started
        it is done here."""
        turn = object()
        try:
            self._limiter.acquire_on_behalf_of_nowait(turn)
        except trio.WouldBlock:
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
        except RuntimeError:  # no thread can be started
            work()
            give_back()

    def running(self, owner: str) -> frozenset[str]:
        """The keys ``<owner>/<rest>`` that have a thread, begun or waiting for its turn: of each the rest."""
        return frozenset(key.removeprefix(f"{owner}/") for key in self._busy if key.startswith(f"{owner}/"))

    @property
    def is_idle(self) -> bool:
        """True if no thread of it is at work, and nothing waits for one."""
        return not self._limiter.borrowed_tokens and not self._patient.borrowed_tokens

    def _free(self, key: str, token: trio.lowlevel.TrioToken) -> None:
        # Delivered in order, so a caller that gets the thread's result finds the key free again.
        with contextlib.suppress(trio.RunFinishedError):  # the agent went down without this thread
            token.run_sync_soon(self._busy.discard, key)

    def __repr__(self) -> str:
        shares = dict.fromkeys((self._limiter, self._patient))
        busy = " and ".join(f"{one.borrowed_tokens} of {one.total_tokens:g}" for one in shares)
        return f"<ThreadPool {self._name}: {busy} busy>"
