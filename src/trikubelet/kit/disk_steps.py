"""One reader's work on files of a disk that may hang: step by step, each of them in a thread and with a deadline.

    run(open and list) ─► run(read) ─► run(read) ─► … ─► leave: a thread closes what is open
                             └── hangs: an error, and who waited leaves ─► the step closes, when and if it ends

A file that is open between two steps belongs to the holder of the turn: a step, or at the end the one that closes.
Closing may hang as reading does (FUSE is asked at each close), and a file that a thread reads waits to be closed for
that thread. So the event loop neither closes anything nor waits for it.
"""

from __future__ import annotations

import errno
import logging
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from trikubelet.kit.disk import DISK_SECONDS_MAX, disk_in_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.kit.thread_shares import ThreadShares

log = logging.getLogger(__name__)

T = TypeVar("T")


class Closeable(Protocol):
    """A file, or a generator that has some open."""

    def close(self) -> None:
        """Close it. May raise OSError."""
        ...


C = TypeVar("C", bound=Closeable)


class DiskUnavailable(OSError):
    """The disk was not asked, or has not answered: nothing is known of what is on it. The error's number says why: it
    takes too long (ETIMEDOUT), there is no thread (EAGAIN), or an earlier step goes on (EBUSY)."""


class _Failed(NamedTuple):
    """The disk has answered: a step raised this."""

    error: OSError


class DiskSteps:
    """Owns what one reader has open. The lock is held for no longer than it takes to look at two flags."""

    def __init__(self, threads: ThreadShares, directory: str) -> None:
        """``directory``: whose threads are used, and what an error names."""
        self._threads = threads
        self._directory = directory
        self._open: list[Closeable] = []
        self._turn = threading.Lock()
        self._is_taken = False
        self._has_left = False

    async def run(self, step: Callable[[], T]) -> T:
        """Do one step. Raises what it raises, and DiskUnavailable. When the disk was too slow, or a cancellation gave a
        step up, it goes on, and there is no other."""
        try:
            done = await disk_in_time(
                DISK_SECONDS_MAX, partial(self._threads.run, self._directory, partial(self._in_turn, step))
            )
        except OSError as error:
            raise DiskUnavailable(error.errno, error.strerror, error.filename or self._directory) from error
        if isinstance(done, _Failed):
            try:
                raise done.error
            finally:
                del done  # else the error's frames would hold the error
        return done

    def keep(self, thing: C) -> C:
        """Have it closed at the end, unless ``close`` does before. For steps, as ``close``."""
        self._open.append(thing)
        return thing

    def close(self, thing: Closeable) -> None:
        """Close it now."""
        self._open = [one for one in self._open if one is not thing]
        with suppress(OSError):
            thing.close()

    def leave(self) -> None:
        """Nothing more is read: what is open is closed, in a thread. Idempotent, and waits for nothing. A step that was
        given up closes it when it ends; so what a step does is bounded, whatever is on the disk."""
        with self._turn:
            closes = not self._is_taken and not self._has_left and bool(self._open)
            self._has_left = True
        if closes:
            self._threads.run_aside(self._directory, self._close_all)

    def _in_turn(self, step: Callable[[], T]) -> T | _Failed:
        if not self._take_turn():
            raise OSError(errno.EBUSY, "what was begun before has not ended yet", self._directory)
        try:
            return step()
        except OSError as error:
            return _Failed(error)
        finally:
            if self._give_turn():
                self._close_all()

    def _take_turn(self) -> bool:
        """True if it could be taken."""
        with self._turn:
            if self._is_taken or self._has_left:
                return False
            self._is_taken = True
            return True

    def _give_turn(self) -> bool:
        """True if it was the last one."""
        with self._turn:
            self._is_taken = False
            return self._has_left

    def _close_all(self) -> None:
        for thing in tuple(self._open):
            try:
                self.close(thing)
            except Exception:
                log.exception("%s: a bug when a file was closed; the others are closed", self._directory)
