"""The usage of the node's file systems: that of the root directory, and those of the runtime's stores. The kernel is
queried each time, in separate threads, so that no pod's directories delay it."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.threads import ThreadPool
from trikubelet.model.usage import FsUsage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trikubelet.model.usage import ImageStore
    from trikubelet.ports import Gauges

log = logging.getLogger(__name__)

WAIT_SECONDS_MAX: Final = 2.0
THREADS_MAX: Final = 2


class FileSystems:
    """Measures them. Owns its threads."""

    def __init__(self, gauges: Gauges, root: Path) -> None:
        self._gauges = gauges
        self._root = root
        self._threads = ThreadPool("file systems", THREADS_MAX)

    async def root(self) -> FsUsage | None:
        """Return the usage of the root directory's disk."""
        return await self._disk(str(self._root))

    async def device(self) -> str:
        """Return that disk's device; empty if unknown."""
        try:
            with trio.fail_after(WAIT_SECONDS_MAX):
                return await self._threads.run(partial(self._gauges.device, str(self._root)))
        except (OSError, trio.TooSlowError) as error:
            log.debug("Cannot find the device of %s: %r", self._root, error)
            return ""

    async def store(self, stores: Sequence[ImageStore]) -> FsUsage | None:
        """Return the usage of the first of a runtime's stores, and its disk."""
        if not stores:
            return None
        used, disk = stores[0].usage, await self._disk(stores[0].mount_point)
        if disk is None:
            return used
        return FsUsage(
            max(used.at_ns, disk.at_ns),
            used.used_bytes,
            used.inodes_used,
            disk.available_bytes,
            disk.capacity_bytes,
            disk.inodes_free,
            disk.inodes,
            disk.file_system,
        )

    async def _disk(self, path: str) -> FsUsage | None:
        try:
            with trio.fail_after(WAIT_SECONDS_MAX):
                return await self._threads.run(partial(self._gauges.disk, path))
        except (OSError, trio.TooSlowError) as error:
            log.debug("Cannot measure the disk of %s: %r", path, error)
            return None
