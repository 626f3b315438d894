"""User ids of the node for pods with a user namespace: chooses, notes and releases them.

Nothing is kept in memory. A pod's ids are noted in its directory before its sandbox is created, so the next agent after
a crash finds them, and removing the directory releases them. There is no checkpoint between reading the ids of all pods
and writing those of another one. ``core.user_namespaces`` decides; ``pods.sandbox_configs`` requests,
``pods.preparation`` releases.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trikubelet.core.containers.errors import SandboxConfigError
from trikubelet.core.names import object_ref
from trikubelet.core.user_namespaces import ids_of, problems, read_of, written
from trikubelet.model.pod_notes import Note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trikubelet.core.user_namespaces import IdPool
    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime_config import IdRange
    from trikubelet.ports import PodNotes, RuntimeHealth

log = logging.getLogger(__name__)


class UserIds:
    """Owns the mapping of pods' users to the node's: the file ``userns`` of the pod's directory."""

    def __init__(
        self,
        notes: PodNotes,
        pool: IdPool,
        health: RuntimeHealth,
        ids_of_users: Callable[[], Iterable[IdRange]] = tuple,
    ) -> None:
        """``ids_of_users`` returns the ids that users of the node may use for their own containers, or raises
        OSError."""
        self._notes = notes
        self._pool = pool
        self._health = health
        self._ids_of_users = ids_of_users

    def log_problems(self) -> None:
        """Log the faults in earlier notes: the affected pods get no new sandbox, but run on."""
        try:
            found = list(problems(self._notes.noted_of_all(Note.USER_IDS)))
        except OSError as error:
            found = [str(error)]
        for problem in found:
            log.warning("Users of pods: %s", problem)

    def of_new(self, pod: Pod, handler: str) -> IdRange | None:
        """Return the ids for a new sandbox of a runtime handler, chosen and noted if needed; None if the pod uses the
        node's users. Raises SandboxConfigError."""
        if pod.spec.host_users is not False:
            return None
        if not self._health.supports_user_namespaces(handler):
            who = f'RuntimeClass handler "{handler}"' if handler else "runtime"
            raise SandboxConfigError(f"can't set `spec.hostUsers: false`, {who} does not support user namespaces")
        uid = pod.metadata.uid
        try:
            files = self._notes.noted_of_all(Note.USER_IDS)
            users = () if self._pool.is_set_aside else self._ids_of_users()
            ids = ids_of(uid, files, self._pool, users)
            if uid not in files:
                self._notes.note(uid, Note.USER_IDS, written(ids))
                last = ids.first + ids.length - 1
                log.info("Pod %s: its users are the node's %d to %d", object_ref(pod), ids.first, last)
        except (OSError, ValueError) as error:
            raise SandboxConfigError(f"user namespace: {error}") from error
        return ids

    def of_standing(self, pod: Pod) -> IdRange | None:
        """Return the ids of the pod's existing sandbox; None if the pod uses the node's users. Raises
        SandboxConfigError if they are unknown, because others would not match the runtime's."""
        if pod.spec.host_users is not False:
            return None
        uid = pod.metadata.uid
        try:
            return read_of(uid, self._notes.noted(uid, Note.USER_IDS))
        except (OSError, ValueError) as error:
            raise SandboxConfigError(f"user namespace: {error}") from error

    def release(self, uid: str) -> None:
        """Release the ids of a pod whose containers will not run again. If the disk cannot be written, that waits until
        the pod's directory is removed."""
        try:
            self._notes.forget_note(uid, Note.USER_IDS)
        except OSError as error:
            log.warning("Pod %s: its user namespace cannot be released: %s", uid, error)
