"""Asks, once per pod and before anything of it is started, whether this node takes it.

A pod stands beside those that are wanted and have not ended. One that is not wanted any more holds its place no longer,
though it still ends: an edited manifest's new pod has the host ports of the old one, and waits for it anyway. Nor does
one that is ended to make room for a critical pod, which begins when that is over; upstream's whole sync loop waits
then, here only the pod. A pod that the node does not take has failed: it gets its status, an event, and a worker with
nothing left to do but to clean up.

A pod of which the runtime holds something was admitted by an earlier agent. It is not asked about again: what
has changed since (a label, the node's allocatable, a device that is late) is no reason to stop what runs.

A rejection is permanent, so none is founded on what nobody knows yet: until the runtime has said what it can do and
what it holds, who would be refused has no worker, and housekeeping, which looks for such pods, asks again.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from trikubelet.core.admission import Admitted, admit, preemption, rejected
from trikubelet.core.lifecycle import Finished, StopReason, Terminated, Terminating
from trikubelet.core.names import object_ref
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.core.timestamps import rfc3339
from trikubelet.kit.bugs import Bugs
from trikubelet.kit.listeners import Listeners
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trikubelet.core.admission import Rejection
    from trikubelet.core.admission.pod_info import PodInfo
    from trikubelet.core.containers import NodeFacts
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import Clock, Events, RuntimeHealth, RuntimePods, Statuses
    from trikubelet.sources.desired import DesiredPods

log = logging.getLogger(__name__)


class Admission:
    """Decides which pods get a worker that runs them. Owns how many it ``refused``, by reason, and how many it
    ``preempted``, by what was short. ``node`` returns this node's object as last received, None as long as there is
    none; whoever hears of it sets it; ``pressures`` the pressure conditions it has, set where its parts are joined.
    ``taken``: a pod gets a worker which may start it; called before it does."""

    def __init__(
        self,
        *,
        workers: PodWorkers,
        desired: DesiredPods,
        runtime_pods: RuntimePods,
        facts: NodeFacts,
        health: RuntimeHealth,
        statuses: Statuses,
        events: Events,
        clock: Clock,
        allocations: Allocations,
    ) -> None:
        self._workers = workers
        self._desired = desired
        self._runtime_pods = runtime_pods
        self.refused: Counter[str] = Counter()
        self.preempted: Counter[str] = Counter()
        self.node: Callable[[], k8s.Node | None] = lambda: None
        self.pressures: Callable[[], Sequence[str]] = tuple
        self._facts = facts
        self._health = health
        self._statuses = statuses
        self._events = events
        self._clock = clock
        self._allocations = allocations
        self.taken: Final[Listeners[k8s.Pod]] = Listeners("a pod that the node takes")
        self._bugs = Bugs(log, "%s: a bug in asking whether the node takes it; it waits, and is asked about again")

    def begin(self, pod: k8s.Pod) -> None:
        """The pod is wanted: begin with it, refuse it, or leave it until it is asked about again, where what the node
        would refuse it for is not known for sure yet. Never blocks, never fails: a pod that
        provokes a bug is named, and waits."""
        ref = object_ref(pod)
        with self._bugs.of(f"Pod {ref}", partial(self._events.record, ref, "Warning", "FailedSync")):
            self._begin(pod)

    def _begin(self, pod: k8s.Pod) -> None:
        if self._is_beyond_asking(pod):
            self._take(pod)
            return
        match self.asked(self._allocations.as_allocated(pod)):
            case Admitted() as admitted:
                self.make_room(pod, admitted)
                self._take(pod, after=[victim.metadata.uid for victim in admitted.preempts])
            case why if self._has_runtime_spoken():
                self._refuse(pod, why)
            case why:
                log.debug("Pod %s waits for the container runtime to speak: %s", object_ref(pod), why.message)

    def waits_because(self, pod: k8s.Pod) -> str:
        """What a wanted pod would be refused for, had the runtime spoken; "" for one that does not wait for that."""
        if self._has_runtime_spoken() or self._is_beyond_asking(pod):
            return ""
        why = self.asked(self._allocations.as_allocated(pod))
        return "" if isinstance(why, Admitted) else why.message

    def asked(self, pod: k8s.Pod) -> Admitted | Rejection:
        """Whether the node has what the pod's spec asks for, beside what the other pods are allocated."""
        facts = replace(self._facts, strict_groups=bool(self._health.gives_groups_strictly()))
        return admit(pod, self._others(pod.metadata.uid), self.node(), facts, self.pressures())

    def make_room(self, pod: k8s.Pod, admitted: Admitted) -> None:
        """End the pods that the pod, which is admitted, preempts."""
        for victim in admitted.preempts:
            self._preempt(victim, pod, admitted.short_of)

    def _take(self, pod: k8s.Pod, after: Sequence[str] = ()) -> None:
        self.taken.notify(pod)
        self._workers.sync(pod, create=True, after=after)

    def _has_runtime_spoken(self) -> bool:
        return self._health.gives_groups_strictly() is not None and self._runtime_pods.has_listed

    def _is_beyond_asking(self, pod: k8s.Pod) -> bool:
        """Whether it ends, or was taken already."""
        uid = pod.metadata.uid
        ends = bool(pod.metadata.deletion_timestamp) or (pod.status is not None and pod.status.phase in TERMINAL)
        return ends or uid in self._workers or self._was_taken(uid)

    def _preempt(self, victim: k8s.Pod, pod: k8s.Pod, short_of: str) -> None:
        uid = victim.metadata.uid
        if self._workers.is_termination_requested(uid):
            return  # it ends anyway, for a reason of its own: to wait for it is enough
        self.preempted[short_of] += 1
        log.warning("Pod %s is ended: pod %s must run and lacks %s", object_ref(victim), object_ref(pod), short_of)
        self._events.record(object_ref(victim), "Warning", preemption.REASON, preemption.MESSAGE)
        shown = self._statuses.get(uid) or victim.status or k8s.PodStatus()
        self._statuses.publish(uid, victim, preemption.preempted(victim, shown, rfc3339(self._clock.now_ns())))
        self._workers.stop(uid, StopReason.EVICTED)

    def _refuse(self, pod: k8s.Pod, why: Rejection) -> None:
        uid = pod.metadata.uid
        self.refused[why.reason] += 1
        log.warning("Pod %s is not taken: %s: %s", object_ref(pod), why.reason, why.message)
        self._events.record(object_ref(pod), "Warning", why.reason, why.message)
        self._statuses.publish(uid, pod, rejected(pod, why, rfc3339(self._clock.now_ns())))
        self._workers.refuse(pod)

    def _others(self, but: str) -> list[PodInfo]:
        """Those that hold a place, as they are allocated, ``but`` the one of that UID."""
        found = []
        for worker in self._workers:
            match worker.state:
                case Terminated() | Finished() | Terminating(reason=StopReason.EVICTED):
                    continue
                case _ if worker.pod.metadata.uid != but and self._desired.get(worker.pod.metadata.uid) is not None:
                    found.append(self._allocations.info(worker.pod))
        return found

    def _was_taken(self, uid: str) -> bool:
        return self._runtime_pods.has_listed and self._workers.may_run(uid)
