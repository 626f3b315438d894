"""Admission: decides if a desired pod gets a worker on this node, and is the only way to get one.

    sync loop: ADD, UPDATE ─┐            ┌─ mirror pod ─► nothing    deletionTimestamp ─► a worker that only ends it
    housekeeping: a desired ├─► begin ───┼─ ended, or admitted by an earlier agent ─────────────────┐
    pod without a worker  ──┘            └─ evaluate ─┬─ admitted, perhaps others are preempted ────┴─► allocated, begun
                                                      ├─ rejected ─► Failed, and a worker that only cleans up
                                                      └─ would be rejected, but not for sure ─► waits for the next

A pod is evaluated once (``pods.evaluation``), before anything of it is started, next to the pods that are desired and
have not ended. A critical pod for which others are preempted begins when they have ended; only that pod waits, while
upstream's whole sync loop does.

A pod of which the runtime has something was admitted by an earlier run of this agent. It is not evaluated again: later
changes (a label, the node's allocatable, a device that registers late) are no reason to stop running containers.

A rejection is permanent for a pod of the API server. A static pod gets another try when the node has what it lacked
(``core.admission.another_try``): its rejected life is forgotten with its status, and a new one begins like that of a
rewritten manifest, so its mirror pod is recreated and no phase goes back from Failed.

No rejection is based on unknown facts: until the runtime has reported its features and its pods, a pod that would be
rejected gets no worker, and housekeeping, which looks for such pods, tries again. It is evaluated by the spec it has
then (``pods.allocations``). The same holds for a pod that the node's labels exclude, until they were read once more
(``node.second_look``), and for one that lacks devices while pods of an earlier agent may hold them in vain. While the
machine shuts down no pod is admitted (``node.shutdown``).
"""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from trikubelet.core import node_shutdown
from trikubelet.core.admission import NODE_AFFINITY, UNEXPECTED, Admitted, counted_as, rejected, without_devices
from trikubelet.core.admission.another_try import begins_now
from trikubelet.core.lifecycle import StopReason
from trikubelet.core.names import is_mirror, is_static, object_ref
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.core.qos import qos_class
from trikubelet.core.requests import resource_level
from trikubelet.core.timestamps import rfc3339
from trikubelet.kit.fault_barriers import FaultBarriers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.admission import Rejection
    from trikubelet.model import k8s
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.evaluation import Evaluation
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.resizes import Resizes
    from trikubelet.pods.unsupported_reports import UnsupportedReports
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import Clock, Events, PodDevices, RuntimeHealth, RuntimePods, ShutdownState, Statuses

log = logging.getLogger(__name__)


