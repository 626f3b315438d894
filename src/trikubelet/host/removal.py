"""Removes a tree that containers may have written to.

Nothing behind a symbolic link is touched, and nothing behind a mount, though one may appear at any moment by
propagation out of a container: each directory is accessed by its descriptor, whose mount the kernel reports. A tree may
be deeper than this process has stack or descriptors. So there is no recursion: a directory is emptied of its files, and
its non-empty directories are moved up to the top, to be handled later. A directory may contain more names than fit in
memory: entries are removed while it is read, and no list is made. A process that still writes there may add one for
each that is removed: a tree is scanned a limited number of times, and each scan is bounded.

Directories may be closed to their own user, like the read-only ones of a cache of Go modules. Root can access them; an
agent of another user changes their mode first.

On btrfs every user may create subvolumes, also in a container, without a mount. Only another subvolume can be moved out
of one, so each is emptied as a top of its own, and those in it move up to the tree's top first: the removal is never
inside more than one. Their owner may make them read-only, even for root: they are made writable.
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
"""Scans of a tree in one removal. One scan is enough for each level of it and for NAMES_MAX names in a directory; of a
deeper or broader tree the next removal finds less."""
NAMES_MAX: Final = 100_000
"""Names of a directory read in one scan. A file system may show entries in it that were added meanwhile."""

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SUBVOLUME: Final = 256
"""The inode of each btrfs subvolume's top, BTRFS_FIRST_FREE_OBJECTID."""
_SUBVOL_SETFLAGS: Final = 0x4008941A
"""The ioctl BTRFS_IOC_SUBVOL_SETFLAGS, which takes 64 bits."""


def remove_unmounted(directory: Path) -> None:
    """Remove an existing directory, not a link, if nothing is mounted below it. Raises StillMounted, and like
    ``remove_tree``."""
    if not directory.is_dir() or directory.is_symlink():
        return
    if mounted := mounted_below(str(directory)):
        raise StillMounted(f"{mounted[0]} is still mounted")
    remove_tree(str(directory))


def remove_tree(path: str) -> None:
    """Remove a directory and everything in it. Raises OSError, with EBUSY for a mount, which stays with all its
    content, and for a tree that does not become empty; its rest may then be higher up in the tree than before. Blocks
    for as long as a tree is large: call it in a thread."""
    parent = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _empty(parent, os.path.basename(path), mount_of(parent), iter(range(SCANS_MAX)))
        os.rmdir(os.path.basename(path), dir_fd=parent)
    finally:
        os.close(parent)


def _empty(parent: int, name: str, mount: str, scans: Iterator[int], above: int | None = None) -> None:
    """Empty the directory, which is on that mount. ``scans``: the scans that are left; ``above``: the tree's top, if
    the directory is a subvolume of the tree."""
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
                    raise OSError(errno.EXDEV, "its content can neither be removed nor moved", one)
            if not found:
                return
        raise OSError(errno.EBUSY, "it does not become empty (stop the process that writes there)", name)
    finally:
        os.close(top)


def _flattened(top: int, name: str, mount: str) -> bool:
    """Remove a directory of ``top``, or a part of a large one, for the next scan to continue; its non-empty directories
    move up to ``top``. Return false if they cannot, because it is a subvolume."""
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
    """Move a directory up. Return true if that was possible: the file system may not let it leave its subvolume."""
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if found.st_ino == _SUBVOLUME or _is_closed(found):
        os.close(_open(directory, name, mount))  # it is writable now, because moving it writes to it
    # A random name, because no number is unique: all subvolumes begin with the same inodes. No other process can guess
    # it.
    up = f".{secrets.token_hex(16)}"
    try:
        os.rename(name, up, src_dir_fd=directory, dst_dir_fd=top)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return False
    return True


def _removed(directory: int, name: str) -> bool:
    """Remove a file or an empty directory. Return true if it is gone, even if another process removed it."""
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
    """Yield the names in a directory, read as they are taken. They may go meanwhile; if there are any, at least one is
    returned, but perhaps not all."""
    with os.scandir(directory) as entries:
        for entry in islice(entries, NAMES_MAX):
            yield entry.name


def _open(parent: int, name: str, mount: str) -> int:
    """Return a directory of that mount, opened to its own user, and writable if it is a subvolume."""
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
            with suppress(OSError):  # another file system may have that number; a failed removal is reported later
                fcntl.ioctl(found, _SUBVOL_SETFLAGS, bytes(8))
    except BaseException:
        os.close(found)
        raise
    return found


def _must_lie_on(directory: int, name: str, mount: str) -> None:
    if mount_of(directory) != mount:
        raise OSError(errno.EBUSY, "something is mounted there, it is not removed", name)


def _is_closed(found: os.stat_result) -> bool:
    """True if it belongs to this user, without the permission to list or change it."""
    return found.st_uid == os.geteuid() and found.st_mode & stat.S_IRWXU != stat.S_IRWXU


def _open_to_owner(parent: int, name: str, mount: str) -> None:
    """Open an unreadable directory to its user, without following a link in its place. Raises OSError."""
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        _must_lie_on(found, name, mount)
        os.chmod(f"/proc/self/fd/{found}", stat.S_IRWXU)
    finally:
        os.close(found)
