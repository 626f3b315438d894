"""The machine a benchmark runs on: what it is, how fast it is just now, and how much of it others take."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PROC: Final = Path("/proc")
_LOOP: Final = 1_000_000
LOAD_PER_PROCESSOR_MAX: Final = 1.5
SETTLING_SECONDS_MAX: Final = 60
_LOOK_SECONDS: Final = 2


class Machine(msgspec.Struct, frozen=True):
    """The facts about the machine that explain the figures."""

    processors: int
    processor: str
    memory_bytes: int
    kernel: str
    python: str


def this_machine(proc: Path = _PROC) -> Machine:
    """The one we are on."""
    models = re.findall(r"^model name\s*: (.+)$", (proc / "cpuinfo").read_text(errors="replace"), re.MULTILINE)
    memory = re.findall(r"^MemTotal:\s+(\d+) kB$", (proc / "meminfo").read_text(), re.MULTILINE)
    return Machine(
        processors=len(os.sched_getaffinity(0)),
        processor=models[0] if models else platform.machine(),
        memory_bytes=int(memory[0]) << 10,
        kernel=platform.release(),
        python=platform.python_version(),
    )


def calibrate() -> int:
    """Nanoseconds a fixed loop takes. It is the same everywhere, so that two of them show how two moments differ."""
    began = time.perf_counter_ns()
    total = 0
    for number in range(_LOOP):
        total += number
    assert total == _LOOP * (_LOOP - 1) // 2
    return time.perf_counter_ns() - began


def is_settled(load: float, processors: int) -> bool:
    """True if a load, the kernel's mean of the last minute, leaves a measurement its processors."""
    return load < LOAD_PER_PROCESSOR_MAX * processors


def wait_settled(load: Callable[[], float], processors: int, pause: Callable[[float], None] = time.sleep) -> bool:
    """Wait until the load has settled, for ``SETTLING_SECONDS_MAX`` at most; whether it has. ``load`` returns it,
    ``pause`` waits so many seconds."""
    for _ in range(SETTLING_SECONDS_MAX // _LOOK_SECONDS):
        if is_settled(load(), processors):
            return True
        pause(_LOOK_SECONDS)
    return is_settled(load(), processors)


class Usage(NamedTuple):
    """Processor time in the kernel's ticks since it booted: of all processors, of that not idle, of that our own."""

    total: int
    busy: int
    own: int


def usage(pids: Iterable[int], proc: Path = _PROC) -> Usage:
    """Now; ``pids`` are our own processes. Time that a hypervisor gave to others counts as busy."""
    fields = (proc / "stat").read_text().partition("\n")[0].split()[1:9]
    ticks = [int(word) for word in fields]
    idle = ticks[3] + ticks[4]  # and waiting for disks
    return Usage(sum(ticks), sum(ticks) - idle, sum(_ticks(pid, proc) for pid in pids))


def busy_elsewhere(before: Usage, after: Usage) -> float:
    """The fraction of the machine, from 0 to 1, that others kept between the two."""
    total = after.total - before.total
    others = (after.busy - before.busy) - (after.own - before.own)
    return max(others, 0) / total if total else 0.0


def waited_ns(pid: int, proc: Path = _PROC) -> int:
    """Return how long the threads of a process have been ready to run without a processor; 0 where the kernel does not
    say."""
    waited = 0
    for thread in (proc / str(pid) / "task").iterdir():
        try:
            waited += int((thread / "schedstat").read_text().split()[1])
        except FileNotFoundError:  # the thread has just ended, or the kernel keeps no such statistics
            continue
    return waited


def _ticks(pid: int, proc: Path) -> int:
    try:
        fields = (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except FileNotFoundError:  # it has ended
        return 0
    return int(fields[11]) + int(fields[12])
