"""Pods' log files and the legacy links to them, on the real disk (the logs of ``ports.ContainerFiles``).

    <logs>/<ns>_<name>_<uid>/<container>/<n>.log         written by the runtime
    <containers>/<pod>_<ns>_<container>-<id>.log         legacy links

Nothing is removed outside these directories, whatever path a runtime reports. A container that mounts its logs can
create any number of names next to them: each is handled as it is read, and none is kept (``directory_scan``).
"""

from __future__ import annotations

import logging
import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.core.names import ATTEMPT_DIGITS_MAX, LOGGED_ATTEMPTS_MAX
from trikubelet.host.directory_scan import directories, entries, remove_entries
from trikubelet.host.log_ends import end_with_part
from trikubelet.host.logs import RECORD_BYTES_MAX, end_of_log
from trikubelet.host.pod_file_threads import LOGS, PODS
from trikubelet.host.removal import remove_unmounted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from trikubelet.host.pod_file_threads import PodFileThreads

log = logging.getLogger(__name__)

_ATTEMPT: Final = re.compile(rf"(\d{{1,{ATTEMPT_DIGITS_MAX}}})\.log(?:\.|\Z)", re.ASCII)
_DEAD_LINKS: Final = "links whose log is gone"


class DiskPodLogs:
    """Owns the layout of logs; the state is the disk's. Logs the first path it refuses to remove as a warning."""

    def __init__(self, logs: Path, containers: Path, threads: PodFileThreads) -> None:
        self._logs = logs
        self._containers = containers
        self._threads = threads
        self._has_refused = False
        logs.mkdir(mode=0o750, parents=True, exist_ok=True)
        containers.mkdir(mode=0o755, parents=True, exist_ok=True)

    async def make_log_directory(self, directory: str, container: str) -> None:
        """Create the container's log directory. Raises OSError, with EBUSY while the pod's is being removed."""
        name = os.path.basename(directory)
        make = partial((Path(directory) / container).mkdir, mode=0o755, parents=True, exist_ok=True)
        await self._threads.make(make, LOGS, name)

    async def log_attempts(self, directory: str, container: str) -> Sequence[int]:
        """Return each N of the container's ``N.log`` files and their rotated parts, highest first, at most
        ``LOGGED_ATTEMPTS_MAX``. An unreadable directory has none, and names with impossible numbers are ignored. In a
        directory with too many names to read (``directory_scan.NAMES_MAX``), the highest ones found."""
        # Concurrently, because a request for a log may come during the pod's sync, and both need an answer.
        return await self._threads.use(partial(_attempts, Path(directory) / container), LOGS)

    async def tail_log(self, path: str, lines_max: int, bytes_max: int) -> str:
        """Return the last lines of a CRI log, without its prefixes, also right after a rotation."""
        # Each line has about 40 bytes of prefix that do not count, and the first of them may be long.
        size = bytes_max + lines_max * 64 + RECORD_BYTES_MAX
        end = await self._threads.read(partial(end_with_part, path, size), LOGS, path)
        return end_of_log(end, lines_max, bytes_max, is_cut=len(end) >= size).decode(errors="replace")

    async def link_log(self, link_name: str, log_path: str) -> None:
        """Create the legacy link. A link of that name from an earlier pod instance is replaced."""
        await self._threads.use(partial(_link, self._containers / link_name, log_path), PODS)

    async def log_directories(self) -> frozenset[str]:
        """Return the names of the pod log directories."""
        return await self._threads.look(partial(directories, self._logs), LOGS)

    async def remove_log_directory(self, name: str) -> None:
        """Remove one pod's logs and then the links into them. Raises StillMounted, or OSError."""
        await self._threads.remove(partial(self._remove_log_directory, self._logs / name), LOGS, name)

    def _remove_log_directory(self, directory: Path) -> None:
        remove_unmounted(directory)
        self._remove_links(f"{directory}/")

    async def remove_container_logs(self, log_path: str) -> None:
        """Remove a container's log with its rotated parts, and then the links to it; nothing outside the pods' logs.
        Raises OSError if a part cannot be removed, and with EFBIG if there are too many names to read: the log itself
        is gone then."""
        await self._threads.remove(partial(self._remove_container_logs, log_path), LOGS, log_path)

    def _remove_container_logs(self, log_path: str) -> None:
        # The path comes from the runtime, and this process may remove anything: links on the way are resolved first.
        path = Path(log_path)
        directory = Path(os.path.realpath(path.parent))
        if not path.is_absolute() or Path(os.path.realpath(self._logs)) not in directory.parents or path.name == "..":
            level = logging.DEBUG if self._has_refused else logging.WARNING
            log.log(level, "Not removing the log %s: the runtime names it, but it is not below %s", path, self._logs)
            self._has_refused = True
            return
        own = directory / path.name
        if own.is_symlink() or not own.is_dir():
            own.unlink(missing_ok=True)  # at once, because it may be behind more names than are read
        remove_entries(directory, partial(_is_part, path.name))
        self._remove_links(log_path)

    async def remove_dead_links(self, container_ids: Collection[str]) -> None:
        """Remove the legacy links whose log is gone, except those of living containers."""
        is_dead = partial(_is_dead, frozenset(container_ids))
        await self._threads.remove(partial(remove_entries, self._containers, is_dead), LOGS, _DEAD_LINKS)

    def _remove_links(self, prefix: str) -> None:
        remove_entries(self._containers, lambda entry: _target(entry).startswith(prefix))


def _attempts(directory: Path) -> Sequence[int]:
    found: set[int] = set()
    lowest = -1  # of those that are kept, once there are enough
    try:
        for entry in entries(directory):
            match = _ATTEMPT.match(entry.name)
            if match and (number := int(match[1])) > lowest:
                found.add(number)
                if len(found) == 2 * LOGGED_ATTEMPTS_MAX:
                    found = set(_highest(found))
                    lowest = min(found)
    except OSError:
        return ()
    return _highest(found)


def _highest(attempts: Collection[int]) -> Sequence[int]:
    return sorted(attempts, reverse=True)[:LOGGED_ATTEMPTS_MAX]


def _link(link: Path, target: str) -> None:
    if link.is_symlink() and os.readlink(link) == target:
        return
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _is_part(log_name: str, entry: os.DirEntry[str]) -> bool:
    """True if its name is that of a rotated part of the log, and it is not a directory."""
    return entry.name.startswith(f"{log_name}.") and not entry.is_dir(follow_symlinks=False)


def _is_dead(container_ids: Collection[str], entry: os.DirEntry[str]) -> bool:
    """True for a link whose log is gone and that belongs to none of these containers."""
    if not entry.is_symlink() or entry.name.removesuffix(".log").rpartition("-")[2] in container_ids:
        return False
    return not os.path.exists(entry.path)


def _target(entry: os.DirEntry[str]) -> str:
    """Return the target of a link; empty if it is not a link, or not any more."""
    try:
        return os.readlink(entry.path) if entry.is_symlink() else ""
    except OSError:
        return ""
