"""Turns for threads that compute for a long time: a limited number at a time, first come, first served.

    taken ─► compute ─► pass_on ─► waits at the end of the queue ─► computes ─► … ─► end
                         └ no other thread waits: continues at once

Each computing thread makes the event loop wait for the interpreter, and sixteen of them for tenths of a second. If a
thread waits long because the holders hang in the kernel, it takes over the turn of one of them: a thread that hangs
computes nothing, and queues like any other when it returns.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

HUNG_SECONDS: Final = 1.0


class ThreadTurns:
    """Owns the threads that have a turn, since when, and those that wait. Called by threads."""

    def __init__(self, at_once: int, hung_seconds: float = HUNG_SECONDS) -> None:
        self._at_once = at_once
        self._hung_seconds = hung_seconds
        self._changed = threading.Condition()
        self._since: dict[object, float] = {}
        self._waiting: deque[object] = deque()

    @contextmanager
    def taken(self, who: object) -> Iterator[None]:
        """Wait for a turn, and hold it for the block."""
        self._take(who)
        try:
            yield
        finally:
            self._give_back(who)

    def pass_on(self, who: object) -> None:
        """Pass the turn on if another thread waits, and wait for the next one."""
        # Without a turn (it was taken over while this thread hung) it has to queue, even if no other waits.
        if self._waiting or who not in self._since:
            self._give_back(who)
            self._take(who)

    def _take(self, who: object) -> None:
        with self._changed:
            self._waiting.append(who)
            while not self._is_next(who):
                self._changed.wait(self._hung_seconds)  # also wakes to see if a holder hangs: no event reports that
            self._waiting.popleft()
            self._since[who] = time.monotonic()
            self._changed.notify_all()  # the next in the queue may have a turn, too

    def _is_next(self, who: object) -> bool:
        if self._waiting[0] is not who:
            return False
        if len(self._since) >= self._at_once:
            longest = min(self._since, key=self._since.__getitem__)
            if time.monotonic() - self._since[longest] <= self._hung_seconds:
                return False
            del self._since[longest]
        return True

    def _give_back(self, who: object) -> None:
        with self._changed:
            self._since.pop(who, None)
            self._changed.notify_all()

    def __repr__(self) -> str:
        return f"<ThreadTurns: {len(self._since)} of {self._at_once} taken, {len(self._waiting)} wait>"
