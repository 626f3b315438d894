"""Removing a tree that containers may have written to.

Nothing behind a symbolic link is touched, and nothing behind a mount, though one may come at any moment by propagation
out of a container: each directory is accessed by its descriptor, whose mount the kernel reports. A tree may be deeper
than this process has stack or descriptors. So it is not descended: a directory is emptied of its files, and the
directories in it that are not empty are moved up to the top, to be handled later. A directory may hold more names than
fit in memory: entries are removed while it is read, and no list is made. A process that still writes there may add one
for each that is removed: the top is scanned a limited number of times, and each time only so far.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SCANS_MAX: Final = 10_000
"""How often a tree is scanned before it is given up. One scan is enough for each level of it and for NAMES_MAX names in
a directory; of a tree that is deeper or broader the next removal finds less."""
NAMES_MAX: Final = 100_000
"""The most names of a directory in one scan. A file system may show entries in it that were added meanwhile."""

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> None:
    """Remove a directory and everything in it. Raises OSError, with EBUSY for a mount, which stays whole with all that
    is in it, and for a tree that does not become empty; what is left may then lie higher up in the tree than before.
    Blocks for as long as a tree is large: call it in a thread."""
    parent = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _empty(parent, os.path.basename(path), _mount_of(parent))
        os.rmdir(os.path.basename(path), dir_fd=parent)
    finally:
        os.close(parent)


def _empty(parent: int, name: str, mount: str) -> None:
    """Empty the directory, which lies on that mount."""
    top = _open(parent, name, mount)
    try:
        for _ in range(SCANS_MAX):
            found = False
            for one in _names(top):
                found = True
                if not _removed(top, one):
                    _flatten(top, one, mount)
            if not found:
                return
        raise OSError(errno.EBUSY, "it does not become empty, as if somebody still wrote there", name)
    finally:
        os.close(top)


def _flatten(top: int, name: str, mount: str) -> None:
    """Remove a directory of ``top``, or a part of it where it is large, for the next scan to go on; the directories in
    it that are not empty move up to ``top``."""
    directory = _open(top, name, mount)
    try:
        for one in _names(directory):
            if not _removed(directory, one):
                # No name of a container's is at the top, and a number is its own.
                up = f".{os.stat(one, dir_fd=directory, follow_symlinks=False).st_ino}"
                os.rename(one, up, src_dir_fd=directory, dst_dir_fd=top)
    finally:
        os.close(directory)
    _removed(top, name)


def _removed(directory: int, name: str) -> bool:
    """Remove a file or an empty directory; whether it is gone, be it removed by another process meanwhile."""
    with suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=directory)
        except IsADirectoryError:
            try:
                os.rmdir(name, dir_fd=directory)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                return False
    return True


def _names(directory: int) -> Iterator[str]:
    """Names in a directory, read as they are taken, which may go meanwhile: none if there are none, and perhaps not all
    if there are."""
    with os.scandir(directory) as entries:
        for entry in islice(entries, NAMES_MAX):
            yield entry.name


def _open(parent: int, name: str, mount: str) -> int:
    found = os.open(name, _FLAGS, dir_fd=parent)
    if _mount_of(found) != mount:
        os.close(found)
        raise OSError(errno.EBUSY, "something is mounted there, it is not removed", name)
    return found


def _mount_of(fd: int) -> str:
    """The number of the mount a descriptor lies on."""
    with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as fdinfo:
        return next(line.split()[1] for line in fdinfo if line.startswith("mnt_id:"))
