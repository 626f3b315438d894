"""Ends a pod for the node's sake: event, status and stop in one step, so that all are seen together.

    preempted for a critical pod (``pods.evaluation``) ─┐
    evicted (``node.eviction``) ────────────────────────┼─► Failed, DisruptionTarget ──► stop
    the machine shuts down (``node.shutdown``) ─────────┘

The status shows at once that the pod has failed and why; the cluster is notified when nothing of it runs any more
(``core.pod_status.disrupted``). The callers decide which pods are ended, and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.lifecycle import NODE_REASONS, Finished, StopReason, Terminated, Terminating
from trikubelet.core.names import object_ref
from trikubelet.core.pod_status.disrupted import disrupted, failed_by_node
from trikubelet.core.timestamps import rfc3339
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.lifecycle import State
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import Clock, Events, Statuses


class Disruptions:
    """Ends pods for the node's sake. Owns no state."""

    def __init__(self, *, workers: PodWorkers, statuses: Statuses, events: Events, clock: Clock) -> None:
        self._workers = workers
        self._statuses = statuses
        self._events = events
        self._clock = clock

    def end(
        self,
        pod: k8s.Pod,
        *,
        reason: str,
        message: str,
        condition_message: str = "",
        annotations: Mapping[str, str] | None = None,
        grace_seconds: int | None = None,
        is_disruption: bool = True,
        stop_reason: StopReason = StopReason.DISRUPTED,
    ) -> bool:
        """End the pod. False if it already ends as soon: then nothing is reported. ``condition_message``: that of the
        condition DisruptionTarget, if not the message; ``annotations``: the event's; ``grace_seconds``: None for the
        pod's own; ``is_disruption``: false omits that condition, for a pod that is itself to blame, because a Job must
        not ignore its failure like one of the node's; ``stop_reason``: decides about its containers. Never blocks."""
        uid, about = pod.metadata.uid, object_ref(pod)
        worker = self._workers.worker(uid)
        if worker is None or ends_as_soon(worker.state, grace_seconds):
            return False
        self._events.record(about, "Warning", reason, message, annotations)
        shown = self._statuses.get(uid) or pod.status or k8s.PodStatus()
        now = rfc3339(self._clock.now_ns())
        if is_disruption:
            status = disrupted(pod, shown, now, reason=reason, message=message, why=condition_message)
        else:
            status = failed_by_node(shown, now, reason=reason, message=message)
        self._statuses.publish(uid, pod, status)
        self._workers.stop(uid, stop_reason, grace_seconds)
        return True


def ends_as_soon(state: State, grace_seconds: int | None) -> bool:
    """True if a pod in that state has ended, or ends with at most that grace; None: with any grace."""
    match state:
        case Terminated() | Finished():
            return True
        case Terminating(reason=reason, grace_seconds=left):
            return reason in NODE_REASONS or grace_seconds is None or left <= grace_seconds
        case _:
            return False
