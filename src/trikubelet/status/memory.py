"""The statuses of this node's pods in memory, all that a node without an API server has.

The newest status of a pod counts. A change of phase or readiness is logged once; an unchanged status is not logged.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from trikubelet.core.names import object_ref
from trikubelet.core.pod_status import equal, illegal_transitions, normalize
from trikubelet.core.pod_status.between import ends
from trikubelet.core.pod_status.phase import PENDING
from trikubelet.kit.klog import level
from trikubelet.kit.listeners import Listeners

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.model import k8s

log = logging.getLogger(__name__)


class PodStatuses:
    """Owns the newest status of each pod and its version (``ports.Statuses``), and the number of ``ended`` containers,
    by kind, exit code and reason.

    ``changed``: is called with the UID, pod, status and version of a changed status; the version grows by one per
    change.
    """

    def __init__(self) -> None:
        self._statuses: dict[str, tuple[k8s.Pod, k8s.PodStatus]] = {}
        self._versions: dict[str, int] = {}
        self.changed: Final[Listeners[str, k8s.Pod, k8s.PodStatus, int]] = Listeners("a pod's new status")
        self.ended: Final[Counter[tuple[str, int, str]]] = Counter()

    def publish(self, uid: str, pod: k8s.Pod, status: k8s.PodStatus) -> None:
        """Set the pod's status, in the form in which the API server keeps it. An equal status is no change. A status in
        which an ended container runs again is a bug: it is logged as an error and dropped."""
        held = self._statuses.get(uid)
        status = normalize(pod, status)
        if held is not None:
            if equal(held[1], status):
                self._statuses[uid] = (pod, held[1])
                return
            impossible = illegal_transitions(pod, held[1], status)
            if impossible:
                log.error("Pod %s: a status was dropped: %s", object_ref(pod), "; ".join(impossible))
                return
            self.ended.update(ends(held[1], status))
        self._statuses[uid] = (pod, status)
        version = self._versions[uid] = self._versions.get(uid, 0) + 1
        self.changed.notify(uid, pod, status, version)
        if held is None or _headline(held[1]) != _headline(status):
            phase, ready = _headline(status)
            is_news = held is not None or phase != PENDING  # its first status was logged
            log.log(level(0 if is_news else 2), "Pod %s is %s%s", object_ref(pod), phase, " and ready" if ready else "")

    def get(self, uid: str) -> k8s.PodStatus | None:
        """Return the last published status, or None."""
        held = self._statuses.get(uid)
        return None if held is None else held[1]

    def version(self, uid: str) -> int:
        """Return the version of the last published status, from 1; 0 if there is none."""
        return self._versions.get(uid, 0)

    def forget(self, uid: str) -> None:
        """Forget the pod, which has finished."""
        self._statuses.pop(uid, None)
        self._versions.pop(uid, None)

    def __iter__(self) -> Iterator[tuple[k8s.Pod, k8s.PodStatus]]:
        return iter(list(self._statuses.values()))

    def __len__(self) -> int:
        return len(self._statuses)


def _headline(status: k8s.PodStatus) -> tuple[str, bool]:
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions)
    return status.phase, ready
