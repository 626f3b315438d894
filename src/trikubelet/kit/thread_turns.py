"""Turns of threads that compute for long: so many of them at a time, the longest waiting next.

    taken ─► compute ─► pass_on ─► computes on, at the end of the queue ─► … ─► over
                         └ no other waits: goes on at once

Each thread that computes makes the event loop wait for the interpreter, and sixteen of them for tenths of a second. A
thread that waits long for its turn, because those that have one hang in the kernel, takes the place of one of them: it
computes nothing, and has to wait as any other when it is back.
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
    """Owns which walks have a turn, since when, and which wait for one. Used by threads."""

    def __init__(self, at_once: int, hung_seconds: float = HUNG_SECONDS) -> None:
        self._at_once = at_once
        self._hung_seconds = hung_seconds
        self._changed = threading.Condition()
        self._since: dict[object, float] = {}
        self._waiting: deque[object] = deque()

    @contextmanager
    def taken(self, who: object) -> Iterator[None]:
        """A turn within the block, as soon as there is one."""
        self._take(who)
        try:
            yield
        finally:
            self._give_back(who)

    def pass_on(self, who: object) -> None:
        """Let the next have the turn, if one waits, and go on at one's next."""
        if self._waiting or who not in self._since:
            self._give_back(who)
            self._take(who)

    def _take(self, who: object) -> None:
        with self._changed:
            self._waiting.append(who)
            while not self._is_next(who):
                self._changed.wait(self._hung_seconds)
            self._waiting.popleft()
            self._since[who] = time.monotonic()
            self._changed.notify_all()  # there may be a turn for the one behind, too

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
