"""When the node's pods ended for a shutdown last, on the real disk (``ports.ShutdownRecords``), at upstream's place:
``<root>/graceful_node_shutdown_state``."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.host.plain_file import open_plain
from trikubelet.kit.private_file import write_privately
from trikubelet.model.shutdown_times import ShutdownTimes

if TYPE_CHECKING:
    from pathlib import Path

    from trikubelet.kit.threads import ThreadPool

log = logging.getLogger(__name__)

NAME: Final = "graceful_node_shutdown_state"
BYTES_MAX: Final = 4096


class DiskShutdownRecords:
    """Owns the file."""

    def __init__(self, root: Path, threads: ThreadPool) -> None:
        self._path = root / NAME
        self._threads = threads

    async def read(self) -> ShutdownTimes:
        """See ``ports.ShutdownRecords``; so for all below."""
        try:
            return await self._threads.run(partial(_read, str(self._path)))
        except FileNotFoundError:
            return ShutdownTimes()
        except (OSError, msgspec.DecodeError) as error:
            log.warning("%s cannot be read, when the last shutdown was is not known: %s", self._path, error)
            return ShutdownTimes()

    async def write(self, times: ShutdownTimes) -> None:
        try:
            await self._threads.run(partial(write_privately, self._path, msgspec.json.encode(times)))
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error)

    def __repr__(self) -> str:
        return f"<DiskShutdownRecords {self._path}>"


def _read(path: str) -> ShutdownTimes:
    with open_plain(path) as file:
        return msgspec.json.decode(file.read(BYTES_MAX), type=ShutdownTimes)
