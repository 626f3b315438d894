"""The record of the last shutdown, written while the pods end: a disk that hangs costs them none of their time.

    the agent starts ─► read, while the delay is asked for
    a shutdown begins, ends ─► its times are known at once ─► written by one task, one after another; the newest count

Only that task waits for the disk, as long as it takes, and ``settle``, for a limited time: the machine shuts down, and
its pods are over.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.disk import DISK_SECONDS_MAX
from trikubelet.kit.slot import Slot
from trikubelet.model.shutdown_times import ShutdownTimes

if TYPE_CHECKING:
    from trikubelet.ports import ShutdownRecords

log = logging.getLogger(__name__)

SETTLE_SECONDS_MAX: Final = 2.0
"""How long the machine waits for its disk when all pods are over. A flush takes longer only on a faulty disk."""


class ShutdownRecord:
    """Owns the ``times`` of the last shutdown, and which of them are not yet on disk."""

    def __init__(self) -> None:
        self.times = ShutdownTimes()
        self._unwritten: Slot[tuple[ShutdownTimes, trio.Event]] = Slot()
        self._written = trio.Event()

    async def run(self, records: ShutdownRecords) -> None:
        """Read the kept record, and write new ones, until cancelled."""
        found = await records.read()
        if self.times == ShutdownTimes():  # else a shutdown began meanwhile, and its times are newer
            self.times = found
        while True:
            times, written = await self._unwritten.take()
            await _write(records, times)
            written.set()

    def set(self, times: ShutdownTimes) -> None:
        """Set the times of the last shutdown; they are written later."""
        self.times, self._written = times, trio.Event()
        self._unwritten.put((times, self._written))

    async def settle(self) -> None:
        """Wait until the disk has accepted or rejected the last times, for a limited time."""
        with trio.move_on_after(SETTLE_SECONDS_MAX) as time:
            await self._written.wait()
        if time.cancelled_caught:
            message = "The end of this shutdown is not recorded yet, the machine waits no longer than %g s for its disk"
            log.warning(message, SETTLE_SECONDS_MAX)

    def __repr__(self) -> str:
        return f"<ShutdownRecord of {self.times.start_time or 'never'}>"


async def _write(records: ShutdownRecords, times: ShutdownTimes) -> None:
    """Write the times; if the disk rejects them they are lost, which is logged."""
    what = "end" if times.end_time else "beginning"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_say_when_late, what)
        try:
            await records.write(times)
        except OSError as error:
            log.warning("The %s of this shutdown is not recorded: %s", what, error)
        nursery.cancel_scope.cancel()


async def _say_when_late(what: str) -> None:
    await trio.sleep(DISK_SECONDS_MAX)
    log.warning(
        "The %s of this shutdown is not recorded yet, the disk did not answer within %g s", what, DISK_SECONDS_MAX
    )
