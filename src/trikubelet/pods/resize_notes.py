"""What a pod's status reports of its resizes besides what it is allocated: whether one waits, and why; what goes wrong.

Written by who decides about resizes (``pods.resize_decisions``, ``pods.resizes``) and by who carries them out
(``pods.resizing``); read for every status (``pods.status_publisher``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.pod_status.resizing import ResizeFacts

if TYPE_CHECKING:
    from trikubelet.core.resize.verdicts import Pending
    from trikubelet.model.k8s import Pod
    from trikubelet.pods.allocations import Allocations


class ResizeNotes:
    """Owns what is reported of pods' resizes beside their allocation: which wait and why, and what goes wrong with
    those that were granted; both by UID. Lost with the process, and found again by trying again."""

    def __init__(self, allocations: Allocations) -> None:
        self._allocations = allocations
        self.pending: dict[str, Pending] = {}
        self.errors: dict[str, str] = {}

    def facts(self, pod: Pod) -> ResizeFacts:
        """What a status of the pod reports of its resizes."""
        uid = pod.metadata.uid
        return ResizeFacts(self._allocations.of(pod), self.pending.get(uid), self.errors.get(uid, ""))

    def forget(self, uid: str) -> None:
        """This instance of the pod is over."""
        self.pending.pop(uid, None)
        self.errors.pop(uid, None)
