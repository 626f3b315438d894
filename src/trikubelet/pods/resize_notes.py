"""The resizes of pods for their statuses: pending ones with the reason, and errors of granted ones.

The deciding parts (``pods.resize_decisions``, ``pods.resizes``) and the one that carries resizes out
(``pods.resizing``) write them; every status reads them (``pods.status_publisher``).
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
    """Owns the reports about pods' resizes besides their allocation: pending ones with the reason, and errors of those
    that were granted; both by UID. Lost with the process, and found again by the next try."""

    def __init__(self, allocations: Allocations) -> None:
        self._allocations = allocations
        self._pending: dict[str, Pending] = {}
        self._errors: dict[str, str] = {}

    def pending(self, uid: str) -> Pending | None:
        """Return why the pod's resize is not granted; None if none is pending."""
        return self._pending.get(uid)

    def all_pending(self) -> Mapping[str, Pending]:
        """Return why each pending resize is not granted, by the pod's UID."""
        return self._pending

    def note_pending(self, uid: str, pending: Pending) -> None:
        """Note that the pod's resize is not granted, and why."""
        self._pending[uid] = pending

    def note_taken_back(self, uid: str) -> None:
        """Note that the pod's spec requests what it is allocated. A granted resize may still fail."""
        self._pending.pop(uid, None)

    def note_error(self, uid: str, message: str) -> None:
        """Note that carrying out a granted resize failed."""
        self._errors[uid] = message

    def note_carried_out(self, uid: str) -> None:
        """Note that all of the pod has its allocated resources."""
        self._errors.pop(uid, None)

    def facts(self, pod: Pod) -> ResizeFacts:
        """Return the facts about the pod's resizes for its status."""
        uid = pod.metadata.uid
        return ResizeFacts(self._allocations.of(pod), self._pending.get(uid), self._errors.get(uid, ""))

    def forget(self, uid: str) -> None:
        """Drop outdated notes: another resize is granted, none is requested, or this instance is over."""
        self._pending.pop(uid, None)
        self._errors.pop(uid, None)
