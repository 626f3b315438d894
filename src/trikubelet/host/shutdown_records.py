"""The record of the last shutdown of the node's pods on the real disk (``ports.ShutdownRecords``), at upstream's place:
``<root>/graceful_node_shutdown_state``. It uses threads, because a disk may hang: reading times out then
(``kit.disk``)."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.core.timestamps import parse_rfc3339
from trikubelet.kit.disk import on_disk
from trikubelet.kit.plain_file import open_plain
from trikubelet.kit.private_file import write_privately
from trikubelet.model.shutdown_times import ShutdownTimes

if TYPE_CHECKING:
    from pathlib import Path

    from trikubelet.kit.threads import ThreadPool

log = logging.getLogger(__name__)

NAME: Final = "graceful_node_shutdown_state"
GO_NEVER: Final = "0001-01-01T00:00:00Z"
"""Upstream's value for never, read and written because a kubelet may take the node over."""
BYTES_MAX: Final = 4096


class DiskShutdownRecords:
    """Owns the file."""

    def __init__(self, root: Path, threads: ThreadPool) -> None:
        self._path = root / NAME
        self._threads = threads

    async def read(self) -> ShutdownTimes:
        """See ``ports.ShutdownRecords``; so for all below."""
        try:
            return await on_disk(self._threads, partial(_read, str(self._path)))
        except FileNotFoundError:
            return ShutdownTimes()
        except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors, too
            log.warning("Cannot read %s, so the time of the last shutdown is unknown: %s", self._path, error)
            return ShutdownTimes()

    async def write(self, times: ShutdownTimes) -> None:
        written = ShutdownTimes(times.start_time or GO_NEVER, times.end_time or GO_NEVER)
        await self._threads.run(partial(write_privately, self._path, msgspec.json.encode(written)))

    def __repr__(self) -> str:
        return f"<DiskShutdownRecords {self._path}>"


def _read(path: str) -> ShutdownTimes:
    with open_plain(path) as file:
        found = msgspec.json.decode(file.read(BYTES_MAX), type=ShutdownTimes)
    return ShutdownTimes(_time(found.start_time), _time(found.end_time))


def _time(text: str) -> str:
    """Return the time in upstream's form, "" for never. Raises ValueError."""
    return text if text and parse_rfc3339(text) > 0 else ""
