"""The mount table, and mounting tmpfs: /proc/self/mountinfo and the mount(8) programs.

Programs are used rather than the system call: they know the options of every kernel, and one that hangs on a dead
server can be left running (``host.mount_programs``). A mount that does not answer is unmounted by force, and never
lazily: processes with an open file can still write to a detached volume.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from trikubelet.host.mount_programs import run
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

_OCTAL = re.compile(r"\\([0-7]{3})")
_WRITTEN_AS_OCTAL = re.compile(r"[\s\\#]")
_CAP_SYS_ADMIN = 21
_NOSWAP_SINCE = (6, 4)


class MountPoint(Frozen):
    """One line of mountinfo. ``options``: the mount's own; ``fs_options``: those of the file system, like the
    controllers of a cgroup hierarchy."""

    path: str
    fs_type: str
    source: str
    options: str
    fs_options: str = ""


def read_mountinfo(mountinfo: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the kernel's list. Paths are bytes to the kernel: an undecodable one is still a path, and a carriage
    return in one ends no line."""
    return mountinfo.read_bytes().decode(errors="surrogateescape")


def parse_mountinfo(text: str) -> tuple[MountPoint, ...]:
    """Return every mount, in the order of mounting. A line that cannot be parsed is left out."""
    found = []
    # Only these separate lines and fields: the kernel leaves any other whitespace in a path as it is.
    for line in text.split("\n"):
        left, dash, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if not dash or len(fields) < 6 or len(tail) < 2:
            continue
        fs_options = tail[2] if len(tail) > 2 else ""
        found.append(MountPoint(_unescaped(fields[4]), tail[0], _unescaped(tail[1]), fields[5], fs_options))
    return tuple(found)


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def mounted_below(directory: str, mountinfo: Path = Path("/proc/self/mountinfo")) -> tuple[str, ...]:
    """Return the mount points at or below a directory, deepest first: the order to unmount them in. The kernel knows
    directories by their real paths, so a root directory that is a symbolic link is resolved."""
    prefix = os.path.realpath(directory)
    text = read_mountinfo(mountinfo)
    # A node's list has several lines for each container, and is read eight times for a pod: other lines are not parsed.
    sign = "" if _WRITTEN_AS_OCTAL.search(prefix) else prefix
    lines = (line for line in text.split("\n") if sign in line)
    paths = [mount.path for mount in parse_mountinfo("\n".join(lines))]
    below = [path for path in paths if path == prefix or path.startswith(prefix + "/")]
    return tuple(sorted(below, key=lambda path: path.count("/"), reverse=True))


def mount_of(fd: int) -> str:
    """Return the number of a descriptor's mount."""
    with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as fdinfo:
        return next(line.split()[1] for line in fdinfo if line.startswith("mnt_id:"))


def fs_type(path: str) -> str:
    """Return the type of a path's file system in the kernel's list; "" if the list does not have the mount, as in a
    changed root. Raises OSError."""
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        number = mount_of(found)
    finally:
        os.close(found)
    line = next((line for line in read_mountinfo().split("\n") if line.startswith(f"{number} ")), "")
    return line.partition(" - ")[2].partition(" ")[0]


def is_allowed(status: Path = Path("/proc/self/status")) -> bool:
    """True if this process has the capability to mount."""
    # Bytes: its first line is the process's name, which need not be UTF-8.
    found = next(line for line in status.read_bytes().splitlines() if line.startswith(b"CapEff:"))
    return bool(int(found.split()[1], 16) & 1 << _CAP_SYS_ADMIN)


def mount_tmpfs(path: str, size_bytes: int | None, mode: int, group: int | None) -> None:
    """Mount a tmpfs whose root has that mode and group from the start. Raises OSError with mount(8)'s error output."""
    options = [f"mode={mode:04o}"]
    if group is not None:
        options.append(f"gid={group}")
    if size_bytes is not None:
        options.append(f"size={size_bytes}")
    if _can_stay_in_memory(os.uname().release, Path("/proc/self/uid_map").read_text()):
        options.append("noswap")  # secrets must not be written to a disk
    run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", path])


def has_all_ids(uid_map: str) -> bool:
    """True if a mapping of ids (``/proc/PID/uid_map``) is that of the machine's first user namespace."""
    return uid_map.split() == ["0", "0", str(2**32 - 1)]


def _can_stay_in_memory(release: str, uid_map: str) -> bool:
    """True if the kernel accepts ``noswap``: since 6.4 (Documentation/filesystems/tmpfs.rst), and not within a user
    namespace. ``uid_map``: this process's user namespace mapping."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return has_all_ids(uid_map) and found is not None and (int(found[1]), int(found[2])) >= _NOSWAP_SINCE


def mount_huge_pages(path: str, page_bytes: int, mode: int, group: int | None) -> None:
    """Mount a file system made of huge pages, otherwise like ``mount_tmpfs``."""
    options = [f"pagesize={page_bytes}", *([] if group is None else [f"gid={group}"])]
    run(["mount", "-t", "hugetlbfs", "-o", ",".join(options), "nodev", path])
    os.chmod(path, mode)  # as an option it would lose its set-group-id bit


def mount_nfs(source: str, path: str, options: Sequence[str]) -> None:
    """Mount a server's directory, ``server:directory``. Raises OSError with mount(8)'s error output."""
    words = ["-o", ",".join(options)] if options else []
    # A pod chooses the source: as ``--fstab=FILE:/f`` it would mount whatever that file contains.
    run(["mount", "-t", "nfs", *words, "--", source, path])


def bind(fd: int, path: str) -> None:
    """Mount the file behind a descriptor at a path of the same kind. Raises OSError with mount(8)'s error output."""
    # It must not resolve /proc/self/fd and mount the target: the name may mean another file by now.
    run(["mount", "--no-canonicalize", "--bind", f"/proc/self/fd/{fd}", path], fd)


def make_private(path: str) -> None:
    """Stop the propagation of mounting and unmounting in this mount. Raises OSError."""
    run(["mount", "--make-private", path])


def unmount(path: str) -> None:
    """Unmount one mount point, by force if it does not answer. Raises OSError with umount(8)'s error output."""
    try:
        run(["umount", path])
    except TimeoutError:
        run(["umount", "--force", path])
