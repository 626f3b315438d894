"""When the node's pods ended for a shutdown last, on the real disk (``ports.ShutdownRecords``), at upstream's place:
``<root>/graceful_node_shutdown_state``. In threads and within a bound (``kit.disk``): a disk may hang."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.core.timestamps import parse_rfc3339
from trikubelet.kit.disk import on_disk
from trikubelet.kit.failure_log import FailureLog
from trikubelet.kit.plain_file import open_plain
from trikubelet.kit.private_file import write_privately
from trikubelet.model.shutdown_times import ShutdownTimes

if TYPE_CHECKING:
    from pathlib import Path

    from trikubelet.kit.threads import ThreadPool

log = logging.getLogger(__name__)

NAME: Final = "graceful_node_shutdown_state"
GO_NEVER: Final = "0001-01-01T00:00:00Z"
"""What upstream writes for never, and reads: a kubelet may take the node over."""
BYTES_MAX: Final = 4096
_WRITING: Final = "write when the last shutdown was"


class DiskShutdownRecords:
    """Owns the file, and whether it was said that it cannot be written."""

    def __init__(self, root: Path, threads: ThreadPool) -> None:
        self._path = root / NAME
        self._threads = threads
        self._failure_log = FailureLog()

    async def read(self) -> ShutdownTimes:
        """See ``ports.ShutdownRecords``; so for all below."""
        try:
            return await on_disk(self._threads, partial(_read, str(self._path)))
        except FileNotFoundError:
            return ShutdownTimes()
        except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors, too
            log.warning("%s cannot be read, when the last shutdown was is not known: %s", self._path, error)
            return ShutdownTimes()

    async def write(self, times: ShutdownTimes) -> None:
        try:
            written = ShutdownTimes(times.start_time or GO_NEVER, times.end_time or GO_NEVER)
            work = partial(write_privately, self._path, msgspec.json.encode(written))
            await on_disk(self._threads, work, str(self._path))
        except OSError as error:
            if self._failure_log.may_log(_WRITING):  # a disk that hangs at the shutdown's beginning does so at its end
                log.warning("%s cannot be written: %s", self._path, error)
        else:
            self._failure_log.works_again(_WRITING)

    def __repr__(self) -> str:
        return f"<DiskShutdownRecords {self._path}>"


def _read(path: str) -> ShutdownTimes:
    with open_plain(path) as file:
        found = msgspec.json.decode(file.read(BYTES_MAX), type=ShutdownTimes)
    return ShutdownTimes(_time(found.start_time), _time(found.end_time))


def _time(text: str) -> str:
    """The same, "" for never. Raises ValueError."""
    return text if text and parse_rfc3339(text) > 0 else ""
