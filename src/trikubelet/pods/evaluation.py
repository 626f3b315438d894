"""Evaluation: decides if the node can run a pod next to the others, and makes room for one that it must run.

    a new pod (``pods.admission``) ───────────┐                ┌─► not: why
    a resize (``pods.resize_decisions``) ─────┴─► evaluate ────┴─► admitted ─► make_room: those it preempts end

Both use the same check, because a resize needs resources like a new pod. ``core.admission`` decides, from the node's
facts and the other pods' allocations. Devices of plugins are not counted here but given out (``ports.PodDevices``). A
pod that is no longer desired does not count, even while it ends: an edited manifest's new pod has the host ports of the
old one, and waits for its end anyway. A pod that is preempted for a critical one does not count either.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from trikubelet.core.admission import admit, preemption
from trikubelet.core.admission.resources import unlisted
from trikubelet.core.lifecycle import NODE_REASONS, Finished, Terminated, Terminating
from trikubelet.core.names import object_ref

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trikubelet.core.admission import Admitted, Rejection
    from trikubelet.core.admission.pod_info import PodInfo
    from trikubelet.core.containers import NodeFacts
    from trikubelet.model import k8s
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.disruptions import Disruptions
    from trikubelet.pods.node_object import NodeObject
    from trikubelet.pods.worker import PodWorker
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import NodePressure, PodDevices, RuntimeHealth
    from trikubelet.sources.desired import DesiredPods

log = logging.getLogger(__name__)


class Evaluation:
    """Owns how many pods were ``preempted``, by the resource that was short."""

    def __init__(
        self,
        *,
        workers: PodWorkers,
        desired: DesiredPods,
        allocations: Allocations,
        facts: NodeFacts,
        node: NodeObject,
        pressure: NodePressure,
        health: RuntimeHealth,
        disruptions: Disruptions,
        devices: PodDevices,
    ) -> None:
        self._workers = workers
        self._desired = desired
        self._allocations = allocations
        self._facts = facts
        self._node = node
        self._pressure = pressure
        self._health = health
        self._disruptions = disruptions
        self._devices = devices
        self.preempted: Counter[str] = Counter()

    def evaluate(self, pod: k8s.Pod) -> Admitted | Rejection:
        """Decide if the node can run the pod's spec next to the other pods' allocations."""
        return self._beside(pod, self._others(pod.metadata.uid))

    def evaluate_beside_all(self, pod: k8s.Pod) -> Admitted | Rejection:
        """Evaluate the pod next to those that are ending, too: their containers may still use their resources."""
        others = [worker.pod for worker in self._alive() if worker.pod.metadata.uid != pod.metadata.uid]
        return self._beside(pod, [self._allocations.info(other) for other in others])

    def _beside(self, pod: k8s.Pod, others: Sequence[PodInfo]) -> Admitted | Rejection:
        facts = replace(self._facts, strict_groups=bool(self._health.supports_strict_groups()))
        return admit(
            pod, others, self._node.newest, facts, self._pressure.conditions(), given_out=self._devices.resources()
        )

    def unlisted(self, pod: k8s.Pod) -> frozenset[str]:
        """Return the extended resources that the pod needs and the node's object does not have."""
        return unlisted(pod, self._node.newest)

    def may_be_outdated(self, uid: str) -> bool:
        """True if the node's object, by which the pod was evaluated, may be outdated; then it is read again."""
        return self._node.look_again(uid)

    def make_room(self, pod: k8s.Pod, admitted: Admitted) -> None:
        """End the pods that the admitted pod preempts."""
        for victim in admitted.preempts:
            self._preempt(victim, pod, admitted.short_of)

    def _preempt(self, victim: k8s.Pod, pod: k8s.Pod, short_of: str) -> None:
        ended = self._disruptions.end(
            victim,
            reason=preemption.REASON,
            message=preemption.MESSAGE,
            condition_message=preemption.CONDITION_MESSAGE,
        )
        if ended:
            self.preempted[short_of] += 1
            message = "Preempting pod %s for critical pod %s: insufficient %s"
            log.warning(message, object_ref(victim), object_ref(pod), short_of)

    def _others(self, but: str) -> list[PodInfo]:
        """Return the facts about pods that count, as they are allocated, without the one of the UID ``but``."""
        found = []
        for worker in self._alive():
            match worker.state:
                case Terminating(reason=reason) if reason in NODE_REASONS:
                    continue
                case _ if worker.pod.metadata.uid != but and self._desired.get(worker.pod.metadata.uid) is not None:
                    found.append(self._allocations.info(worker.pod))
        return found

    def _alive(self) -> Iterator[PodWorker]:
        """Yield the workers of pods of which something may run."""
        return (worker for worker in self._workers if not isinstance(worker.state, Terminated | Finished))
