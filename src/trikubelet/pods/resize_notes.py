"""What a pod's status reports of its resizes besides what it is allocated: whether one waits, and why; what goes wrong.

Written by who decides about resizes (``pods.resize_decisions``, ``pods.resizes``) and by who carries them out
(``pods.resizing``); read for every status (``pods.status_publisher``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.pod_status.resizing import ResizeFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.resize.verdicts import Pending
    from trikubelet.model.k8s import Pod
    from trikubelet.pods.allocations import Allocations


class ResizeNotes:
    """Owns what is reported of pods' resizes beside their allocation: which wait and why, and what goes wrong with
    those that were granted; both by UID. Lost with the process, and found again by trying again."""

    def __init__(self, allocations: Allocations) -> None:
        self._allocations = allocations
        self._pending: dict[str, Pending] = {}
        self._errors: dict[str, str] = {}

    def pending(self, uid: str) -> Pending | None:
        """Why the pod's resize is not granted; None where none waits."""
        return self._pending.get(uid)

    def all_pending(self) -> Mapping[str, Pending]:
        """Why each resize that waits is not granted, by the pod's UID."""
        return self._pending

    def note_pending(self, uid: str, pending: Pending) -> None:
        """The pod's resize is not granted, and why."""
        self._pending[uid] = pending

    def note_taken_back(self, uid: str) -> None:
        """The pod's spec asks for what it is allocated. What is granted may still fail."""
        self._pending.pop(uid, None)

    def note_error(self, uid: str, message: str) -> None:
        """The pod's resize was granted, and carrying it out failed."""
        self._errors[uid] = message

    def note_carried_out(self, uid: str) -> None:
        """All of the pod has what it is allocated."""
        self._errors.pop(uid, None)

    def facts(self, pod: Pod) -> ResizeFacts:
        """What a status of the pod reports of its resizes."""
        uid = pod.metadata.uid
        return ResizeFacts(self._allocations.of(pod), self._pending.get(uid), self._errors.get(uid, ""))

    def forget(self, uid: str) -> None:
        """What was noted is out of date: another resize is granted, none is asked for, or this instance is over."""
        self._pending.pop(uid, None)
        self._errors.pop(uid, None)
