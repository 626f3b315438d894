"""Sub-paths: the part of a volume that a container mounts, held fast.

A runtime is given host paths and looks them up when it likes, while the pod's other containers may be changing the
volume. So it is given no path into the volume: what a sub-path leads to (``host.beneath``) is mounted at a place that
containers cannot reach, upstream's ``volume-subpaths/VOLUME/CONTAINER/INDEX`` in the pod's directory. Such a mount
serves every restart of the container and is taken down before the volumes are. All of it may hang and is called in
threads.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.host.beneath import open_beneath
from trikubelet.volumes.mounter import let_go

if TYPE_CHECKING:
    from trikubelet.volumes.mounter import Mounter

DIRECTORY: Final = "volume-subpaths"
MODE, FILE_MODE = 0o750, 0o640


def hold(volume: str, sub_path: str, place: Path, mounter: Mounter, *, make: bool) -> str:
    """Mount what ``sub_path`` leads to below ``volume`` at ``place``; the place's path. With ``make``, directories that
    are missing are made. Raises OSError."""
    found = open_beneath(volume, sub_path, make=make)
    try:
        if str(place) in mounter.mounted_below(str(place)):
            if _is_same(found, place):
                return str(place)
            # A file of a ConfigMap is another one after each change, and a server may have lost what it had.
            let_go(mounter, str(place))
        _make_mount_point(place, is_directory=stat.S_ISDIR(os.fstat(found).st_mode))
        mounter.bind(found, str(place))
    finally:
        os.close(found)
    return str(place)


def path_of(volume: str, sub_path: str, *, make: bool) -> str:
    """The path of what ``sub_path`` leads to below ``volume`` now. Only for containers that may go anyway wherever the
    agent may. Raises OSError."""
    found = open_beneath(volume, sub_path, make=make)
    try:
        return os.readlink(f"/proc/self/fd/{found}")
    finally:
        os.close(found)


def _is_same(found: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(found), place.stat())
    except OSError:  # as of a server that has gone
        return False


def _make_mount_point(place: Path, *, is_directory: bool) -> None:
    place.parent.mkdir(mode=MODE, parents=True, exist_ok=True)
    if place.is_dir() and not is_directory:
        place.rmdir()
    elif place.is_file() and is_directory:
        place.unlink()
    if is_directory:
        place.mkdir(mode=MODE, exist_ok=True)
    else:
        place.touch(mode=FILE_MODE)
