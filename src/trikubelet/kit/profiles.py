"""Finds out on request where the processor's time and new memory go, for some seconds.

``processor`` looks a hundred times a second where Trio's thread is and counts each stack it sees: lines of
``outer;inner N``, as flame graph programs read them. ``memory`` has Python note where each block is allocated and says
which lines hold most of what came meanwhile. Both slow the agent down a little while they last, ``memory`` by about a
half, and only one of each runs at a time (``StillRunning``).
"""

from __future__ import annotations

import sys
import threading
import time
import tracemalloc
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.threads import StillRunning, ThreadPool

if TYPE_CHECKING:
    from types import FrameType

LOOK_SECONDS: Final = 0.01
STACKS_MAX: Final = 10_000
"""Different ones; what comes beyond is counted as one."""
DEPTH_MAX: Final = 100
LINES_MAX: Final = 100


class Profiler:
    """Owns the fact that a profile is being taken."""

    def __init__(self) -> None:
        self._threads = ThreadPool("profiles", 1)

    async def processor(self, seconds: float) -> str:
        """Where Trio's thread was, for so long. Raises StillRunning."""
        watched = threading.get_ident()
        ending = threading.Event()
        try:
            return await self._threads.run(partial(stacks, watched, seconds, ending), "processor")
        finally:
            ending.set()  # the client may have gone

    async def memory(self, seconds: float) -> str:
        """Return the memory that was allocated within so long and is still held, line by line. Raises StillRunning."""
        if tracemalloc.is_tracing():
            raise StillRunning("memory: another profile is being taken")
        tracemalloc.start()
        try:
            await trio.sleep(seconds)
            return await self._threads.run(_held)
        finally:
            tracemalloc.stop()


def stacks(watched: int, seconds: float, ending: threading.Event) -> str:
    """Where a thread was seen, for so long or until ``ending`` is set. For a thread of its own."""
    seen: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not ending.wait(LOOK_SECONDS):
        frame = sys._current_frames().get(watched)
        stack = _folded(frame)
        seen[stack if stack in seen or len(seen) < STACKS_MAX else "other"] += 1
    return "".join(f"{stack} {count}\n" for stack, count in seen.most_common())


def _folded(frame: FrameType | None) -> str:
    names: list[str] = []
    while frame is not None and len(names) < DEPTH_MAX:
        module = frame.f_globals.get("__name__", "?")
        names.append(f"{module}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return ";".join(reversed(names))


def _held() -> str:
    found = tracemalloc.take_snapshot().statistics("lineno")
    total = sum(one.size for one in found)
    lines = [f"{one.size} bytes in {one.count} blocks: {one.traceback}\n" for one in found[:LINES_MAX]]
    return f"{total} bytes in all\n{''.join(lines)}"
