"""The record of the last shutdown, kept beside the ending of the pods: a disk that hangs costs them none of their time.

    the agent starts ─► read, while the delay is asked for
    a shutdown begins, ends ─► its times are known at once ─► written by one task, one after another; the newest count

Nobody waits for the disk but that task, which does so as long as it takes, and ``settle``, which does not for long: the
machine goes down, and its pods are over.
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
"""So long the machine waits for its disk when all pods are over. A flush takes longer only where the disk is ill."""


class ShutdownRecord:
    """Owns the ``times`` of the last shutdown, and which of them the disk was not given yet."""

    def __init__(self) -> None:
        self.times = ShutdownTimes()
        self._unwritten: Slot[tuple[ShutdownTimes, trio.Event]] = Slot()
        self._written = trio.Event()

    async def run(self, records: ShutdownRecords) -> None:
        """Read what was kept, and write what is set, until cancelled."""
        found = await records.read()
        if self.times == ShutdownTimes():  # else a shutdown began meanwhile, and that is the last
            self.times = found
        while True:
            times, written = await self._unwritten.take()
            await _write(records, times)
            written.set()

    def set(self, times: ShutdownTimes) -> None:
        """These are the last shutdown's from now on; the disk has them later."""
        self.times, self._written = times, trio.Event()
        self._unwritten.put((times, self._written))

    async def settle(self) -> None:
        """Wait for the disk to have what was set, or to have refused it, but not long."""
        with trio.move_on_after(SETTLE_SECONDS_MAX) as time:
            await self._written.wait()
        if time.cancelled_caught:
            message = "The end of this shutdown is not recorded yet, the machine waits no longer than %g s for its disk"
            log.warning(message, SETTLE_SECONDS_MAX)

    def __repr__(self) -> str:
        return f"<ShutdownRecord of {self.times.start_time or 'never'}>"


async def _write(records: ShutdownRecords, times: ShutdownTimes) -> None:
    """What the disk refuses is lost, and that is said."""
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
