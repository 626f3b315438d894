"""One reader's work on the files of a disk that may hang: in steps, each in a thread and with a deadline.

    run(open and list) ─► run(read) ─► run(read) ─► … ─► leave: a thread closes the open files
                             └── hangs: an error, and the caller leaves ─► the step closes them, when and if it ends

A file that is open between two steps belongs to the holder of the turn: a step, or at the end the thread that closes.
Closing may hang like reading (a FUSE server is called at each close), and a file that a thread reads can only be closed
after that thread. So the event loop neither closes files nor waits for that.
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
    """A file, or a generator that holds open files."""

    def close(self) -> None:
        """Close it. May raise OSError."""
        ...


C = TypeVar("C", bound=Closeable)


class DiskUnavailable(OSError):
    """The disk was not asked or has not answered, so its content is unknown. The errno gives the reason: it takes too
    long (ETIMEDOUT), there is no thread (EAGAIN), or an earlier step still runs (EBUSY)."""


class _Failed(NamedTuple):
    """An error that a step raised: the disk has answered."""

    error: OSError


class DiskSteps:
    """Owns the open files of one reader. The lock is held only to read two flags, so the event loop may take it."""

    def __init__(self, threads: ThreadShares, directory: str) -> None:
        """``directory``: selects the share of threads, and is named in errors."""
        self._threads = threads
        self._directory = directory
        self._open: list[Closeable] = []
        self._turn = threading.Lock()
        self._is_taken = False
        self._has_left = False

    async def run(self, step: Callable[[], T]) -> T:
        """Do one step. Raises its exceptions, and DiskUnavailable. A step that took too long or was cancelled continues
        in its thread, and no further step is possible."""
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
                del done  # otherwise the error's frames would refer to the error, a cycle
        return done

    def keep(self, thing: C) -> C:
        """Register a file to be closed at the end. Called by steps, like ``close``."""
        self._open.append(thing)
        return thing

    def close(self, thing: Closeable) -> None:
        """Close a file now."""
        self._open = [one for one in self._open if one is not thing]
        with suppress(OSError):
            thing.close()

    def leave(self) -> None:
        """End the reading: a thread closes the open files. Idempotent; waits for nothing. A step that was abandoned
        closes them when it ends, so each step must be bounded whatever is on the disk."""
        with self._turn:
            closes = not self._is_taken and not self._has_left and bool(self._open)
            self._has_left = True
        if closes:
            self._threads.run_aside(self._directory, self._close_all)

    def _in_turn(self, step: Callable[[], T]) -> T | _Failed:
        if not self._take_turn():
            raise OSError(errno.EBUSY, "an earlier operation has not ended yet", self._directory)
        try:
            return step()
        except OSError as error:
            return _Failed(error)  # returned, so that the caller can tell it from an error of ``disk_in_time``
        finally:
            if self._give_turn():
                self._close_all()

    def _take_turn(self) -> bool:
        """True if no step runs and the reading has not ended."""
        with self._turn:
            if self._is_taken or self._has_left:
                return False
            self._is_taken = True
            return True

    def _give_turn(self) -> bool:
        """True if the reading ended during this step, which must close the files then."""
        with self._turn:
            self._is_taken = False
            return self._has_left

    def _close_all(self) -> None:
        for thing in tuple(self._open):
            try:
                self.close(thing)
            except Exception:
                log.exception("%s: a bug when a file was closed; the others are closed", self._directory)
