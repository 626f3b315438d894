"""Notes of static pods in their directories: the start of one with ``activeDeadlineSeconds``, the end of one, and the
restart counts of one that came back before its earlier life had ended.

API servers keep both for their own pods. A runtime does not: after a reboot each pod gets another sandbox, and the old
one is collected as garbage; and if the disk is full, eviction removes the containers of ended pods. Without the notes a
deadline would begin anew with the next agent, and a finished pod would run once more. And for a container that waits
for an init container the runtime has no attempt to count on from.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.names import is_static, object_ref
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.core.timestamps import parse_rfc3339
from trikubelet.kit.failure_log import FailureLog
from trikubelet.model.pod_notes import Note, NotedLife

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model import k8s
    from trikubelet.ports import PodNotes

log = logging.getLogger(__name__)

NOTHING = NotedLife()


class NotedLives:
    """Owns the notes of the lives of static pods, by UID."""

    def __init__(self, notes: PodNotes) -> None:
        self._notes = notes
        self._noted: dict[str, NotedLife] = {}
        self._unwritten: set[str] = set()  # the UIDs whose pods have no directory yet
        self._failure_log = FailureLog()

    def of(self, pod: k8s.Pod) -> NotedLife:
        """Return the note of the pod."""
        if not is_static(pod):
            return NOTHING
        uid = pod.metadata.uid
        if uid not in self._noted:
            self._noted[uid] = self._read(pod)
        return self._noted[uid]

    def go_on_from(self, uid: str, attempts: Mapping[str, int]) -> None:
        """Record that another life of the pod begins, whose containers count on from these numbers, by name."""
        self._noted[uid] = NotedLife(attempts=dict(attempts))
        self._unwritten.add(uid)

    def note(self, pod: k8s.Pod, status: k8s.PodStatus) -> None:
        """Write the note of a pod that has a directory: from its status, once each, its start and its end, and the
        restart counts its containers count on from."""
        uid, known = pod.metadata.uid, self.of(pod)
        life = msgspec.structs.replace(_worth_noting(pod, status), attempts=known.attempts)
        if not is_static(pod) or life == NOTHING or (life == known and uid not in self._unwritten):
            return
        try:
            self._notes.note(uid, Note.LIFE, msgspec.json.encode(life))
        except OSError as error:
            if self._failure_log.may_log(uid):
                log.warning("Pod %s: cannot note when it began or how it ended: %s", object_ref(pod), error)
        else:
            self._failure_log.works_again(uid)
            self._noted[uid] = life
            self._unwritten.discard(uid)

    def forget(self, uid: str) -> None:
        """Forget this instance of the pod: another under its UID begins anew."""
        self._failure_log.works_again(uid)
        self._unwritten.discard(uid)
        if self._noted.pop(uid, NOTHING) == NOTHING:
            return
        try:
            self._notes.forget_note(uid, Note.LIFE)
        except OSError as error:
            log.warning("Pod %s: cannot remove the note of when it began and how it ended: %s", uid, error)

    def _read(self, pod: k8s.Pod) -> NotedLife:
        try:
            content = self._notes.noted(pod.metadata.uid, Note.LIFE)
            life = msgspec.json.decode(content, type=NotedLife) if content else NOTHING
            if life.start_time:
                parse_rfc3339(life.start_time)
            if life.phase and life.phase not in TERMINAL:
                raise ValueError(f"{life.phase!r} is no phase of a pod that has ended")
        except (OSError, ValueError) as error:  # a DecodeError is a ValueError
            said = "Pod %s: cannot read when it began and how it ended, it may begin anew: %s"
            log.warning(said, object_ref(pod), error)
            return NOTHING
        return life

    def __repr__(self) -> str:
        return f"<NotedLives of {len(self._noted)} pods>"


def _worth_noting(pod: k8s.Pod, status: k8s.PodStatus) -> NotedLife:
    start_time = status.start_time if pod.spec.active_deadline_seconds is not None else ""
    if status.phase not in TERMINAL:
        return NotedLife(start_time)
    return NotedLife(start_time, status.phase, status.reason, status.message)
