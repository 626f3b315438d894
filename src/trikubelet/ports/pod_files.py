"""Ports of the pods' files: their directories, the agent's notes in them, and their containers' files.

The layout is upstream's, under the root directory and the log directory. One adapter implements all of it, because the
parts are nested (``host.pod_files``); a component takes only the part that it needs. A busy disk answers late and a
remote one perhaps never, so all calls but those for notes wait: each may be cancelled, and then continues by itself.
The calls that list everything have a time limit of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from trikubelet.model.pod_notes import NodeNote, Note


class PodDirectories(Protocol):
    """The directories of this node's pods: created before anything else of a pod, and removed after everything else."""

    async def make_pod(self, uid: str) -> None:
        """Create the pod's directory (0750) with its parts. Idempotent. Raises OSError, with EBUSY while one of that
        name is being removed, or an earlier cancelled call has not ended."""
        ...

    async def remove_pod(self, uid: str) -> None:
        """Remove the pod's directory, if nothing is mounted below it. Idempotent. Raises ``model.errors.StillMounted``,
        or OSError, with EBUSY while an earlier removal of it has not ended."""
        ...

    async def pods_on_disk(self) -> frozenset[str]:
        """Return the UIDs that have a pod directory; only some of an excessive number. Waits for an earlier call in
        progress. Raises OSError, with ETIMEDOUT if the disk does not answer, and with EBUSY while an earlier call that
        timed out has not ended."""
        ...

    def removed_pods(self) -> frozenset[str]:
        """Return the UIDs last passed to ``note_removed``. Synchronous; raises OSError."""
        ...

    def note_removed(self, uids: Collection[str]) -> None:
        """Note the pods whose directory is being removed or gone and that may still have containers or logs, so that
        the next agent recognises them as this node's. Synchronous; raises OSError."""
        ...

    def unknown_pods(self) -> frozenset[str]:
        """Return the UIDs that have a directory although another node agent began their pods: those last passed to
        ``note_unknown``, or noted when an agent started here for the first time. Synchronous; raises OSError."""
        ...

    async def note_unknown(self, uids: Collection[str]) -> None:
        """Note which of them are still not this node's, flushed to the disk. Raises OSError."""
        ...


class PodNotes(Protocol):
    """The agent's notes in a pod's directory, which it reads after a restart. Synchronous, and not only for the disk's
    sake: a component that chooses by the notes of all pods must write its choice before another reads them."""

    def noted(self, uid: str, note: Note) -> bytes:
        """Return the pod's note, empty if there is none. Raises OSError."""
        ...

    def noted_of_all(self, note: Note) -> Mapping[str, bytes]:
        """Return the notes of all pods with a directory, by UID; without empty ones. Raises OSError."""
        ...

    def note(self, uid: str, note: Note, content: bytes) -> None:
        """Write a note of the pod atomically; it lasts until it is forgotten or the pod's directory is removed. Raises
        OSError, with EFBIG beyond the limit for reading (``NOTE_BYTES_MAX``)."""
        ...

    def forget_note(self, uid: str, note: Note) -> None:
        """Remove the note. Idempotent, and safe for any string as a UID. Raises OSError."""
        ...

    def node_note(self, note: NodeNote) -> bytes:
        """Return the note of all pods, empty if there is none. Raises OSError."""
        ...

    async def keep_node_note(self, note: NodeNote, content: bytes) -> None:
        """Write it atomically; it is on the disk when this returns. Raises OSError, with EBUSY while an earlier
        cancelled write has not ended."""
        ...


class ContainerFiles(Protocol):
    """The files that containers mount from a pod's directory, their termination messages, and their logs, with the
    legacy links to those."""

    async def write_hosts(self, uid: str, content: str) -> str:
        """Write the managed hosts file and return its host path. Raises OSError, with EBUSY like ``make_pod``."""
        ...

    async def termination_log(self, uid: str, container: str, attempt: int) -> str:
        """Create the file behind ``terminationMessagePath`` of that attempt and return its host path. Raises OSError,
        with EBUSY like ``make_pod``."""
        ...

    async def read_termination_log(self, uid: str, container: str, file: str, bytes_max: int) -> str:
        """Return the container's termination message, of a longer text the last ``bytes_max``; empty without one.
        ``file``: its name, the attempt of a container of this agent. Raises OSError with EBUSY while an earlier
        cancelled read of it has not ended."""
        ...

    async def make_log_directory(self, directory: str, container: str) -> None:
        """Create the container's directory below the pod's log directory. Idempotent. Raises OSError, with EBUSY while
        that is being removed, or an earlier cancelled call has not ended."""
        ...

    async def log_attempts(self, directory: str, container: str) -> Sequence[int]:
        """Return the attempts of a container that have log files, newest first: each N with an ``N.log`` or a rotated
        part of it. At most ``core.names.LOGGED_ATTEMPTS_MAX`` are returned; the others appear once those are removed.
        ``directory``: of the pod's logs."""
        ...

    async def tail_log(self, path: str, lines_max: int, bytes_max: int) -> str:
        """Return the last lines of a CRI log file, without the CRI's prefixes, including the newest rotated part if it
        has too few; empty without a log. Raises OSError with EBUSY while an earlier cancelled read of it has not ended.
        """
        ...

    async def link_log(self, link_name: str, log_path: str) -> None:
        """Create the legacy link under /var/log/containers. Idempotent. Raises OSError."""
        ...

    async def log_directories(self) -> frozenset[str]:
        """Return the names of the existing pod log directories; only some of an excessive number. Raises OSError like
        ``pods_on_disk``."""
        ...

    async def remove_log_directory(self, name: str) -> None:
        """Remove one pod's log directory, if nothing is mounted below it, and the legacy links into it. Idempotent.
        Raises ``model.errors.StillMounted``, or OSError, with EBUSY while an earlier removal of it has not ended."""
        ...

    async def remove_dead_links(self, container_ids: Collection[str]) -> None:
        """Remove the legacy links whose log is gone, except those of ``container_ids``, whose log may be under
        rotation. Links may lead to another disk, which hangs. Raises OSError, with EBUSY while an earlier call has not
        ended."""
        ...

    async def remove_container_logs(self, log_path: str) -> None:
        """Remove the log file of one container with its rotated parts, and the legacy links to it. The path is reported
        by the runtime: one that is not below a pod's log directory is left alone, and that is logged. Idempotent.
        Raises OSError."""
        ...


class PodFiles(PodDirectories, PodNotes, ContainerFiles, Protocol):
    """All of it, for the code that connects the parts."""
