"""Other processes of this machine, read from /proc: their names, command lines, parents and open files.

Any of them may end while it is read, and only root sees other users' files. A test points ``root`` at a directory of
its own.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def holders_of(name: str, root: Path = Path("/")) -> dict[int, Path]:
    """Return the other processes that have a file of this name open, and its path from here, which may be in a
    container's file system (proc_pid_root(5)). Only root sees other users' processes; of several such files of one
    process one is returned."""
    found = {}
    for entry in (root / "proc").glob("[0-9]*"):
        opened: list[str] = []
        with suppress(OSError):  # it has ended meanwhile, or belongs to another user
            opened = os.listdir(entry / "fd")
        for number in opened:
            with suppress(OSError):  # it is closed meanwhile
                file = (entry / "fd" / number).readlink()
                if file.name == name and int(entry.name) != os.getpid():
                    found[int(entry.name)] = entry / "root" / file.relative_to("/")
    return found


def processes_named(name: str, root: Path = Path("/")) -> Sequence[int]:
    """Return the ids of the processes with this program name (proc_pid_comm(5)), the lowest first."""
    found = []
    for entry in (root / "proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            # Any process may give itself any name, and the kernel cuts it in the middle of a character.
            if (entry / "comm").read_bytes().rstrip(b"\n") == os.fsencode(name):
                found.append(int(entry.name))
    return sorted(found)


def command_line(process: int, root: Path = Path("/")) -> Sequence[str]:
    """Return the command line of the process; empty if it has ended."""
    with suppress(OSError):
        return os.fsdecode((root / f"proc/{process}/cmdline").read_bytes()).rstrip("\0").split("\0")
    return ()


def parents_of(process: int, root: Path = Path("/")) -> Sequence[int]:
    """Return the ids of the process's ancestors, the nearest first."""
    found: list[int] = []
    while process > 1:
        try:
            stat = (root / f"proc/{process}/stat").read_text(errors="replace")
        except OSError:
            break
        # The name is in parentheses and may contain some itself; the parent is the second field behind it.
        process = int(stat.rpartition(")")[2].split()[1])
        if process in found:
            break
        found.append(process)
    return found
