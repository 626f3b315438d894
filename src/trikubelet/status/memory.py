"""The statuses of this node's pods, kept in memory: what a node without an API server knows of its pods.

The newest status of a pod counts. A change of phase or readiness is logged once; an unchanged status is no news.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trikubelet.core.names import object_ref

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.model import k8s

log = logging.getLogger(__name__)


class PodStatuses:
    """Owns the newest status of each pod (``ports.Statuses``)."""

    def __init__(self) -> None:
        self._statuses: dict[str, tuple[k8s.Pod, k8s.PodStatus]] = {}

    def publish(self, uid: str, pod: k8s.Pod, status: k8s.PodStatus) -> None:
        """Set the pod's status."""
        held = self._statuses.get(uid)
        self._statuses[uid] = (pod, status)
        if held is None or _headline(held[1]) != _headline(status):
            phase, ready = _headline(status)
            log.info("Pod %s is %s%s", object_ref(pod), phase, " and ready" if ready else "")

    def get(self, uid: str) -> k8s.PodStatus | None:
        """The status last published, or None."""
        held = self._statuses.get(uid)
        return None if held is None else held[1]

    def forget(self, uid: str) -> None:
        """The pod is finished."""
        self._statuses.pop(uid, None)

    def __iter__(self) -> Iterator[tuple[k8s.Pod, k8s.PodStatus]]:
        return iter(list(self._statuses.values()))

    def __len__(self) -> int:
        return len(self._statuses)


def _headline(status: k8s.PodStatus) -> tuple[str, bool]:
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions)
    return status.phase, ready
