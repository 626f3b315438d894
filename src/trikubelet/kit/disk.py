"""Work on the local disk, in threads: a flush may take long on a busy disk, and never ends on one that hangs.

While the event loop waits for a disk, everything waits: probes, streams, the lease. So a caller whose file must survive
a power cut writes it here, and has the result within a bounded time.
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
"""For one file, or a few that belong together. Only a disk that hangs takes longer."""


_NO_WRITES: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def takes_no_writes(error: OSError) -> bool:
    """True if the disk answers, but is full or read-only."""
    return error.errno in _NO_WRITES


async def disk_in_time(seconds: float, call: Callable[[], Awaitable[T]]) -> T:
    """Run ``call``. Raises its exceptions, and OSError with ETIMEDOUT if it takes longer than ``seconds``; it may still
    take effect later."""
    try:
        with trio.fail_after(seconds):
            return await call()
    except trio.TooSlowError as error:
        raise OSError(errno.ETIMEDOUT, f"the disk did not answer within {seconds:g} s") from error


async def on_disk(threads: ThreadPool, work: Callable[[], T], key: str = "", *, may_hang: bool = False) -> T:
    """Do ``work`` in a thread. ``key`` names the file that it changes or repeatedly reads. Until an abandoned work of
    that key has ended, no other starts: it might undo the next change, and a disk that hangs would hold one thread for
    each try. ``may_hang``: as in ``ThreadPool.run``. Raises the work's exceptions, and OSError if the disk does not
    answer (ETIMEDOUT) or an earlier work of the key has not ended (EBUSY)."""
    try:
        return await disk_in_time(DISK_SECONDS_MAX, partial(threads.run, work, key, may_hang=may_hang))
    except StillRunning as error:
        raise OSError(errno.EBUSY, str(error)) from error
