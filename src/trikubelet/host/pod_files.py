"""The pod directories and log files on the real disk (``ports.PodFiles``).

    <root>/pods/<uid>/containers/<container>/<attempt>   termination message files
    <root>/pods/<uid>/etc-hosts                          the managed hosts file
    <root>/pods/<uid>/volumes/…                          belongs to ``volumes``
    <logs>/<ns>_<name>_<uid>/<container>/<n>.log         written by the runtime
    <containers>/<pod>_<ns>_<container>-<id>.log         legacy links

Nothing here follows a symbolic link when it removes, and nothing is removed while something is mounted below it: a
container may have had its hands in these directories. Nor is anything removed outside them, whatever path a runtime
reports. What somebody else removed while we looked was to go anyway.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from trikubelet.host.logs import plain_lines
from trikubelet.host.mounts import mounted_below
from trikubelet.model.errors import StillMounted

if TYPE_CHECKING:
    from collections.abc import Collection

log = logging.getLogger(__name__)

_ATTEMPT = re.compile(r"(\d+)\.log")
POD_MODE, FILE_MODE, TERMINATION_MODE = 0o750, 0o644, 0o666


class DiskPodFiles:
    """Owns the layout; the state is the disk's. Logs the first path it refuses to remove as a warning."""

    def __init__(self, root: Path, logs: Path, containers: Path) -> None:
        self._pods = root / "pods"
        self._logs = logs
        self._containers = containers
        self._has_refused = False
        for directory, mode in ((self._pods, POD_MODE), (logs, 0o755), (containers, 0o755)):
            directory.mkdir(mode=mode, parents=True, exist_ok=True)

    # ---- pod directories ----

    def make_pod(self, uid: str) -> None:
        """The pod's directory with its parts."""
        for part in ("", "volumes", "plugins", "containers"):
            (self._pods / uid / part).mkdir(mode=POD_MODE, parents=True, exist_ok=True)

    def remove_pod(self, uid: str) -> None:
        """The pod's directory. Raises StillMounted, or OSError."""
        directory = self._pods / uid
        mounted = mounted_below(str(directory))
        if mounted:
            raise StillMounted(f"{mounted[0]} is still mounted")
        if directory.is_dir() and not directory.is_symlink():
            shutil.rmtree(directory)

    def pods_on_disk(self) -> frozenset[str]:
        """UIDs that have a directory."""
        return _directories(self._pods)

    def write_hosts(self, uid: str, content: str) -> str:
        """Write the managed hosts file in place: a container that has it mounted sees the same inode. What it holds now
        may be any bytes, since the containers may write it too."""
        path, wanted = self._pods / uid / "etc-hosts", content.encode()
        if not path.exists() or path.read_bytes() != wanted:
            path.write_bytes(wanted)
            path.chmod(FILE_MODE)
        return str(path)

    def termination_log(self, uid: str, container: str, attempt: int) -> str:
        """Create the file behind terminationMessagePath; anyone in the container may write it."""
        path = self._pods / uid / "containers" / container / str(attempt)
        path.parent.mkdir(mode=POD_MODE, parents=True, exist_ok=True)
        path.touch()
        path.chmod(TERMINATION_MODE)
        return str(path)

    def read_termination_log(self, uid: str, container: str, attempt: int, bytes_max: int) -> str:
        """The end of what the container wrote there."""
        path = self._pods / uid / "containers" / container / str(attempt)
        try:
            with path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - bytes_max))
                return file.read(bytes_max).decode(errors="replace")
        except OSError:
            return ""

    # ---- logs ----

    def make_log_directory(self, directory: str, container: str) -> None:
        """The container's log directory."""
        (Path(directory) / container).mkdir(mode=0o755, parents=True, exist_ok=True)

    def highest_log_attempt(self, directory: str, container: str) -> int | None:
        """The highest N of the container's ``N.log`` files."""
        try:
            names = os.listdir(Path(directory) / container)
        except OSError:
            return None
        attempts = [int(match[1]) for name in names if (match := _ATTEMPT.match(name))]
        return max(attempts, default=None)

    def tail_log(self, path: str, lines_max: int, bytes_max: int) -> str:
        """The last lines of a CRI log, without its prefixes."""
        try:
            with open(path, "rb") as file:
                file.seek(0, os.SEEK_END)
                # Each line carries some 40 bytes of prefix that do not count.
                file.seek(max(0, file.tell() - bytes_max - lines_max * 64))
                lines = plain_lines(file.read())
        except OSError:
            return ""
        return b"".join(lines[-lines_max:])[-bytes_max:].decode(errors="replace")

    def link_log(self, link_name: str, log_path: str) -> None:
        """The legacy link. A link of that name from an earlier life is replaced."""
        link = self._containers / link_name
        if link.is_symlink() and os.readlink(link) == log_path:
            return
        link.unlink(missing_ok=True)
        link.symlink_to(log_path)

    def log_directories(self) -> frozenset[str]:
        """Names of the pod log directories."""
        return _directories(self._logs)

    def remove_log_directory(self, name: str) -> None:
        """One pod's logs and the links into them."""
        directory = self._logs / name
        self._remove_links(f"{directory}/")
        if directory.is_dir() and not directory.is_symlink():
            shutil.rmtree(directory, ignore_errors=True)

    def remove_container_logs(self, log_path: str) -> None:
        """A container's log with its rotated parts, and the links to it; nothing outside the pods' logs. Raises
        OSError when a part cannot be removed."""
        # The runtime says where the log is, and this process may remove anything: links on the way are followed first.
        path = Path(log_path)
        directory = Path(os.path.realpath(path.parent))
        if not path.is_absolute() or Path(os.path.realpath(self._logs)) not in directory.parents or path.name == "..":
            level = logging.DEBUG if self._has_refused else logging.WARNING
            log.log(level, "Not removing the log %s: the runtime names it, but it is not below %s", path, self._logs)
            self._has_refused = True
            return
        self._remove_links(log_path)
        for entry in _entries(directory):
            is_part = entry.name == path.name or entry.name.startswith(f"{path.name}.")
            if is_part and not entry.is_dir(follow_symlinks=False):
                Path(entry.path).unlink(missing_ok=True)

    def remove_dead_links(self, container_ids: Collection[str]) -> None:
        """The legacy links whose log is gone, but for those of living containers."""
        for link in _entries(self._containers):
            if not link.is_symlink() or os.path.exists(link.path):
                continue
            if link.name.removesuffix(".log").rpartition("-")[2] not in container_ids:
                Path(link.path).unlink(missing_ok=True)

    def _remove_links(self, prefix: str) -> None:
        for entry in _entries(self._containers):
            if _target(entry).startswith(prefix):
                Path(entry.path).unlink(missing_ok=True)


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    """What is in a directory; nothing when it is not there. Raises OSError when it cannot be read."""
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _directories(directory: Path) -> frozenset[str]:
    return frozenset(entry.name for entry in _entries(directory) if entry.is_dir(follow_symlinks=False))


def _target(entry: os.DirEntry[str]) -> str:
    """Where a link points; empty for what is none, or none any more."""
    try:
        return os.readlink(entry.path) if entry.is_symlink() else ""
    except OSError:
        return ""
