"""When static pods with ``activeDeadlineSeconds`` began, noted in their directories.

Their deadline counts from then, also for the next agent. An API server remembers that of its own pods. The runtime does
not: after a reboot each pod gets another sandbox, and the old one is collected as garbage.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trikubelet.core.names import is_static, object_ref
from trikubelet.core.timestamps import parse_rfc3339
from trikubelet.kit.failure_log import FailureLog
from trikubelet.model.pod_notes import Note

if TYPE_CHECKING:
    from trikubelet.model import k8s
    from trikubelet.ports import PodNotes

log = logging.getLogger(__name__)


class StartTimes:
    """Owns when such pods began, as it is noted: RFC 3339 by UID, empty where nothing is."""

    def __init__(self, notes: PodNotes) -> None:
        self._notes = notes
        self._noted: dict[str, str] = {}
        self._failure_log = FailureLog()

    def of(self, pod: k8s.Pod) -> str:
        """When the pod began by its note, in RFC 3339; empty where it has none."""
        if not _counts(pod):
            return ""
        uid = pod.metadata.uid
        if uid not in self._noted:
            self._noted[uid] = self._read(pod)
        return self._noted[uid]

    def note(self, pod: k8s.Pod, start_time: str) -> None:
        """The pod has a directory now: note there, once, when it began."""
        uid = pod.metadata.uid
        if not _counts(pod) or self.of(pod) == start_time:
            return
        try:
            self._notes.note(uid, Note.STARTED, start_time.encode())
        except OSError as error:
            if self._failure_log.may_log(uid):
                log.warning("Pod %s: cannot note when it began, for its deadline: %s", object_ref(pod), error)
        else:
            self._failure_log.works_again(uid)
            self._noted[uid] = start_time

    def forget(self, uid: str) -> None:
        """This instance of the pod is over: another under its UID begins anew."""
        self._failure_log.works_again(uid)
        if not self._noted.pop(uid, ""):
            return
        try:
            self._notes.forget_note(uid, Note.STARTED)
        except OSError as error:
            log.warning("Pod %s: cannot remove the note of when it began: %s", uid, error)

    def _read(self, pod: k8s.Pod) -> str:
        try:
            noted = self._notes.noted(pod.metadata.uid, Note.STARTED).decode()
            if noted:
                parse_rfc3339(noted)
        except (OSError, ValueError) as error:
            log.warning("Pod %s: cannot read when it began, its deadline begins anew: %s", object_ref(pod), error)
            return ""
        return noted

    def __repr__(self) -> str:
        return f"<StartTimes of {len(self._noted)} pods>"


def _counts(pod: k8s.Pod) -> bool:
    return pod.spec.active_deadline_seconds is not None and is_static(pod)