class Admission:
    """Owns how many pods were ``rejected``, by reason (``counted_as``). Decides which pods get a worker that runs them.
    Resizes are notified of an admitted pod, and of a new spec of one that has a worker, before the worker is."""

    def __init__(
        self,
        *,
        workers: PodWorkers,
        evaluation: Evaluation,
        resizes: Resizes,
        shutdown: ShutdownState,
        runtime_pods: RuntimePods,
        health: RuntimeHealth,
        statuses: Statuses,
        events: Events,
        clock: Clock,
        allocations: Allocations,
        devices: PodDevices,
        unsupported: UnsupportedReports,
        figures: PodFigures,
    ) -> None:
        self._workers = workers
        self._earlier = workers.earlier
        self._evaluation = evaluation
        self._resizes = resizes
        self._shutdown = shutdown
        self._runtime_pods = runtime_pods
        self._health = health
        self._statuses = statuses
        self._events = events
        self._clock = clock
        self._allocations = allocations
        self._devices = devices
        self._unsupported = unsupported
        self._figures = figures
        self.rejected: Counter[str] = Counter()
        self._barriers = FaultBarriers(log, "%s: a bug in its admission; it waits, and is evaluated again")

    # ---- the one way to a worker ----

    def begin(self, pod: k8s.Pod) -> None:
        """Begin with a desired pod that a source added or that has no worker: admit it, reject it, or leave it until it
        is found again, if the reason for a rejection is uncertain. Never blocks, never fails: a pod that triggers a bug
        is logged by name, and waits."""
        ref = object_ref(pod)
        with self._barriers.of(f"Pod {ref}", partial(self._events.record, ref, "Warning", "FailedSync")):
            self._begin(pod)

    def update(self, pod: k8s.Pod) -> None:
        """Handle a changed configuration of a desired pod; one that waits to be admitted is evaluated by the new one.
        Never blocks. An error of a bug is raised if the pod has a worker."""
        if pod.metadata.uid not in self._workers or self._earlier.has_another(pod):
            self.begin(pod)
        elif pod.metadata.deletion_timestamp:
            self._delete(pod)
        else:
            self._unsupported.report(pod)
            self._resizes.consider(pod)
            self._workers.sync(pod)

    def try_again(self, pod: k8s.Pod) -> None:
        """Evaluate a desired pod again that ``PodWorkers.awaits_another_try``, and begin with it if the node has what
        it lacked. Nothing is reported for one that keeps waiting. Never blocks, never fails."""
        ref = object_ref(pod)
        with self._barriers.of(f"Pod {ref}", partial(self._events.record, ref, "Warning", "FailedSync")):
            if self._shutdown.is_shutting_down or not self._has_runtime_spoken():
                return
            # A pod that still ends has its ports: another one next to it would fail.
            verdict = self._evaluation.evaluate_beside_all(self._allocations.as_allocated(pod))
            if begins_now(self._with_devices(pod, verdict)) and self._workers.forget_rejection(pod):
                log.info("Pod %s was rejected, and begins now: the node has what it lacked", ref)
                self._begin(pod)

    def _begin(self, pod: k8s.Pod) -> None:
        if is_mirror(pod):
            return  # sources leave these out; if one does not, its static pod runs already
        if self._earlier.has_another(pod):
            self._workers.sync(pod, create=True)  # it begins when that one has ended
        elif self._earlier.orphan_under_uid(pod) is not None:
            log.debug("Pod %s waits for the end of an earlier agent's pod under its UID", object_ref(pod))
        elif pod.metadata.deletion_timestamp:
            self._delete(pod)
        elif pod.metadata.uid in self._workers:
            self._workers.sync(pod, create=True)
        elif self._needs_evaluation(pod):
            self._decide(pod)
        elif self._has_ended_with_the_machine(pod.metadata.uid):
            log.debug("Pod %s is left to the agent of the next boot: the machine shuts down", object_ref(pod))
        else:
            self._admit(pod)

    def _decide(self, pod: k8s.Pod) -> None:
        match self._evaluate(pod):
            case Admitted() if self._shutdown.is_shutting_down:
                if self._has_runtime_spoken():  # else it may be running, and is ended with the others
                    self._reject(pod, node_shutdown.REJECTION)
            case Admitted() as admitted:
                self._evaluation.make_room(pod, admitted)
                self._admit(pod, after=[victim.metadata.uid for victim in admitted.preempts])
            case why if not self._has_runtime_spoken():
                log.debug("Pod %s waits for the container runtime to speak: %s", object_ref(pod), why.message)
            case why if why.reason == NODE_AFFINITY and self._evaluation.may_be_outdated(pod.metadata.uid):
                log.debug("Pod %s waits for another look at this node's labels: %s", object_ref(pod), why.message)
            case why if why.reason == UNEXPECTED and self._may_devices_return():
                log.debug("Pod %s waits for the devices of earlier pods: %s", object_ref(pod), why.message)
            case why:
                self._reject(pod, why)

    def _delete(self, pod: k8s.Pod) -> None:
        """Begin a worker that stops the leftovers of an earlier agent and then reports the pod's end; nothing
        starts."""
        uid = pod.metadata.uid
        if uid in self._workers:
            self._workers.sync(pod)
        else:
            self._allocations.admit(pod)
            self._workers.begin(pod)
        self._workers.stop(uid, StopReason.DELETED)

    def _admit(self, pod: k8s.Pod, after: Sequence[str] = ()) -> None:
        # If the server knows its start, an earlier agent has recorded these events.
        self._unsupported.report(pod, is_known=pod.status is not None and bool(pod.status.start_time))
        self._figures.admitted[resource_level(pod), qos_class(pod).lower()] += 1
        self._allocations.admit(pod)
        self._resizes.begin(pod)
        self._workers.begin(pod, after=after)

    def _reject(self, pod: k8s.Pod, why: Rejection) -> None:
        uid = pod.metadata.uid
        self.rejected[counted_as(why.reason)] += 1
        then = "; it begins when the node has what it lacks" if is_static(pod) else ""
        log.warning("Pod %s was rejected: %s: %s%s", object_ref(pod), why.reason, why.message, then)
        self._events.record(object_ref(pod), "Warning", why.reason, why.message)
        self._statuses.publish(uid, pod, rejected(pod, why, rfc3339(self._clock.now_ns())))
        self._workers.reject(pod)

    # ---- what is decided by ----

    def waits_because(self, pod: k8s.Pod) -> str:
        """Return the reason for which a desired pod would be rejected, but the runtime has not reported yet; else
        ""."""
        if self._has_runtime_spoken() or not self._needs_evaluation(pod):
            return ""
        why = self._evaluate(pod)
        return "" if isinstance(why, Admitted) else why.message

    def _evaluate(self, pod: k8s.Pod) -> Admitted | Rejection:
        return self._with_devices(pod, self._evaluation.evaluate(self._allocations.as_allocated(pod)))

    def _with_devices(self, pod: k8s.Pod, verdict: Admitted | Rejection) -> Admitted | Rejection:
        """Return the verdict, which also depends on the devices that the pod needs. Its worker allocates them, because
        a plugin may take its time. No scheduler has seen to it that the node has the devices of a static pod: it is
        rejected until they are there, and not run without."""
        if isinstance(verdict, Admitted):
            unlisted = self._evaluation.unlisted(pod) if is_static(pod) else ()
            if why := self._devices.refusal(pod, unlisted):
                return without_devices(why)
        return verdict

    def _may_devices_return(self) -> bool:
        """True if a pod of an earlier agent holds devices, and nothing of it is left. It gets a worker when a source
        brings it; otherwise its devices are released when all sources have reported."""
        may_have = self._runtime_pods.may_have
        return any(uid not in self._workers and not may_have(uid) for uid in self._devices.holders())

    def _has_runtime_spoken(self) -> bool:
        return self._health.supports_strict_groups() is not None and self._runtime_pods.has_listed

    def _needs_evaluation(self, pod: k8s.Pod) -> bool:
        """True if the pod's admission depends on the node: it neither ends nor was admitted already."""
        uid = pod.metadata.uid
        has_ended = pod.status is not None and pod.status.phase in TERMINAL
        ends = has_ended or bool(pod.metadata.deletion_timestamp)
        return not (ends or uid in self._workers or self._was_admitted(uid))

    def _has_ended_with_the_machine(self, uid: str) -> bool:
        """True if an earlier agent ended the pod for a shutdown that still lasts, and died meanwhile: beginning with
        the pod would restart it."""
        return self._shutdown.is_shutting_down and self._was_admitted(uid) and not self._runtime_pods.is_running(uid)

    def _was_admitted(self, uid: str) -> bool:
        """True if an earlier agent admitted the pod."""
        return self._runtime_pods.has_listed and self._earlier.may_run(uid)
