"""Resolves a path below a directory safely, even if that directory changes meanwhile.

A volume belongs to containers, which may put a symbolic link anywhere in it at any moment, and the agent may access
everything. So a path into a volume is never passed to the kernel as a whole. It is walked one name at a time, from the
descriptor of each directory to the next, and links are read and followed here: up to the volume's root and never above
it. A link to an absolute path leads out, like the links of /proc or those made for a container's own root, unless that
path begins with the root's own. Then the walk begins again at the root's descriptor, with the rest of the path. The
result is a descriptor, whose meaning no later renaming can change.

openat2(2) with RESOLVE_BENEATH does the same in one call since Linux 5.6. The walk is needed anyway, to make missing
directories and on older kernels, and one implementation is easier to trust than two.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

LINKS_MAX: Final = 40
"""The kernel's own limit."""
LEVELS_MAX: Final = 256
"""Each level holds a descriptor during the walk."""
_PATH_FLAGS: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def open_beneath(root: str, path: str, *, make: bool, called: str = "the volume") -> int:
    """Return a descriptor (O_PATH) of the file at ``path`` below the directory ``root``, for the caller to close. With
    ``make``, missing directories are created, with the root's mode. ``called``: the root, in messages. Raises OSError:
    EXDEV for a path that leads out, ENOENT, ELOOP, and the kernel's other errors; FileNotFoundError names the missing
    part."""
    # The root itself may be reached by links: its path is the node's, not the containers'.
    reached = [os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
    mode = stat.S_IMODE(os.fstat(reached[0]).st_mode)
    todo, links = path.split("/")[::-1], 0
    try:
        while todo:
            name = todo.pop()
            if name in ("", "."):
                continue
            if name == "..":
                os.close(reached.pop())
                if not reached:
                    raise OSError(errno.EXDEV, f"leads out of {called}", path)
                continue
            if len(reached) > LEVELS_MAX:
                raise OSError(errno.ENAMETOOLONG, "too many nested directories", path)
            found = _step(reached[-1], name, mode if make else None)
            reached.append(found)
            if stat.S_ISLNK(os.fstat(found).st_mode):
                links += 1
                target = os.readlink("", dir_fd=found)
                os.close(reached.pop())
                if links > LINKS_MAX:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if target.startswith("/"):
                    target = _below(target, root, reached[0], called)
                    while len(reached) > 1:
                        os.close(reached.pop())
                todo += target.split("/")[::-1]
        return reached.pop()
    finally:
        for fd in reached:
            os.close(fd)


def _below(target: str, root: str, root_fd: int, called: str) -> str:
    """Return the rest of an absolute path that begins with the root's, by either of its names. Raises OSError:
    EXDEV."""
    for name in (os.readlink(f"/proc/self/fd/{root_fd}"), root):
        if f"{target}/".startswith(f"{name.rstrip('/')}/"):
            return target[len(name.rstrip("/")) :]
    raise OSError(errno.EXDEV, f"a link to an absolute path leads out of {called}", target)


def _step(directory: int, name: str, mode: int | None) -> int:
    """Return a descriptor of one name in a directory, also of a link; a missing one is created as a directory with
    ``mode``."""
    try:
        return os.open(name, _PATH_FLAGS, dir_fd=directory)
    except FileNotFoundError:
        if mode is None:
            raise
    try:
        os.mkdir(name, mode, dir_fd=directory)
    except FileExistsError:  # another process was faster; its entry is used
        return os.open(name, _PATH_FLAGS, dir_fd=directory)
    # The volume's mode, not the umask's, and not by name: it may be another directory by now.
    made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fchmod(made, mode)
        return os.open(".", _PATH_FLAGS, dir_fd=made)
    finally:
        os.close(made)
