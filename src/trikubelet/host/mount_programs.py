"""Runs mount(8) and umount(8) with a deadline, after which they are killed and left running.

    run ─► ended ─► its error output, where it failed
        └► not within its time ─► killed ─► ended, or left running ─► TimeoutError

A process that waits for a missing device or server may be in uninterruptible sleep. Waiting for its end would block the
thread, and the next attempt, too. So it is left running until it ends by itself; until then the same command is not
started again, and a mount that is retried for days costs one process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

RUN_SECONDS_MAX: Final = 50.0
"""Seconds for a program. Twice that, and twice DIE_SECONDS_MAX, is less than the two minutes a pod waits for its
volumes."""
DIE_SECONDS_MAX: Final = 1.0

_left: Final[dict[tuple[str, ...], subprocess.Popen[str]]] = {}
"""Killed processes that have not ended, by their command. Global, as they are children of this process."""
_leaving: Final = threading.Lock()


def run(command: Sequence[str], *fds: int) -> None:
    """Run a program to its end; it inherits the descriptors ``fds``. Blocks: call it in a thread. Raises TimeoutError
    if it does not end in time, and OSError with its error output if it fails."""
    words, said = tuple(command), " ".join(command)
    if _is_left(words):
        raise TimeoutError(f"{said}: it was killed a while ago and has not ended yet")
    process = subprocess.Popen(  # noqa: S603 - the callers' own words
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        pass_fds=fds,
        start_new_session=True,
    )
    try:
        _, complaint = process.communicate(timeout=RUN_SECONDS_MAX)
    except subprocess.TimeoutExpired as error:
        _put_down(words, process)
        raise TimeoutError(f"{said}: did not end within {RUN_SECONDS_MAX:g}s") from error
    if process.returncode != 0:
        raise OSError(f"{said}: {complaint.strip() or f'exit status {process.returncode}'}")


def _put_down(words: tuple[str, ...], process: subprocess.Popen[str]) -> None:
    """Kill it with its helpers, and wait at most DIE_SECONDS_MAX for it to end."""
    with suppress(ProcessLookupError, PermissionError):  # it has ended, or belongs to another user
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(DIE_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        with _leaving:
            _left[words] = process
    assert process.stderr is not None
    process.stderr.close()


def _is_left(words: tuple[str, ...]) -> bool:
    """True if a killed process of this command still exists. Those that have ended meanwhile are forgotten."""
    with _leaving:
        for one in [one for one, process in _left.items() if process.poll() is not None]:
            del _left[one]
        return words in _left
