"""Directories and devices of this node that are persistent volumes (PersistentVolume ``local``).

A directory is mounted for each pod below the pod's own directory, and only that mount is ever taken down. The mount
comes last and says that everything before it was done, so nothing is done twice, not by the next attempt and not by the
next agent. All of it may hang and is called in threads.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from trikubelet.volumes import ownership

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trikubelet.volumes.mounter import Mounter

PLUGIN: Final = "kubernetes.io~local-volume"
MODE: Final = 0o750


def mount(source: str, place: Path, group: ownership.Group | None, mounter: Mounter, done: Callable[[], None]) -> None:
    """Mount a directory, its files given to the group first; ``done`` is called for each. Raises OSError, and
    ValueError for what is no directory."""
    if str(place) in mounter.mounted_below(str(place)):
        return
    found = os.open(source, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(found).st_mode):
            raise ValueError(f"{source} is not a directory; a file system on a local device is not mounted")
        if group is not None:
            ownership.see_to(found, group, done)
        place.mkdir(mode=MODE, parents=True, exist_ok=True)
        mounter.bind(found, str(place))
    finally:
        os.close(found)


def check_device(path: str) -> None:
    """Raises ValueError for what is no block device, OSError for what is not there."""
    if not stat.S_ISBLK(os.stat(path).st_mode):
        raise ValueError(f"path {path} is not block device")
