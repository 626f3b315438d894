"""A process that stands still from the moment a test is told so.

SIGSTOP is no such moment: the kernel gives it to one thread, and the others of a busy process run on until that one has
been scheduled and has halted them. An API server has answered a whole TLS handshake meanwhile.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from .daemon import await_that

_HALT_SECONDS_MAX = 60.0
_AT_REST = frozenset("TtZX")
"""States of a thread that runs no more: stopped, traced, ended and not yet reaped, dead (proc(5))."""


def freeze(pid: int) -> None:
    """Stops every thread of the process; safe to repeat. Raises RuntimeError when one of them runs on."""
    os.kill(pid, signal.SIGSTOP)
    await_that(
        lambda: set(threads(pid).values()) <= _AT_REST,
        _HALT_SECONDS_MAX,
        lambda: f"process {pid} does not stand still: {threads(pid)}",
        every_seconds=0.002,
    )


def thaw(pid: int) -> None:
    """Lets it go on."""
    os.kill(pid, signal.SIGCONT)


def threads(pid: int) -> dict[str, str]:
    """The state of each thread by its id, as one letter of proc(5); one that ends during the look is left out."""
    found = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            told = (thread / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[thread.name] = told.rpartition(")")[2].split()[0]
    return found
