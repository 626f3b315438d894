"""Work on the local disk, in threads: a flush may take long on a busy disk, and for ever on one that hangs.

Everything waits for what the event loop waits for: probes, streams, the lease. So a caller whose file must survive a
power cut writes it here, and has the outcome within a bound.
"""

from __future__ import annotations

import errno
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.kit.threads import StillRunning

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trikubelet.kit.threads import ThreadPool

T = TypeVar("T")

DISK_SECONDS_MAX: Final = 10.0
"""For one file, or the few that belong together. Only a disk that hangs takes longer."""


_NO_WRITES: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def takes_no_writes(error: OSError) -> bool:
    """True if the disk answers, but is full or read-only."""
    return error.errno in _NO_WRITES


async def disk_in_time(seconds: float, call: Callable[[], Awaitable[T]]) -> T:
    """Run ``call``. Raises what it raises, and OSError with ETIMEDOUT when it takes longer than ``seconds``; what it
    began may still happen."""
    try:
        with trio.fail_after(seconds):
            return await call()
    except trio.TooSlowError as error:
        raise OSError(errno.ETIMEDOUT, f"the disk did not answer within {seconds:g} s") from error


async def on_disk(threads: ThreadPool, work: Callable[[], T], key: str = "", *, may_hang: bool = False) -> T:
    """Do ``work`` in a thread. ``key`` says what it changes, or what it looks at again and again: what was given up
    there and may still happen must not undo what comes next, nor may a disk that hangs have a thread for each look. So
    nothing else of that key is begun before. ``may_hang``: as ``ThreadPool.run`` has it. Raises what the work does, and
    OSError (ETIMEDOUT, EBUSY) where the disk does not answer and where it has not done what it was asked before."""
    try:
        return await disk_in_time(DISK_SECONDS_MAX, partial(threads.run, work, key, may_hang=may_hang))
    except StillRunning as error:
        raise OSError(errno.EBUSY, str(error)) from error
