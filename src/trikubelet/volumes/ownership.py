"""Changes the group of a volume's files to the pod's (``fsGroup``), by upstream's rules.

Every file gets the group and is readable and writable by it, every directory also gets the setgid bit. The root of the
volume is changed last, so that it stands for the rest: under the policy OnRootMismatch a volume with a correct root is
not walked. The walk goes by descriptors and follows no link, because the volume's content is not trusted. It takes time
in proportion to the files; called in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Final

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.model.k8s import Pod

ON_ROOT_MISMATCH: Final = "OnRootMismatch"
LEVELS_MAX: Final = 256
"""Each holds three descriptors while the walk is below it."""
READS_WRITES, READS, ENTERS = 0o660, 0o440, 0o110


class Group(Frozen):
    """The desired group of a volume's files. ``on_mismatch``: change it only if the volume's root has another."""

    id: int
    on_mismatch: bool
    read_only: bool


def group_of(pod: Pod, *, read_only: bool) -> Group | None:
    """Return the desired group of the pod's volumes' files (``fsGroup``); None if none is set."""
    context = pod.spec.security_context
    if context is None or context.fs_group is None:
        return None
    return Group(context.fs_group, context.fs_group_change_policy == ON_ROOT_MISMATCH, read_only)


def apply_fs_group(root: int, group: Group, done: Callable[[], None]) -> None:
    """Change the group of the directory ``root``, a descriptor, and everything below it, if that is still due. Raises
    OSError."""
    if not (group.on_mismatch and is_owned(root, group.id, group.read_only)):
        chown_tree(root, group.id, group.read_only, done)


def is_owned(root: int, group: int, read_only: bool) -> bool:
    """True if the root of a volume is as ``chown_tree`` leaves it; ``root``: a descriptor."""
    found = os.fstat(root)
    wanted = stat.S_ISGID | ENTERS | (READS if read_only else READS_WRITES)
    return found.st_gid == group and found.st_mode & wanted == wanted


def chown_tree(root: int, group: int, read_only: bool, done: Callable[[], None]) -> None:
    """Change the group of the directory ``root``, a descriptor, and of everything below it; ``done`` is called for each
    file. Raises OSError."""
    _chown_below(root, group, read_only, done, LEVELS_MAX)
    os.chown(f"/proc/self/fd/{root}", -1, group)
    _open_to_group(root, os.fstat(root).st_mode, read_only)
    done()


def _chown_below(directory: int, group: int, read_only: bool, done: Callable[[], None], levels: int) -> None:
    if not levels:
        raise OSError(errno.ENAMETOOLONG, f"more than {LEVELS_MAX} nested directories")
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        with os.scandir(readable) as entries:  # streamed, because the names may not fit in memory
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # other programs use the volume, too
                    _chown_one(readable, entry.name, group, read_only, done, levels)
    finally:
        os.close(readable)


def _chown_one(parent: int, name: str, group: int, read_only: bool, done: Callable[[], None], levels: int) -> None:
    found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        mode = os.fstat(found).st_mode
        if stat.S_ISDIR(mode):
            _chown_below(found, group, read_only, done, levels - 1)
        if stat.S_ISLNK(mode):
            os.chown(name, -1, group, dir_fd=parent, follow_symlinks=False)
        else:
            os.chown(f"/proc/self/fd/{found}", -1, group)
            _open_to_group(found, mode, read_only)
    finally:
        os.close(found)
    done()


def _open_to_group(found: int, mode: int, read_only: bool) -> None:
    """Give the group access. ``mode`` is from before the change of owner, which removes set-user-id bits."""
    wanted = READS if read_only else READS_WRITES
    if stat.S_ISDIR(mode):
        wanted |= ENTERS | stat.S_ISGID
    os.chmod(f"/proc/self/fd/{found}", stat.S_IMODE(mode) | wanted)
