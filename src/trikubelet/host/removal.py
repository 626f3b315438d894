"""Removing a tree in which containers had their hands.

Nothing behind a symbolic link is touched, and nothing behind a mount, though one may come at any moment by propagation
out of a container: each directory is known by its descriptor, and what the kernel says of that is on which mount it
lies. A tree may be deeper than this process has stack or descriptors. So nobody descends: a directory is emptied of its
files, and the directories in it that are not empty are moved up to the top, where their turn comes. A directory may
hold more names than this process has memory: what is in it goes while it is read, and no list is made. Who still writes
there may add one for each that goes: the top is looked through a number of times, so far each time, and not for as long
as there is anything.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOKS_MAX: Final = 10_000
"""How often a tree is looked through before it is given up. One is enough for each level of it and for so many names in
a directory; of a tree that is deeper or broader the next removal finds less."""
NAMES_MAX: Final = 100_000
"""How many names of a directory one look takes at most. A file system may show in the same look what came meanwhile."""

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
    """Make the directory empty, which lies on that mount."""
    top = _open(parent, name, mount)
    try:
        for _ in range(LOOKS_MAX):
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
    """Remove a directory of ``top``, or some of what is in it where that is much, for the next look to go on; what is
    in directories in it moves up to ``top``."""
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
    """Remove what is no directory, or an empty one; whether that was so, or somebody else did it meanwhile."""
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
    with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as told:
        return next(line.split()[1] for line in told if line.startswith("mnt_id:"))
