"""The pod directories and log files on the real disk (``ports.PodFiles``).

    <root>/pods/<uid>/containers/<container>/<attempt>   termination message files
    <root>/pods/<uid>/etc-hosts                          the managed hosts file
    <root>/pods/<uid>/userns, resources, probes          the pod's checkpoints
    <root>/pods/<uid>/volumes/…, volume-subpaths/…       belong to ``volumes``
    <logs>/<ns>_<name>_<uid>/<container>/<n>.log         written by the runtime
    <containers>/<pod>_<ns>_<container>-<id>.log         legacy links

Nothing here follows a symbolic link when it removes, and nothing is removed while something is mounted below it: a
container may have written to these directories. Nor is anything removed outside them, whatever path a runtime reports.
What another process removed meanwhile was to go anyway. And since containers decide how much there is, it is removed in
threads, one for each directory at a time, and nothing is recreated while one runs. Making files, and reading those that
containers wrote and every status needs, has threads of its own: neither waits for a removal, and a log may lie on a
file system that hangs.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from trikubelet.core.log_rotation import is_finished, stem
from trikubelet.core.names import ATTEMPT_DIGITS_MAX, pod_directory
from trikubelet.host.logs import RECORD_BYTES_MAX, end_of_log
from trikubelet.host.mounts import mounted_below
from trikubelet.host.removal import remove_tree
from trikubelet.kit.disk import on_disk
from trikubelet.kit.plain_file import open_plain, put_plain
from trikubelet.kit.threads import StillRunning
from trikubelet.model.errors import StillMounted
from trikubelet.model.names import uid_problem
from trikubelet.model.pod_notes import NOTE_BYTES_MAX, check_size

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.pod_notes import Note

log = logging.getLogger(__name__)

T = TypeVar("T")

_ATTEMPT = re.compile(rf"(\d{{1,{ATTEMPT_DIGITS_MAX}}})\.log(?:\..*)?", re.ASCII)
POD_MODE, FILE_MODE, TERMINATION_MODE = 0o750, 0o644, 0o666
DIRECTORIES_MAX: Final = 20_000
"""So many pods' directories are named at once, far more than a node has. Whoever asks removes what nobody needs, and
finds others the next time."""

_PODS, _LOGS = "pods", "logs"
_MAKE, _LOOK = "make ", "look through "
_DEAD_LINKS = "links whose log is gone"
"""``_MAKE`` is before the key of what makes: the two pools may be one; then only the keys distinguish it from
removing."""


class DiskPodFiles:
    """Owns the layout; the state is the disk's. Logs the first path it refuses to remove as a warning."""

    def __init__(
        self, root: Path, logs: Path, containers: Path, removing: ThreadPool, using: ThreadPool | None = None
    ) -> None:
        """``removing``: the threads that remove, logs among those that may hang; ``using``: those that make and read,
        by default the same."""
        self._pods = root / "pods"
        self._logs = logs
        self._containers = containers
        self._removing = removing
        self._using = using or removing
        self._has_refused = False
        for directory, mode in ((self._pods, POD_MODE), (logs, 0o755), (containers, 0o755)):
            directory.mkdir(mode=mode, parents=True, exist_ok=True)

    # ---- pod directories ----

    def _pod(self, uid: str) -> Path:
        return pod_directory(self._pods, uid)

    async def make_pod(self, uid: str) -> None:
        """The pod's directory with its parts. Raises OSError, with EBUSY while an earlier instance's is being
        removed."""
        await self._make_in_thread(partial(_make_pod, self._pod(uid)), _PODS, uid)

    async def remove_pod(self, uid: str) -> None:
        """The pod's directory. Raises StillMounted, or OSError."""
        await self._remove_in_thread(partial(_remove, self._pod(uid)), _PODS, uid)

    async def pods_on_disk(self) -> frozenset[str]:
        """UIDs that have a directory. A name that is not a UID is not a pod's."""
        return await on_disk(self._using, self._uids, _LOOK + _PODS, may_hang=True)

    def _uids(self) -> frozenset[str]:
        return frozenset(name for name in _directories(self._pods) if not uid_problem(name))

    async def write_hosts(self, uid: str, content: str) -> str:
        """Write the managed hosts file in place: a container that has it mounted sees the same inode. What it holds now
        may be any bytes and as many, since the containers may write it too."""
        path = self._pod(uid) / "etc-hosts"
        await self._make_in_thread(partial(_write_in_place, path, content.encode()), _PODS, uid)
        return str(path)

    def noted(self, uid: str, note: Note) -> bytes:
        """The pod's checkpoint of that kind. A file that is too long, which the agent did not write, is cut off."""
        try:
            with open_plain(str(self._pod(uid) / note.value)) as file:
                return file.read(NOTE_BYTES_MAX)
        except FileNotFoundError:
            return b""

    def noted_of_all(self, note: Note) -> dict[str, bytes]:
        """Every pod's checkpoint of that kind; an empty file, which a power cut can leave, is ignored."""
        found = ((uid, self.noted(uid, note)) for uid in self._uids())
        return {uid: content for uid, content in found if content}

    def note(self, uid: str, note: Note, content: bytes) -> None:
        """Put the file in place atomically. Not flushed: what a power cut loses is not needed, for it ends the
        processes, too."""
        check_size(note, content)
        put_plain(self._pod(uid) / note.value, content)

    def forget_note(self, uid: str, note: Note) -> None:
        """Remove the file; nothing was noted of an orphan whose UID is somebody else's label and leads elsewhere."""
        if not uid_problem(uid):
            (self._pod(uid) / note.value).unlink(missing_ok=True)

    async def termination_log(self, uid: str, container: str, attempt: int) -> str:
        """Create the file behind terminationMessagePath; anyone in the container may write it."""
        path = self._pod(uid) / "containers" / container / str(attempt)
        await self._make_in_thread(partial(_make_termination_log, path), _PODS, uid)
        return str(path)

    async def read_termination_log(self, uid: str, container: str, attempt: int, bytes_max: int) -> str:
        """The end of what the container wrote there."""
        path = str(self._pod(uid) / "containers" / container / str(attempt))
        return (await self._read_in_thread(partial(_end_of, path, bytes_max), _PODS, path)).decode(errors="replace")

    # ---- logs ----

    async def make_log_directory(self, directory: str, container: str) -> None:
        """The container's log directory. Raises OSError, with EBUSY while the pod's is being removed."""
        name = os.path.basename(directory)
        make = partial((Path(directory) / container).mkdir, mode=0o755, parents=True, exist_ok=True)
        await self._make_in_thread(make, _LOGS, name)

    async def log_attempts(self, directory: str, container: str) -> Sequence[int]:
        """Each N of the container's ``N.log`` files and their rotated parts, highest first. What cannot be read holds
        none, and a name whose number no attempt can have is not one."""
        # No key: a request for a log may run beside the pod's sync, and both are to be answered.
        return await self._using.run(partial(_attempts, Path(directory) / container), may_hang=True)

    async def tail_log(self, path: str, lines_max: int, bytes_max: int) -> str:
        """The last lines of a CRI log, without its prefixes, also of one that was rotated just now."""
        # Each line carries some 40 bytes of prefix that do not count, and the first of them may be long.
        size = bytes_max + lines_max * 64 + RECORD_BYTES_MAX
        end = await self._read_in_thread(partial(_end_with_part, path, size), _LOGS, path)
        return end_of_log(end, lines_max, bytes_max, is_cut=len(end) >= size).decode(errors="replace")

    async def link_log(self, link_name: str, log_path: str) -> None:
        """The legacy link. A link of that name from an earlier pod instance is replaced."""
        await self._using.run(partial(_link, self._containers / link_name, log_path))

    async def log_directories(self) -> frozenset[str]:
        """Names of the pod log directories."""
        return await on_disk(self._using, partial(_directories, self._logs), _LOOK + _LOGS, may_hang=True)

    async def remove_log_directory(self, name: str) -> None:
        """One pod's logs and then the links into them. Raises StillMounted, or OSError."""
        await self._remove_in_thread(partial(self._remove_log_directory, self._logs / name), _LOGS, name)

    def _remove_log_directory(self, directory: Path) -> None:
        _remove(directory)
        self._remove_links(f"{directory}/")

    async def remove_container_logs(self, log_path: str) -> None:
        """A container's log with its rotated parts, and the links to it; nothing outside the pods' logs. Raises
        OSError when a part cannot be removed."""
        await self._remove_in_thread(partial(self._remove_container_logs, log_path), _LOGS, log_path)

    def _remove_container_logs(self, log_path: str) -> None:
        # The path comes from the runtime, and this process may remove anything: links on the way are followed first.
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

    async def remove_dead_links(self, container_ids: Collection[str]) -> None:
        """The legacy links whose log is gone, but for those of living containers."""
        await self._remove_in_thread(partial(self._remove_dead_links, frozenset(container_ids)), _LOGS, _DEAD_LINKS)

    def _remove_dead_links(self, container_ids: Collection[str]) -> None:
        for link in _entries(self._containers):
            if not link.is_symlink() or os.path.exists(link.path):
                continue
            if link.name.removesuffix(".log").rpartition("-")[2] not in container_ids:
                Path(link.path).unlink(missing_ok=True)

    # ---- threads ----

    async def _make_in_thread(self, work: Callable[[], object], kind: str, name: str) -> None:
        """Make something of a pod of which nothing else is being made, nor removed: it would be removed with it. If
        cancelled, the thread goes on."""
        if name in self._removing.running(kind):
            raise OSError(errno.EBUSY, "what was left of an earlier life is still being removed", name)
        try:
            await self._using.run(work, f"{_MAKE}{kind}/{name}", may_hang=kind == _LOGS)
        except StillRunning as error:
            raise OSError(errno.EBUSY, "what was begun for it earlier has not ended yet", name) from error

    async def _remove_in_thread(self, work: Callable[[], object], kind: str, name: str) -> None:
        """Remove something that is not being removed already, nor made: a making that was given up would put it back.
        If cancelled, the thread goes on."""
        if name in self._using.running(f"{_MAKE}{kind}"):
            raise OSError(errno.EBUSY, "what was begun for it earlier has not ended yet", name)
        try:
            await self._removing.run(work, f"{kind}/{name}", may_hang=kind == _LOGS)
        except StillRunning as error:
            raise OSError(errno.EBUSY, "an earlier removal of it has not ended yet", name) from error

    async def _read_in_thread(self, work: Callable[[], T], kind: str, path: str) -> T:
        """Read what a container wrote. If cancelled, the thread goes on, and stays the only one for that path."""
        try:
            return await self._using.run(work, path, may_hang=kind == _LOGS)
        except StillRunning as error:
            raise OSError(errno.EBUSY, "an earlier reading of it has not ended yet", path) from error

    def _remove_links(self, prefix: str) -> None:
        for entry in _entries(self._containers):
            if _target(entry).startswith(prefix):
                Path(entry.path).unlink(missing_ok=True)


