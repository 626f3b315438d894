"""What tests that start processes and tell them to end wait for and look at."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

WAIT_SECONDS_MAX: Final = 60.0


def wait_for(file: Path) -> str:
    """Return what a process wrote into the file, once it exists."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not file.exists():
        assert time.monotonic() < deadline, f"there is no {file}"
        time.sleep(0.02)
    return file.read_text().strip()


def ends(pid: str | int) -> bool:
    """Waits for the end of somebody else's process that was killed: the kernel takes its time. Whether it came."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while lives(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not lives(pid)


def lives(pid: str | int) -> bool:
    """True if there is such a process, and it has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
