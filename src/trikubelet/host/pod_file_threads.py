"""The threads in which pods' files are made, read and removed: what may run beside what.

Containers decide how much there is to remove. So that has threads of its own, and of one directory one thing at a time
is removed, and nothing is made while it is. Making files, and reading those that containers wrote and every status
needs, waits for no removal; and a log may lie on a file system that hangs, for which there is a share of the threads.
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
"""The kinds: what is below the root directory, and logs, whose disk may hang."""
_MAKE: Final = "make "
_LOOK: Final = "look through "
"""Before the key of what makes or looks: the two pools may be one; then only the keys distinguish it from removing."""


class PodFileThreads:
    """Owns who looks through a directory, and who waits until he may."""

    def __init__(self, removing: ThreadPool, using: ThreadPool | None = None) -> None:
        """``removing``: the threads that remove, logs among those that may hang; ``using``: those that make and read,
        by default the same."""
        self._removing = removing
        self._using = using or removing
        self._looking: dict[str, trio.Lock] = defaultdict(trio.Lock)

    async def make(self, work: Callable[[], object], kind: str, name: str) -> None:
        """Make something of a pod of which nothing else is being made, nor removed: it would be removed with it. If
        cancelled, the thread goes on. Raises what the work does, and OSError with EBUSY."""
        if name in self._removing.running(kind):
            raise OSError(errno.EBUSY, "what was left of an earlier life is still being removed", name)
        try:
            await self._using.run(work, f"{_MAKE}{kind}/{name}", may_hang=kind == LOGS)
        except StillRunning as error:
            raise OSError(errno.EBUSY, "what was begun for it earlier has not ended yet", name) from error

    async def remove(self, work: Callable[[], object], kind: str, name: str) -> None:
        """Remove something that is not being removed already, nor made: a making that was given up would put it back.
        If cancelled, the thread goes on. Raises what the work does, and OSError with EBUSY."""
        if name in self._using.running(f"{_MAKE}{kind}"):
            raise OSError(errno.EBUSY, "what was begun for it earlier has not ended yet", name)
        try:
            await self._removing.run(work, f"{kind}/{name}", may_hang=kind == LOGS)
        except StillRunning as error:
            raise OSError(errno.EBUSY, "an earlier removal of it has not ended yet", name) from error

    async def read(self, work: Callable[[], T], kind: str, path: str) -> T:
        """Read what a container wrote. If cancelled, the thread goes on, and stays the only one for that path. Raises
        what the work does, and OSError with EBUSY."""
        try:
            return await self._using.run(work, path, may_hang=kind == LOGS)
        except StillRunning as error:
            raise OSError(errno.EBUSY, "an earlier reading of it has not ended yet", path) from error

    async def use(self, work: Callable[[], T], kind: str) -> T:
        """Do what may run beside anything, also itself. If cancelled, the thread goes on."""
        return await self._using.run(work, may_hang=kind == LOGS)

    async def look(self, work: Callable[[], T], kind: str) -> T:
        """Look through all that is there of that kind. Who asks while somebody looks has his turn after him: what was
        seen before he asked may be old. Raises what the work does, OSError with ETIMEDOUT where the disk does not
        answer, and with EBUSY while a look that was given up has not ended."""
        return await disk_in_time(DISK_SECONDS_MAX, partial(self._look_in_turn, work, kind))

    async def _look_in_turn(self, work: Callable[[], T], kind: str) -> T:
        async with self._looking[kind]:
            return await on_disk(self._using, work, f"{_LOOK}{kind}", may_hang=True)