def _remove(directory: Path) -> None:
    """Remove a directory that containers may have written to. Raises StillMounted, or OSError."""
    if not directory.is_dir() or directory.is_symlink():
        return
    if mounted := mounted_below(str(directory)):
        raise StillMounted(f"{mounted[0]} is still mounted")
    remove_tree(str(directory))


def _make_pod(directory: Path) -> None:
    for part in ("", "volumes", "plugins", "containers"):
        (directory / part).mkdir(mode=POD_MODE, parents=True, exist_ok=True)


def _make_termination_log(path: Path) -> None:
    path.parent.mkdir(mode=POD_MODE, parents=True, exist_ok=True)
    path.touch()
    path.chmod(TERMINATION_MODE)


def _link(link: Path, target: str) -> None:
    if link.is_symlink() and os.readlink(link) == target:
        return
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _attempts(directory: Path) -> Sequence[int]:
    try:
        names = os.listdir(directory)
    except OSError:
        return ()
    return sorted({int(match[1]) for name in names if (match := _ATTEMPT.fullmatch(name))}, reverse=True)


def _write_in_place(path: Path, wanted: bytes) -> None:
    if not _says(path, wanted):
        # Neither this nor the reading waits for a lease (F_SETLEASE) that a container has on its file: the kernel lets
        # it keep one for 45 s, and the threads are all pods'. The pod's next sync tries again.
        with open(path, "wb", opener=_not_waiting) as file:
            file.write(wanted)
        path.chmod(FILE_MODE)


