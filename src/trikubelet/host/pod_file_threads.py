"""The threads in which pods' files are created, read and removed, and their mutual exclusion.

Containers decide how much there is to remove. So removals have threads of their own, only one operation at a time
removes in a directory, and nothing is created in it meanwhile. Creating files, and reading those that containers wrote
and every status needs, waits for no removal. A log may be on a file system that hangs, so logs have a share of the
threads.
"""

from __future__ import annotations

import errno
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.kit.disk import DISK_SECONDS_MAX, disk_in_time, on_disk
from trikubelet.kit.threads import StillRunning

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.kit.threads import ThreadPool

T = TypeVar("T")

PODS: Final = "pods"
LOGS: Final = "logs"
"""The kinds: files below the root directory, and logs, whose disk may hang."""
_MAKE: Final = "make "
_LOOK: Final = "look through "
"""Prefix of the keys of creating and listing: the two pools may be one; then only the keys distinguish them from
removing."""


class PodFileThreads:
    """Owns the listings in progress, and the callers that wait for them."""

    def __init__(self, removing: ThreadPool, using: ThreadPool | None = None) -> None:
        """``removing``: the threads for removals, including logs that may hang; ``using``: those for creating and
        reading, by default the same."""
        self._removing = removing
        self._using = using or removing
        self._looking: dict[str, trio.Lock] = defaultdict(trio.Lock)

    async def make(self, work: Callable[[], object], kind: str, name: str) -> None:
        """Create files of a pod for which no other creation or removal runs: a removal would remove them with it. If
        cancelled, the thread continues. Raises the work's errors, and OSError with EBUSY."""
        if name in self._removing.running(kind):
            raise OSError(errno.EBUSY, "the leftovers of an earlier instance are still being removed", name)
        try:
            await self._using.run(work, f"{_MAKE}{kind}/{name}", may_hang=kind == LOGS)
        except StillRunning as error:
            raise OSError(errno.EBUSY, "an earlier operation on it has not ended yet", name) from error

    async def remove(self, work: Callable[[], object], kind: str, name: str) -> None:
        """Remove files for which no other removal or creation runs: a cancelled creation would put them back. If
        cancelled, the thread continues. Raises the work's errors, and OSError with EBUSY."""
        if name in self._using.running(f"{_MAKE}{kind}"):
            raise OSError(errno.EBUSY, "an earlier operation on it has not ended yet", name)
        try:
            await self._removing.run(work, f"{kind}/{name}", may_hang=kind == LOGS)
        except StillRunning as error:
            raise OSError(errno.EBUSY, "an earlier removal of it has not ended yet", name) from error

    async def read(self, work: Callable[[], T], kind: str, path: str) -> T:
        """Read a file that a container wrote. If cancelled, the thread continues, and stays the only one for that path.
        Raises the work's errors, and OSError with EBUSY."""
        try:
            return await self._using.run(work, path, may_hang=kind == LOGS)
        except StillRunning as error:
            raise OSError(errno.EBUSY, "an earlier reading of it has not ended yet", path) from error

    async def use(self, work: Callable[[], T], kind: str) -> T:
        """Run work that may run next to anything, including itself. If cancelled, the thread continues."""
        return await self._using.run(work, may_hang=kind == LOGS)

    async def look(self, work: Callable[[], T], kind: str) -> T:
        """List all files of that kind. A caller that arrives during a listing gets the next one, because the current
        one may be outdated. Raises the work's errors, OSError with ETIMEDOUT if the disk does not answer, and with
        EBUSY while a listing that timed out has not ended."""
        return await disk_in_time(DISK_SECONDS_MAX, partial(self._look_in_turn, work, kind))

    async def _look_in_turn(self, work: Callable[[], T], kind: str) -> T:
        async with self._looking[kind]:
            return await on_disk(self._using, work, f"{_LOOK}{kind}", may_hang=True)
