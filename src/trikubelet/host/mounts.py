"""What is mounted where, and mounting tmpfs: /proc/self/mountinfo and the mount(8) programs.

The programs rather than the system call: they know the options of every kernel, and a subprocess that hangs on a dead
server can be left behind. Unmounting is lazy only as a last resort of the caller.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_OCTAL = re.compile(r"\\([0-7]{3})")
MOUNT_SECONDS_MAX = 60


@dataclass(frozen=True, slots=True)
class MountPoint:
    """One line of mountinfo. ``options`` are the mount's own, ``fs_options`` those of the file system behind it, as a
    cgroup hierarchy's controllers are."""

    path: str
    fs_type: str
    source: str
    options: str
    fs_options: str = ""


def parse_mountinfo(text: str) -> tuple[MountPoint, ...]:
    """Every mount, in the order of mounting. A line that is not understood is left out."""
    found = []
    for line in text.splitlines():
        left, dash, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if not dash or len(fields) < 6 or len(tail) < 2:
            continue
        fs_options = tail[2] if len(tail) > 2 else ""
        found.append(MountPoint(_unescaped(fields[4]), tail[0], _unescaped(tail[1]), fields[5], fs_options))
    return tuple(found)


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def mounted_below(directory: str, mountinfo: Path = Path("/proc/self/mountinfo")) -> tuple[str, ...]:
    """Mount points at or below a directory, deepest first: the order to unmount them in. The kernel knows directories
    by their real paths, so a root directory that is a symbolic link is followed."""
    prefix = os.path.realpath(directory)
    # Paths are bytes to the kernel: what does not decode is still a path.
    text = mountinfo.read_text(encoding="utf-8", errors="surrogateescape")
    paths = [mount.path for mount in parse_mountinfo(text)]
    below = [path for path in paths if path == prefix or path.startswith(prefix + "/")]
    return tuple(sorted(below, key=lambda path: path.count("/"), reverse=True))


def mount_tmpfs(path: str, size_bytes: int | None, mode: int, group: int | None) -> None:
    """Mount a tmpfs whose root has that mode and group from its first moment. Raises OSError with mount(8)'s words."""
    options = [f"mode={mode:04o}"]
    if group is not None:
        options.append(f"gid={group}")
    if size_bytes is not None:
        options.append(f"size={size_bytes}")
    _run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", path])


def unmount(path: str) -> None:
    """Unmount one mount point. Raises OSError with what umount(8) said."""
    _run(["umount", path])


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOUNT_SECONDS_MAX, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{' '.join(command)}: did not end within {MOUNT_SECONDS_MAX}s") from error
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip() or f'exit status {done.returncode}'}")
