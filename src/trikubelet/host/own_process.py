"""This process's memory, CPU time and open files, from the kernel, and the name that the kernel shows for it.
(proc_pid_stat(5), proc_pid_statm(5), proc_pid_comm(5))
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from trikubelet.kit.open_files import open_files_max

_PROC: Final = Path("/proc")
_START_FIELD: Final = 19
"""``starttime``, counted from the field behind the command."""


class OwnProcess(NamedTuple):
    """This process at one moment. ``started_seconds``: since the Unix epoch. ``virtual_bytes_max``: the limit of the
    address space, 2^64-1 for none."""

    virtual_bytes: int
    virtual_bytes_max: int
    resident_bytes: int
    cpu_seconds: float
    started_seconds: float
    open_files: int
    open_files_max: int


def own_process(proc: Path = _PROC) -> OwnProcess:
    """Return this process's figures. The kernel answers at once. Raises OSError if /proc cannot be read."""
    virtual, resident = (proc / "self/statm").read_text().split()[:2]
    page, used = os.sysconf("SC_PAGE_SIZE"), os.times()
    return OwnProcess(
        int(virtual) * page,
        resource.getrlimit(resource.RLIMIT_AS)[0] % 2**64,  # the kernel has -1 for none
        int(resident) * page,
        used.user + used.system,
        started_seconds(proc),
        len(os.listdir(proc / "self/fd")) - 1,  # without the one that is read here
        open_files_max(),
    )


def take_name(program: str, proc: Path = _PROC) -> None:
    """Set the name of this process in ps, top, pidof and systemd-inhibit to ``program`` instead of the interpreter:
    kubelet if it was started so, and trikubelet otherwise."""
    name = "kubelet" if os.path.basename(program) == "kubelet" else "trikubelet"
    with suppress(OSError):  # a read-only /proc costs only the name
        (proc / "self/comm").write_text(name)


@cache
def started_seconds(proc: Path = _PROC) -> float:
    """Return when this process began, in seconds since the Unix epoch. Raises OSError if /proc cannot be read."""
    # Its name, before the numbers, need not be valid UTF-8.
    ticks = int((proc / "self/stat").read_bytes().rpartition(b")")[2].split()[_START_FIELD])
    booted = next(line for line in (proc / "stat").read_text().splitlines() if line.startswith("btime "))
    return int(booted.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
