"""What is asked of the disk for pods: their directories, what is noted of them there, and their containers' files.

The layout is upstream's, under the root directory and the log directory. One adapter has all of it, since the parts lie
in one another (``host.pod_files``); whoever needs one part asks for no more than that. A disk that is busy answers
late and one behind a network perhaps never, so everything but the notes waits: each such call may be given up, and
then goes on by itself. What names all that is there gives itself up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from trikubelet.model.pod_notes import NodeNote, Note


class PodDirectories(Protocol):
    """The directories of this node's pods: made before anything of a pod is, and removed when nothing of it is left."""

    async def make_pod(self, uid: str) -> None:
        """The pod's directory (0750) with its parts. Idempotent. Raises OSError, with EBUSY while one of that name is
        being removed, or an earlier call that was given up has not ended."""
        ...

    async def remove_pod(self, uid: str) -> None:
        """The pod's directory, when nothing is mounted below it. Idempotent. Raises ``model.errors.StillMounted``, or
        OSError, with EBUSY while an earlier removal of it has not ended."""
        ...

    async def pods_on_disk(self) -> frozenset[str]:
        """UIDs that have a pod directory; of more than anybody has pods, some. Raises OSError, with ETIMEDOUT where the
        disk does not answer, and with EBUSY while an earlier look that was given up has not ended; one that is under
        way is waited for."""
        ...

    def removed_pods(self) -> frozenset[str]:
        """The UIDs last passed to ``note_removed``. Synchronous; raises OSError."""
        ...

    def note_removed(self, uids: Collection[str]) -> None:
        """Note the pods whose directory is being removed or gone and of which the runtime or the logs may still have
        something, so that the next agent knows them for this node's. Synchronous; raises OSError."""
        ...

    def unknown_pods(self) -> frozenset[str]:
        """The UIDs that have a directory although another node agent began their pods: those last passed to
        ``note_unknown``, or noted when an agent started here for the first time. Synchronous; raises OSError."""
        ...

    async def note_unknown(self, uids: Collection[str]) -> None:
        """Note which of them are still not this node's, so that a power cut does not lose it. Raises OSError."""
        ...


class PodNotes(Protocol):
    """What the agent notes of a pod in the pod's directory, for itself after a restart. Synchronous, and not for the
    disk's sake alone: who chooses by what is noted of all pods notes its choice before anybody else looks."""

    def noted(self, uid: str, note: Note) -> bytes:
        """What was noted of the pod, empty where nothing was. Raises OSError."""
        ...

    def noted_of_all(self, note: Note) -> Mapping[str, bytes]:
        """What was noted of every pod that has a directory, by UID; only those of which something
        was. Raises OSError."""
        ...

    def note(self, uid: str, note: Note, content: bytes) -> None:
        """Note something of the pod, whole or not at all, until it is forgotten or the pod's directory is removed.
        Raises OSError, with EFBIG for more than is ever read (``NOTE_BYTES_MAX``)."""
        ...

    def forget_note(self, uid: str, note: Note) -> None:
        """Note nothing of that any more. Idempotent, and whatever the runtime calls a UID. Raises OSError."""
        ...

    def node_note(self, note: NodeNote) -> bytes:
        """Return the note of all pods, empty if there is none. Raises OSError."""
        ...

    async def keep_node_note(self, note: NodeNote, content: bytes) -> None:
        """Note it, whole or not at all, on the disk when this returns. Raises OSError, with EBUSY while an earlier
        write that was given up has not ended."""
        ...


class ContainerFiles(Protocol):
    """What containers have mounted from a pod's directory, what they leave to say there, and their logs, with the
    legacy links to those."""

    async def write_hosts(self, uid: str, content: str) -> str:
        """Write the managed hosts file; its host path. Raises OSError, with EBUSY as ``make_pod``."""
        ...

    async def termination_log(self, uid: str, container: str, attempt: int) -> str:
        """Create the file behind ``terminationMessagePath`` of that attempt; its host path. Raises OSError, with
        EBUSY as ``make_pod``."""
        ...

    async def read_termination_log(self, uid: str, container: str, file: str, bytes_max: int) -> str:
        """What the container wrote there, of a longer text the last ``bytes_max``; empty when there is none. ``file``:
        its name, the attempt of a container of this agent. Raises OSError with EBUSY while an earlier reading of it,
        which was given up, has not ended."""
        ...

    async def make_log_directory(self, directory: str, container: str) -> None:
        """The container's directory below the pod's log directory. Idempotent. Raises OSError, with EBUSY while that
        is being removed, or an earlier call that was given up has not ended."""
        ...

    async def log_attempts(self, directory: str, container: str) -> Sequence[int]:
        """The runs of a container that left something of their logs, newest first: each N of which there is ``N.log``,
        or a part that was rotated away from it. Of more than ``core.names.LOGGED_ATTEMPTS_MAX`` the newest: the others
        are told when those are gone. ``directory``: of the pod's logs."""
        ...

    async def tail_log(self, path: str, lines_max: int, bytes_max: int) -> str:
        """The last lines of a CRI log file, without the CRI's prefixes, and of what was rotated away last where it has
        too few; empty when there is none. Raises OSError with EBUSY while an earlier reading of it, which was given up,
        has not ended."""
        ...

    async def link_log(self, link_name: str, log_path: str) -> None:
        """The legacy link under /var/log/containers. Idempotent. Raises OSError."""
        ...

    async def log_directories(self) -> frozenset[str]:
        """Names of the pod log directories that exist, or of some. Raises OSError as ``pods_on_disk``."""
        ...

    async def remove_log_directory(self, name: str) -> None:
        """One pod's log directory, when nothing is mounted below it, and the legacy links that point into it.
        Idempotent. Raises ``model.errors.StillMounted``, or OSError, with EBUSY while an earlier removal of it has not
        ended."""
        ...

    async def remove_dead_links(self, container_ids: Collection[str]) -> None:
        """The legacy links whose log is gone, but for those of ``container_ids``, whose log may be under rotation.
        They may lead to another disk, which hangs. Raises OSError, with EBUSY where an earlier call has not ended."""
        ...

    async def remove_container_logs(self, log_path: str) -> None:
        """The log file of one container with its rotated parts, and the legacy links to it. The path is the runtime's
        word: one that does not lie below a pod's log directory is left alone, and that is said. Idempotent. Raises
        OSError."""
        ...


class PodFiles(PodDirectories, PodNotes, ContainerFiles, Protocol):
    """All of it, for those who join the parts."""
