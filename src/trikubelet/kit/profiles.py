"""CPU and memory profiles of the running agent, on request and for some seconds.

``processor`` samples the stack of Trio's thread a hundred times a second and counts each one: lines of
``outer;inner N``, the input of flame graph programs. ``memory`` traces allocations and reports the lines that hold most
of the new memory. Both slow the agent down meanwhile, ``memory`` by about a half; only one of each runs at a time
(``StillRunning``).
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
"""Different stacks; all further ones are counted together."""
DEPTH_MAX: Final = 100
LINES_MAX: Final = 100


class Profiler:
    """Owns the fact that a profile is being taken."""

    def __init__(self) -> None:
        self._threads = ThreadPool("profiles", 1)

    async def processor(self, seconds: float) -> str:
        """Return the stacks of Trio's thread during this time. Raises StillRunning."""
        watched = threading.get_ident()
        ending = threading.Event()
        try:
            return await self._threads.run(partial(stacks, watched, seconds, ending), "processor")
        finally:
            ending.set()  # the client may have gone

    async def memory(self, seconds: float) -> str:
        """Return the memory that was allocated during this time and is still held, by line. Raises StillRunning."""
        if tracemalloc.is_tracing():
            raise StillRunning("memory: another profile is in progress")
        tracemalloc.start()
        try:
            await trio.sleep(seconds)
            return await self._threads.run(_held)
        finally:
            tracemalloc.stop()


def stacks(watched: int, seconds: float, ending: threading.Event) -> str:
    """Sample the stacks of a thread for this time, or until ``ending`` is set. Runs in its own thread."""
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
