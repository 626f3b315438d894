"""Decides when what changed is written to the offline store, so that a quiet node's disk rests.

    a change ─► the same as on the disk? nothing ─► urgent? at once ─► else gathered for 2 s
                changed again soon after a write: 60 s after it, 2 min, … 15 min; a token: 12 h

Only what means something else is a change: its digest tells. Beyond a day's bytes the rest of the day is written in
hourly batches, but for what is urgent. Times are seconds of any clock that only goes forward. (docs/decisions/0046)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from trikubelet.model.offline_records import RecordKey, Shelf

if TYPE_CHECKING:
    from collections.abc import Collection

GATHER_SECONDS: Final = 2.0
AGAIN_SECONDS_MIN: Final = 60.0
AGAIN_SECONDS_MAX: Final = 900.0
TOKEN_SECONDS: Final = 12 * 3600.0
"""An API server's automounted token is good for a year, whatever shorter life it shows to the node."""
DAY_SECONDS: Final = 24 * 3600.0
DAY_BYTES_MAX: Final = 64 * 1024 * 1024
BATCH_SECONDS: Final = 3600.0
WRITE_BYTES: Final = 20 * 1024
"""The blocks of a journal, a directory and an inode that a file costs beside its content (measured on ext4)."""


class Urgency(Enum):
    """How soon a change must be on the disk."""

    AT_ONCE = "at once"
    GATHERED = "gathered"


@dataclass(slots=True)
class _Pace:
    """The writes of one record. ``digest``: on the disk; ``waiting``: to be written, None if nothing is."""

    digest: bytes = b""
    written_at: float = float("-inf")
    again_seconds: float = 0.0
    waiting: bytes | None = None
    is_urgent: bool = False
    due_at: float = 0.0


class WritePace:
    """Owns what of each record is on the disk, and when its next write is due."""

    def __init__(self) -> None:
        self._paces: dict[RecordKey, _Pace] = {}
        self._day_began = float("-inf")
        self._day_bytes = 0

    def known(self, key: RecordKey, digest: bytes) -> None:
        """Note what was on the disk when the agent started."""
        self._paces[key] = _Pace(digest)

    def changed(self, key: RecordKey, digest: bytes, now: float, urgency: Urgency) -> bool:
        """Note what a record is now. Return false if it is on the disk already, so that nothing is due."""
        pace = self._paces.setdefault(key, _Pace())
        if digest == pace.digest:
            pace.waiting, pace.is_urgent = None, False
            return False
        if pace.waiting is None:
            pace.due_at = max(now + GATHER_SECONDS, pace.written_at + pace.again_seconds)
        pace.waiting = digest
        pace.is_urgent |= urgency is Urgency.AT_ONCE
        return True

    def forgotten(self, key: RecordKey) -> None:
        """Forget a record that is removed, or is not to be written any more."""
        self._paces.pop(key, None)

    def due(self, now: float) -> Collection[RecordKey]:
        """Return the records that are to be written now."""
        return [key for key, pace in self._paces.items() if pace.waiting is not None and self._due_at(pace, now) <= now]

    def next_at(self, now: float) -> float:
        """Return when the next write is due; infinity if nothing waits."""
        times = [self._due_at(pace, now) for pace in self._paces.values() if pace.waiting is not None]
        return min(times, default=float("inf"))

    def written(self, key: RecordKey, digest: bytes, size: int, now: float) -> None:
        """Note that the record was written as it was with that digest; it may have changed since."""
        pace = self._paces.setdefault(key, _Pace())
        rest = AGAIN_SECONDS_MIN
        if key.shelf is Shelf.TOKENS:
            rest = TOKEN_SECONDS
        elif now - pace.written_at < 2 * pace.again_seconds:
            rest = min(2 * pace.again_seconds, AGAIN_SECONDS_MAX)
        pace.digest, pace.written_at, pace.again_seconds = digest, now, rest
        if pace.waiting == digest:
            pace.waiting, pace.is_urgent = None, False
        else:
            pace.due_at = now + rest
        if now - self._day_began >= DAY_SECONDS:
            self._day_began, self._day_bytes = now, 0
        self._day_bytes += size + WRITE_BYTES

    def refused(self, key: RecordKey, now: float) -> None:
        """Note that the store has no room for the record, which may change."""
        pace = self._paces.setdefault(key, _Pace())
        pace.due_at, pace.is_urgent = now + AGAIN_SECONDS_MAX, False

    def is_over_budget(self, now: float) -> bool:
        """True if the day's bytes are spent, so that changes are written hourly."""
        return now - self._day_began < DAY_SECONDS and self._day_bytes >= DAY_BYTES_MAX

    def _due_at(self, pace: _Pace, now: float) -> float:
        if pace.is_urgent:
            return float("-inf")
        if not self.is_over_budget(now):
            return pace.due_at
        hours = -(-(pace.due_at - self._day_began) // BATCH_SECONDS)
        return min(self._day_began + hours * BATCH_SECONDS, self._day_began + DAY_SECONDS)
