"""Users of the node for pods that have a user namespace of their own: found, given, written down, given back.

Nothing is remembered. What a pod has stands in its directory before its sandbox is made, so a killed agent's successor
finds it, and a directory that is gone has given back what it held. No checkpoint lies between reading what all pods
have and writing what one more gets. ``core.user_namespaces`` decides; ``pods.sandbox_configs`` asks,
``pods.preparation`` gives back.
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
    """Owns which users of the node a pod's own users are: the file ``userns`` of the pod's directory."""

    def __init__(
        self,
        notes: PodNotes,
        pool: IdPool,
        health: RuntimeHealth,
        ids_of_users: Callable[[], Iterable[IdRange]] = tuple,
    ) -> None:
        """``ids_of_users`` returns the ids that users of the node may take for their own containers, or raises
        OSError."""
        self._notes = notes
        self._pool = pool
        self._health = health
        self._ids_of_users = ids_of_users

    def log_problems(self) -> None:
        """Log what is wrong with what was written down before: the pods in question get no new sandbox, but run on."""
        try:
            found = list(problems(self._notes.noted_of_all(Note.USER_IDS)))
        except OSError as error:
            found = [str(error)]
        for problem in found:
            log.warning("Users of pods: %s", problem)

    def of_new(self, pod: Pod, handler: str) -> IdRange | None:
        """What a sandbox that is about to be made by a runtime handler shall have, chosen and written down if need be;
        None where the pod's users are the node's. Raises SandboxConfigError."""
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
        """What the pod's sandbox, which stands, was made with; None where the pod's users are the node's. Raises
        SandboxConfigError where nobody knows: another choice would be one the runtime has not made."""
        if pod.spec.host_users is not False:
            return None
        uid = pod.metadata.uid
        try:
            return read_of(uid, self._notes.noted(uid, Note.USER_IDS))
        except (OSError, ValueError) as error:
            raise SandboxConfigError(f"user namespace: {error}") from error

    def release(self, uid: str) -> None:
        """None of the pod's containers will run again: others may have its users. A disk that cannot be written keeps
        them until the pod's directory is gone."""
        try:
            self._notes.forget_note(uid, Note.USER_IDS)
        except OSError as error:
            log.warning("Pod %s: its user namespace cannot be released: %s", uid, error)
