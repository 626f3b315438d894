"""What tests make on the machine outside of any runtime's instance: directories to mount in, cgroups of their own.

Its name tells who made it, ``tkmade-PID-STARTED-NUMBER``: the process id and when that process was started, which
together name one process for ever. While the maker lives it is its own affair; what is found of one that is no more is
nobody's, and `sweep_abandoned` takes it away. ``instance.py`` does so for what belongs to a runtime.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from . import instance

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "tkmade-"
_NAME = re.compile(rf"{MARK}(?P<pid>[1-9][0-9]*)-(?P<started>[0-9]+)-[1-9][0-9]*")
"""As `name` makes it: whatever else begins with the mark is somebody else's."""

_numbers = itertools.count(1)


def name(maker: int | None = None) -> str:
    """A name nobody else has or will have, for what ``maker`` makes: this process, unless another's id is given."""
    pid = os.getpid() if maker is None else maker
    return f"{MARK}{pid}-{instance.started(pid)}-{next(_numbers)}"


@contextmanager
def directory() -> Iterator[Path]:
    """One with a short name (a Unix socket's path may not be long), that its owner alone may enter. At the end it goes
    with all that is mounted below it."""
    made = instance.TEMPORARY / name()
    made.mkdir(mode=0o700)
    try:
        yield made
    finally:
        _remove_directory(made)


def remove_cgroups(marked: str) -> None:
    """Kills what lives in the cgroups of that name, in every hierarchy, and removes them; safe to repeat. Raises
    RuntimeError naming one that would not go."""
    for path in _cgroups(marked):
        instance.remove_cgroup(path)
        if path.exists():
            raise RuntimeError(f"the cgroup {path} cannot be removed")


def sweep_abandoned() -> list[str]:
    """Takes away all that carries the mark of a process that is no more; the names."""
    found = {path.name for path in instance.TEMPORARY.glob(f"{MARK}*")}
    found |= {path.name for hierarchy in instance.hierarchies() for path in hierarchy.glob(f"{MARK}*")}
    abandoned = sorted(filter(_is_abandoned, found))
    for one in abandoned:
        remove_cgroups(one)
        _remove_directory(instance.TEMPORARY / one)
    return abandoned


def _is_abandoned(marked: str) -> bool:
    made = _NAME.fullmatch(marked)
    return made is not None and instance.started(int(made["pid"])) != made["started"]


def _cgroups(marked: str) -> list[Path]:
    return [path for hierarchy in instance.hierarchies() if (path := hierarchy / marked).is_dir()]


def _remove_directory(path: Path) -> None:
    for place in reversed(_mounted(path)):
        subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)  # it may have gone with another
    if left := _mounted(path):  # what is mounted there is not ours to empty
        raise RuntimeError(f"{', '.join(left)} cannot be unmounted")
    shutil.rmtree(path, ignore_errors=True)


def _mounted(below: Path) -> list[str]:
    """Where something is mounted there, in the order in which it was."""
    places = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [place for place in places if place == str(below) or place.startswith(f"{below}/")]