def _not_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK, FILE_MODE)


def _says(path: Path, wanted: bytes) -> bool:
    """Whether the file exists and holds just that. No more of it is read than needed."""
    try:
        with open_plain(str(path)) as file:
            return file.read(len(wanted) + 1) == wanted
    except FileNotFoundError:
        return False


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    """What is in a directory; nothing when it is not there. Raises OSError when it cannot be read."""
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _directories(directory: Path) -> frozenset[str]:
    """The directories in one, at most ``DIRECTORIES_MAX``; none when it is not there. Raises OSError when it cannot be
    read."""
    try:
        with os.scandir(directory) as entries:
            found = (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
            return frozenset(islice(found, DIRECTORIES_MAX))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()


def _end_of(path: str, bytes_max: int) -> bytes:
    """The last bytes of a file; empty for one that cannot be read, or is not a plain file."""
    try:
        with open_plain(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - bytes_max))
            return file.read(bytes_max)
    except OSError:
        return b""


def _end_with_part(path: str, bytes_max: int) -> bytes:
    """The last bytes of a log, and before them those of its newest rotated part, where it has too few."""
    end = _end_of(path, bytes_max)
    if len(end) < bytes_max and (part := _newest_part(path)):
        end = _end_of(part, bytes_max - len(end)) + end
    return end


def _newest_part(path: str) -> str:
    """The log's newest rotated part, where it is not compressed; empty where there is none."""
    directory, start = os.path.dirname(path), f"{os.path.basename(path)}."
    try:
        names = [name.removeprefix(start) for name in os.listdir(directory) if name.startswith(start)]
    except OSError:
        return ""
    newest = max(filter(is_finished, names), default="")
    return f"{path}.{newest}" if newest and stem(newest) == newest else ""


def _target(entry: os.DirEntry[str]) -> str:
    """The target of a link; empty for what is not a link, or not any more."""
    try:
        return os.readlink(entry.path) if entry.is_symlink() else ""
    except OSError:
        return ""
