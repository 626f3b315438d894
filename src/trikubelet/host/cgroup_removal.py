"""Emptying and removing a cgroup with all that a container made below it: as deep as it could, and as broad.

The kernel answers each call at once, but a container that may make cgroups makes tens of thousands. So this is done
on the event loop, a few pieces (a name, a process, a cgroup) at a time, and others have their turn in between. Not in
a thread: one that was given up would go on, and kill what has begun in the cgroup meanwhile.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PIECES_MAX: Final = 100
"""At a time, some milliseconds. An ordinary pod has fewer."""


class Checkpoints:
    """Owns how many pieces were done since the last checkpoint."""

    def __init__(self) -> None:
        self._pieces = 0

    async def piece(self) -> None:
        """One more. Only now and then a checkpoint."""
        self._pieces += 1
        if self._pieces == PIECES_MAX:
            self._pieces = 0
            await trio.lowlevel.checkpoint()


def children(directory: Path) -> Iterator[str]:
    """The names of the cgroups right below one."""
    # One that has gone has none, and it may go while it is listed.
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:  # it has the types at once: most entries of a cgroup are files
            if entry.is_dir(follow_symlinks=False):
                yield entry.name


async def kill_all(directory: Path, checkpoints: Checkpoints) -> None:
    """Kill every process in a cgroup and below. Raises OSError where the agent's own is among them: then the agent
    was moved into a pod."""
    found = [directory]
    for one in found:  # it grows meanwhile; see _with_those_below
        for pid in _processes(one):
            if pid == os.getpid():
                raise OSError(f"{one}: this agent itself is in it")
            if pid > 0:  # 0 is a process of a PID namespace that is not visible here
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await checkpoints.piece()
        await _add_children(found, one, checkpoints)


async def remove_all(directory: Path, checkpoints: Checkpoints) -> None:
    """Remove a cgroup with those below it. Raises OSError while a process in one has not ended."""
    for one in reversed(await _with_those_below(directory, checkpoints)):
        with suppress(FileNotFoundError):  # systemd may be quicker
            one.rmdir()
        await checkpoints.piece()


async def _with_those_below(directory: Path, checkpoints: Checkpoints) -> list[Path]:
    """A cgroup and all below it, each before its children. Not by recursion: a container that may make cgroups can nest
    them deeper than Python's stack."""
    found = [directory]
    for one in found:  # it grows meanwhile
        await _add_children(found, one, checkpoints)
    return found


async def _add_children(found: list[Path], one: Path, checkpoints: Checkpoints) -> None:
    for name in children(one):
        found.append(one / name)
        await checkpoints.piece()
    await checkpoints.piece()


def _processes(directory: Path) -> list[int]:
    try:
        return [int(text) for text in (directory / "cgroup.procs").read_text().split()]
    except FileNotFoundError:  # it has gone since it was found, so nothing is in it
        return []
