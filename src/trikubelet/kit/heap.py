"""Hides long-lived objects from Python's garbage collector with ``gc.freeze``.

The collector traverses all objects whenever their number has grown by a quarter, and blocks the event loop meanwhile:
86 ms with the records of 10,000 pods, five times while the agent loads them and repeatedly while they change. None of
that is garbage: records contain no cycles and are freed with their last reference.

So objects that survive one collection are frozen, and the next one only traverses newer objects. A cycle that is frozen
while in use is not found later; therefore all objects are traversed once an hour.

The C library keeps freed memory: after 500 TLS connections were closed, it holds megabytes that nothing uses. So a
process that has grown returns free pages to the kernel, with a growing pause while that frees nothing.
"""

from __future__ import annotations

import gc
import math
import os
from contextlib import suppress
from typing import Final

import trio

from trikubelet.kit.every import Every

PERIOD_SECONDS: Final = 1.0
NEW_MIN: Final = 1
"""Collections of the middle generation since the last pass here: about 8,000 objects, or 3 ms."""
WHOLE_PERIOD_SECONDS: Final = 3600.0
"""The garbage of an hour is small, and one long pause an hour is acceptable."""


TRIM_SECONDS: Final = 60.0
TRIM_SECONDS_MAX: Final = 960.0
GROWN_BYTES: Final = 8 << 20
"""Growth over the smallest resident size so far that triggers a trim."""
FREED_BYTES_MIN: Final = 1 << 20
"""A trim that frees less counts as useless. It takes a few milliseconds."""


async def look_after_heap() -> None:
    """Collect and freeze new objects when there are many, and return free pages to the kernel, until cancelled."""
    whole_at = trio.current_time() + WHOLE_PERIOD_SECONDS
    trimming = Trimming()
    async for now in Every(PERIOD_SECONDS):
        trimming.step(now)
        is_whole = now >= whole_at
        if is_whole:
            whole_at = now + WHOLE_PERIOD_SECONDS
        if is_whole or gc.get_count()[2] >= NEW_MIN:
            look_through(everything=is_whole)


class Trimming:
    """Owns the smallest resident size of the process so far, and the time of the next check."""

    def __init__(self) -> None:
        self._least_bytes: float = math.inf
        self._wait_seconds = TRIM_SECONDS
        self._due = trio.current_time() + TRIM_SECONDS

    def step(self, now: float) -> None:
        """Return free pages to the kernel if a check is due and the process has grown."""
        if now < self._due:
            return
        before = resident_bytes()
        is_grown = before >= self._least_bytes + GROWN_BYTES
        if is_grown:
            give_back()
        after = resident_bytes() if is_grown else before
        is_in_vain = is_grown and before - after < FREED_BYTES_MIN
        self._wait_seconds = min(2 * self._wait_seconds, TRIM_SECONDS_MAX) if is_in_vain else TRIM_SECONDS
        self._least_bytes = min(self._least_bytes, after)
        self._due = now + self._wait_seconds


def resident_bytes() -> int:
    """Return the resident memory of the process; 0 if the kernel does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read(256).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def give_back() -> None:
    """Return the C library's free pages to the kernel. Does nothing if the C library cannot."""
    import ctypes  # noqa: PLC0415 - a megabyte, which most agents never need

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def look_through(*, everything: bool) -> None:
    """Free unreachable cycles, among objects since the last pass or among all, and freeze the rest."""
    if everything:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
