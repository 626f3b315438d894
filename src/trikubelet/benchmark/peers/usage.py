"""The cost of a piece of work for this process: time, processor, memory; and how long it kept the event loop.

CPU time is that of all threads. Memory in use is what Python's allocator and the C library have handed out and not been
given back (the compiled module's is the C library's), not what they hold for reuse.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
import tempfile
import time
import tracemalloc
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

_IN_USE: Final = re.compile(rb"^# bytes in allocated blocks += +([\d,]+)$", re.MULTILINE)


@dataclass(slots=True)
class Cost:
    """A piece of work, in nanoseconds; ``started_ns`` and all times are those of ``time.perf_counter_ns``."""

    started_ns: int = 0
    wall_ns: int = 0
    cpu_ns: int = 0


@contextmanager
def measured() -> Iterator[Cost]:
    """Yield the cost of the block, known after it, however it ends."""
    cost = Cost()
    cpu_ns = time.process_time_ns()
    cost.started_ns = time.perf_counter_ns()
    try:
        yield cost
    finally:
        cost.wall_ns = time.perf_counter_ns() - cost.started_ns
        cost.cpu_ns = time.process_time_ns() - cpu_ns


@dataclass(slots=True)
class Counted:
    """Memory of Python's: ``blocks`` held after the work more than before, ``bytes_max`` held at most during it beyond
    those before."""

    blocks: int = 0
    bytes_max: int = 0


@contextmanager
def counting() -> Iterator[Counted]:
    """Yield the allocations of the block, known after it. Makes it several times slower."""
    counted = Counted()
    gc.collect()
    blocks = sys.getallocatedblocks()
    tracemalloc.start(1)
    try:
        yield counted
    finally:
        counted.bytes_max = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        counted.blocks = sys.getallocatedblocks() - blocks


class StallWatch(trio.abc.Instrument):
    """Owns the longest step a task has made since the watch began, in nanoseconds: as long as the loop did nothing
    else. ``longest_ns`` is by the clock, so waits for a processor are in it; ``longest_cpu_ns`` is the loop's thread at
    work, perhaps in another step. Started with ``trio.lowlevel.add_instrument``."""

    def __init__(self) -> None:
        self.longest_ns = self.longest_cpu_ns = 0
        self._began_ns, self._began_cpu_ns = time.perf_counter_ns(), time.thread_time_ns()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task begins a step."""
        self._began_ns, self._began_cpu_ns = time.perf_counter_ns(), time.thread_time_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """The step is over."""
        self.longest_ns = max(self.longest_ns, time.perf_counter_ns() - self._began_ns)
        self.longest_cpu_ns = max(self.longest_cpu_ns, time.thread_time_ns() - self._began_cpu_ns)


def memory() -> dict[str, int]:
    """The process's memory in bytes: in use after its garbage was collected, resident, and resident at most."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    resident, peak = (int(re.findall(rf"{name}:\s+(\d+) kB", status)[0]) << 10 for name in ("VmRSS", "VmHWM"))
    return {"heap_bytes": _python_bytes() + _malloc_bytes(), "rss_bytes": resident, "peak_rss_bytes": peak}


def _python_bytes() -> int:
    """Return the bytes that Python's own allocator has handed out. It reports them on standard error only, for a
    human."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with tempfile.TemporaryFile() as said:
            os.dup2(said.fileno(), 2)
            sys._debugmallocstats()
            said.seek(0)
            return sum(int(figure.replace(b",", b"")) for figure in _IN_USE.findall(said.read()))
    finally:
        os.dup2(kept, 2)
        os.close(kept)


class _Malloc(ctypes.Structure):
    """glibc's ``struct mallinfo2``."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks"),
            "keepcost",
        )
    )


def _malloc_bytes() -> int:
    """Return the bytes that the C library has handed out: from its heaps, and as mappings of their own. Needs glibc
    2.33."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = _Malloc
    info = ask()
    return int(info.uordblks + info.hblkhd)
