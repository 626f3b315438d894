"""Removing a tree that containers may have written to.

Nothing behind a symbolic link is touched, and nothing behind a mount, though one may come at any moment by propagation
out of a container: each directory is accessed by its descriptor, whose mount the kernel reports. A tree may be deeper
than this process has stack or descriptors. So it is not descended: a directory is emptied of its files, and the
directories in it that are not empty are moved up to the top, to be handled later. A directory may hold more names than
fit in memory: entries are removed while it is read, and no list is made. A process that still writes there may add one
for each that is removed: a tree is scanned a limited number of times, and each time only so far.

Directories may be closed to their own user, as those of a cache of Go modules are read-only. Root does not care; for an
agent of another user they are opened to it first.

On btrfs anybody may make subvolumes, also in a container, without a mount. Nothing but another subvolume can be moved
out of one, so each is emptied as a top of its own, and those in it move up to the tree's top first: it is never inside
more than one. Their owner may make them read-only, which root cannot write to either: they are made writable.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

from trikubelet.host.mounts import mount_of, mounted_below
from trikubelet.model.errors import StillMounted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCANS_MAX: Final = 10_000
"""How often a tree is scanned before it is given up. One scan is enough for each level of it and for NAMES_MAX names in
a directory; of a tree that is deeper or broader the next removal finds less."""
NAMES_MAX: Final = 100_000
"""The most names of a directory in one scan. A file system may show entries in it that were added meanwhile."""

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SUBVOLUME: Final = 256
"""The inode of each btrfs subvolume's top, BTRFS_FIRST_FREE_OBJECTID."""
_SUBVOL_SETFLAGS: Final = 0x4008941A
"""The ioctl BTRFS_IOC_SUBVOL_SETFLAGS, which takes 64 bits."""


def remove_unmounted(directory: Path) -> None:
    """Remove a directory that is there, and no link, when nothing is mounted below it. Raises StillMounted, and as
    ``remove_tree``."""
    if not directory.is_dir() or directory.is_symlink():
        return
    if mounted := mounted_below(str(directory)):
        raise StillMounted(f"{mounted[0]} is still mounted")
    remove_tree(str(directory))


def remove_tree(path: str) -> None:
    """Remove a directory and everything in it. Raises OSError, with EBUSY for a mount, which stays whole with all that
    is in it, and for a tree that does not become empty; what is left may then lie higher up in the tree than before.
    Blocks for as long as a tree is large: call it in a thread."""
    parent = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _empty(parent, os.path.basename(path), mount_of(parent), iter(range(SCANS_MAX)))
        os.rmdir(os.path.basename(path), dir_fd=parent)
    finally:
        os.close(parent)


def _empty(parent: int, name: str, mount: str, scans: Iterator[int], above: int | None = None) -> None:
    """Empty the directory, which lies on that mount. ``scans``: the scans that are left; ``above``: where the directory
    is a subvolume of the tree, the tree's top."""
    top = _open(parent, name, mount)
    try:
        for _ in scans:
            found = False
            for one in _names(top):
                found = True
                if _removed(top, one) or _flattened(top, one, mount):
                    continue
                if above is None:
                    _empty(top, one, mount, scans, top)
                elif not _moved(top, one, above, mount):
                    raise OSError(errno.EXDEV, "what is in it can neither be removed nor moved", one)
            if not found:
                return
        raise OSError(errno.EBUSY, "it does not become empty, as if somebody still wrote there", name)
    finally:
        os.close(top)


def _flattened(top: int, name: str, mount: str) -> bool:
    """Remove a directory of ``top``, or a part of it where it is large, for the next scan to go on; the directories in
    it that are not empty move up to ``top``. False where they cannot, for it is a subvolume."""
    directory = _open(top, name, mount)
    try:
        for one in _names(directory):
            if not (_removed(directory, one) or _moved(directory, one, top, mount)):
                return False
    finally:
        os.close(directory)
    _removed(top, name)
    return True


def _moved(directory: int, name: str, top: int, mount: str) -> bool:
    """Move a directory up; whether it could be, for the file system may not let it leave its subvolume."""
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if found.st_ino == _SUBVOLUME or _is_closed(found):
        os.close(_open(directory, name, mount))  # it is writable now: to move it is to write to it
    # By chance, for no number is its own: all subvolumes begin with the same inodes. Nobody can be there before it.
    up = f".{secrets.token_hex(16)}"
    try:
        os.rename(name, up, src_dir_fd=directory, dst_dir_fd=top)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return False
    return True


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
    """A directory of that mount, open to its own user, and writable if it is a subvolume."""
    try:
        found = os.open(name, _FLAGS, dir_fd=parent)
    except PermissionError:
        _open_to_owner(parent, name, mount)
        found = os.open(name, _FLAGS, dir_fd=parent)
    try:
        _must_lie_on(found, name, mount)
        status = os.fstat(found)
        if _is_closed(status):
            os.fchmod(found, stat.S_IRWXU)
        if status.st_ino == _SUBVOLUME:
            with suppress(OSError):  # another file system may have that number; and what cannot be removed is said then
                fcntl.ioctl(found, _SUBVOL_SETFLAGS, bytes(8))
    except BaseException:
        os.close(found)
        raise
    return found


def _must_lie_on(directory: int, name: str, mount: str) -> None:
    if mount_of(directory) != mount:
        raise OSError(errno.EBUSY, "something is mounted there, it is not removed", name)


def _is_closed(found: os.stat_result) -> bool:
    """Whether it is this user's, who may not list it or change it."""
    return found.st_uid == os.geteuid() and found.st_mode & stat.S_IRWXU != stat.S_IRWXU


def _open_to_owner(parent: int, name: str, mount: str) -> None:
    """Let the user into a directory that cannot be read, without following a link in its place. Raises OSError."""
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        _must_lie_on(found, name, mount)
        os.chmod(f"/proc/self/fd/{found}", stat.S_IRWXU)
    finally:
        os.close(found)
