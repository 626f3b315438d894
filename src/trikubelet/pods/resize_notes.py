"""The resizes of pods for their statuses: pending ones with the reason, and errors of granted ones.

The deciding parts (``pods.resize_decisions``, ``pods.resizes``) and the one that carries resizes out
(``pods.resizing``) write them; every status reads them (``pods.status_publisher``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.pod_status.resizing import ResizeFacts
from trikubelet.core.resize.priority import priority_bucket
from trikubelet.core.resize.verdicts import DEFERRED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trikubelet.core.resize.verdicts import Pending
    from trikubelet.model.k8s import Pod
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.figures import PodFigures

ACCEPTED: Final = "accepted"
REVERTED: Final = "reverted"
TERMINATED: Final = "terminated"
"""How the wait of a deferred resize ended, in the words of upstream's metric."""


class ResizeNotes:
    """Owns the reports about pods' resizes besides their allocation: pending ones with the reason, since when a
    deferred one waits, and errors of those that were granted; all by UID. Lost with the process, and found again by the
    next try. ``now``: the time in seconds."""

    def __init__(
        self, allocations: Allocations, figures: PodFigures, now: Callable[[], float] = trio.current_time
    ) -> None:
        self._allocations = allocations
        self._figures = figures
        self._now = now
        self._pending: dict[str, Pending] = {}
        self._deferred_at: dict[str, float] = {}
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
        if pending.reason == DEFERRED:
            self._deferred_at.setdefault(uid, self._now())
        else:
            self._deferred_at.pop(uid, None)

    def note_taken_back(self, pod: Pod) -> None:
        """Note that the pod's spec requests what it is allocated. A granted resize may still fail."""
        self._measure(pod, REVERTED)
        self._pending.pop(pod.metadata.uid, None)

    def note_granted(self, pod: Pod) -> None:
        """Note that the pod's resize is granted, which makes the notes of an earlier one outdated."""
        self._measure(pod, ACCEPTED)
        self.forget(pod.metadata.uid)

    def note_ended(self, pod: Pod) -> None:
        """Note that the pod is over, and with it the wait of its resize."""
        self._measure(pod, TERMINATED)

    def _measure(self, pod: Pod, resolution: str) -> None:
        began = self._deferred_at.pop(pod.metadata.uid, None)
        if began is not None:
            self._figures.resizes_deferred[resolution, priority_bucket(pod)].add(self._now() - began)

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
        self._deferred_at.pop(uid, None)
        self._errors.pop(uid, None)
