"""Pods' directories on the real disk, the agent's notes there, and the files that containers mount from there.

    <root>/pods/<uid>/containers/<container>/<attempt>   termination message files
    <root>/pods/<uid>/etc-hosts                          the managed hosts file
    <root>/pods/<uid>/userns, resources, probes, …       the agent's notes of the pod (``model.pod_notes``)
    <root>/allocated_pods_state, actuated_pods_state     upstream's files of all pods (``model.pod_notes.NodeNote``)
    <root>/removed_pods, unknown_pods                    lists of UIDs (``host.uid_files``)
    <root>/pods/<uid>/volumes/…, volume-subpaths/…       belong to ``volumes``

Removals never follow a symbolic link, and nothing is removed while something is mounted below it, because a container
may have written to these directories. A file that another process removed meanwhile counts as removed.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.core.names import pod_directory
from trikubelet.host.directory_scan import directories
from trikubelet.host.log_ends import end_of
from trikubelet.host.pod_file_threads import PODS
from trikubelet.host.removal import remove_unmounted
from trikubelet.host.uid_files import UNKNOWN_PODS, put_uids, put_unknown, read_uids
from trikubelet.kit.plain_file import open_plain, put_plain, read_plain
from trikubelet.kit.private_file import write_privately
from trikubelet.model.names import uid_problem
from trikubelet.model.pod_notes import NODE_NOTE_BYTES_MAX, NOTE_BYTES_MAX, check_size

if TYPE_CHECKING:
    from collections.abc import Collection

    from trikubelet.host.pod_file_threads import PodFileThreads
    from trikubelet.model.pod_notes import NodeNote, Note

REMOVED_PODS: Final = "removed_pods"
POD_MODE, FILE_MODE, TERMINATION_MODE = 0o750, 0o644, 0o666


class DiskPodDirectories:
    """Owns the layout of pods' directories; the state is the disk's."""

    def __init__(self, root: Path, threads: PodFileThreads) -> None:
        self._root = root
        self._pods = root / "pods"
        self._threads = threads
        self._pods.mkdir(mode=POD_MODE, parents=True, exist_ok=True)

    def _pod(self, uid: str) -> Path:
        return pod_directory(self._pods, uid)

    async def make_pod(self, uid: str) -> None:
        """Create the pod's directory with its parts. Raises OSError, with EBUSY while an earlier instance's is being
        removed."""
        await self._threads.make(partial(_make_pod, self._pod(uid)), PODS, uid)

    async def remove_pod(self, uid: str) -> None:
        """Remove the pod's directory. Raises StillMounted, or OSError."""
        await self._threads.remove(partial(remove_unmounted, self._pod(uid)), PODS, uid)

    async def pods_on_disk(self) -> frozenset[str]:
        """Return the UIDs that have a directory. Other names are ignored."""
        return await self._threads.look(self._uids, PODS)

    def removed_pods(self) -> frozenset[str]:
        """Return the last noted UIDs. Other content is ignored."""
        return read_uids(self._root / REMOVED_PODS)

    def note_removed(self, uids: Collection[str]) -> None:
        """Write the file atomically."""
        put_uids(self._root / REMOVED_PODS, uids)

    def unknown_pods(self) -> frozenset[str]:
        """Return the last noted UIDs. Other content is ignored."""
        return read_uids(self._root / UNKNOWN_PODS)

    async def note_unknown(self, uids: Collection[str]) -> None:
        """Write the file atomically, flushed, or remove it once it would be empty."""
        await self._threads.make(partial(put_unknown, self._root, uids), PODS, UNKNOWN_PODS)

    def _uids(self) -> frozenset[str]:
        return frozenset(name for name in directories(self._pods) if not uid_problem(name))

    async def write_hosts(self, uid: str, content: str) -> str:
        """Write the managed hosts file in place: a container that mounts it sees the same inode. Its old content may be
        any number of any bytes, because containers may write it too."""
        path = self._pod(uid) / "etc-hosts"
        await self._threads.make(partial(_write_in_place, path, content.encode()), PODS, uid)
        return str(path)

    def noted(self, uid: str, note: Note) -> bytes:
        """Return the pod's note of that kind. A file that is too long, which the agent did not write, is cut off."""
        try:
            with open_plain(str(self._pod(uid) / note.value)) as file:
                return file.read(NOTE_BYTES_MAX)
        except FileNotFoundError:
            return b""

    def noted_of_all(self, note: Note) -> dict[str, bytes]:
        """Return every pod's note of that kind; an empty file, which a power cut can leave, is ignored."""
        found = ((uid, self.noted(uid, note)) for uid in self._uids())
        return {uid: content for uid, content in found if content}

    def note(self, uid: str, note: Note, content: bytes) -> None:
        """Write the file atomically. It is not flushed: a power cut also ends the processes, so the lost note is not
        needed."""
        check_size(note, content)
        put_plain(self._pod(uid) / note.value, content)

    def forget_note(self, uid: str, note: Note) -> None:
        """Remove the file; there is no note of an orphan whose UID is an untrusted label with a path."""
        if not uid_problem(uid):
            (self._pod(uid) / note.value).unlink(missing_ok=True)

    def node_note(self, note: NodeNote) -> bytes:
        """See ``ports.PodNotes``."""
        try:
            return read_plain(self._root / note.value, NODE_NOTE_BYTES_MAX)
        except FileNotFoundError:
            return b""

    async def keep_node_note(self, note: NodeNote, content: bytes) -> None:
        """Write the file atomically, and flushed: upstream's kubelet does not start with a damaged one."""
        await self._threads.make(partial(write_privately, self._root / note.value, content), PODS, note.value)

    async def termination_log(self, uid: str, container: str, attempt: int) -> str:
        """Create the file behind terminationMessagePath; every process in the container may write it."""
        path = self._pod(uid) / "containers" / container / str(attempt)
        await self._threads.make(partial(_make_termination_log, path), PODS, uid)
        return str(path)

    async def read_termination_log(self, uid: str, container: str, file: str, bytes_max: int) -> str:
        """Return the end of the container's message."""
        path = str(self._pod(uid) / "containers" / container / file)
        return (await self._threads.read(partial(end_of, path, bytes_max), PODS, path)).decode(errors="replace")


def _make_pod(directory: Path) -> None:
    for part in ("", "volumes", "plugins", "containers"):
        (directory / part).mkdir(mode=POD_MODE, parents=True, exist_ok=True)


def _make_termination_log(path: Path) -> None:
    path.parent.mkdir(mode=POD_MODE, parents=True, exist_ok=True)
    path.touch()
    path.chmod(TERMINATION_MODE)


def _write_in_place(path: Path, wanted: bytes) -> None:
    if not _says(path, wanted):
        # Neither this nor the reading waits for a lease (F_SETLEASE) of a container on its file: the kernel lets it
        # keep one for 45 s, and all pods share the threads. The pod's next sync retries.
        with open(path, "wb", opener=_not_waiting) as file:
            file.write(wanted)
            file.truncate()
        path.chmod(FILE_MODE)


def _not_waiting(path: str, flags: int) -> int:
    # Overwritten and then cut: on a full disk the space of a truncated file may be taken before it is written again.
    return os.open(path, flags & ~os.O_TRUNC | os.O_NONBLOCK, FILE_MODE)


def _says(path: Path, wanted: bytes) -> bool:
    """True if the file exists with just that content. No more of it is read than needed."""
    try:
        with open_plain(str(path)) as file:
            return file.read(len(wanted) + 1) == wanted
    except FileNotFoundError:
        return False
