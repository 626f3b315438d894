"""Keeps long-lived objects from Python's garbage collector by ``gc.freeze``.

The collector looks through everything there is whenever a quarter as much is new, in one step that nothing interrupts:
with the records of 10,000 pods 86 ms, five times while the agent gets to know them and again and again while they
change. None of that is garbage: records hold no cycles and go with their last reference.

So what has outlived one look is set aside, and the next look is only at what came since. A cycle that is set aside
while it is in use is not found when it no longer is; therefore everything is looked through once in a long while.

The C library keeps what is freed: after 500 TLS connections have been closed, it holds megabytes that nothing uses.
So a process that has grown gives free pages back to the kernel, and tries more rarely while that frees nothing.
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
"""Times the collector has looked at what is neither new nor old since the last look: some 8,000 objects, or 3 ms."""
WHOLE_PERIOD_SECONDS: Final = 3600.0
"""The garbage of an hour is small, and a step as long as that can be borne once in it."""


TRIM_SECONDS: Final = 60.0
TRIM_SECONDS_MAX: Final = 960.0
GROWN_BYTES: Final = 8 << 20
"""Beyond the least resident size there was, from which on free pages are looked for."""
FREED_BYTES_MIN: Final = 1 << 20
"""A trim that frees less was in vain. It takes some milliseconds."""


async def look_after_heap() -> None:
    """Look through what is new, when that is much, and give free pages back, until cancelled."""
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
    """Owns the least resident size of the process, and the time of the next look at it."""

    def __init__(self) -> None:
        self._least_bytes: float = math.inf
        self._wait_seconds = TRIM_SECONDS
        self._due = trio.current_time() + TRIM_SECONDS

    def step(self, now: float) -> None:
        """Give free pages back if a look is due and the process has grown."""
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
    """The memory of the process that is in RAM; 0 if the kernel does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read(256).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def give_back() -> None:
    """Give pages that the C library has free back to the kernel. Not every C library can."""
    import ctypes  # noqa: PLC0415 - a megabyte, which most agents never need

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def look_through(*, everything: bool) -> None:
    """Free unreachable cycles, of what came since the last look or of all there is, and set the rest aside."""
    if everything:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
