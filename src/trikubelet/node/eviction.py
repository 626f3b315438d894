"""Node-pressure eviction: checks every ten seconds for shortages of the node, and evicts pods.

    observe the node ─► core.eviction.pressure ─┬─► conditions, which the node's status and admission read
                                                └─► a threshold is due ─► reclaim: dead containers, unused images
                                                          enough? ◄──────────┘ └─ not enough ─► rank ─► evict one pod
    pods with limits on local storage ─► measured ─► those above them are evicted

At most one pod is evicted for a threshold at a time; then the node is observed again when the pod has ended, but after
a second at the earliest and half a minute at the latest. Observing only the node is cheap. The usage of pods is
measured only if one must be evicted, or if one has a limit of its own; if that fails none is evicted. Critical pods
(static, mirror, of system-critical priority) never are. (upstream: eviction_manager.go; upstream-behaviour.md §1.15)
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

import trio

from trikubelet.core.eviction import limits, messages
from trikubelet.core.eviction.observations import has_image_disk, observe
from trikubelet.core.eviction.pressure import Pressure, advance, met
from trikubelet.core.eviction.ranking import Candidate, counts_directories, rank
from trikubelet.core.eviction.thresholds import DISK_SIGNALS, IMAGE_SIGNALS, RESOURCES
from trikubelet.core.lifecycle import GRACE_SECONDS_MIN, Finished
from trikubelet.core.names import is_critical, object_ref
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.kit.distribution import Distributions
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.log_rate_limit import LogRateLimit
from trikubelet.model.usage import Depth
from trikubelet.pods.disruptions import ends_as_soon

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trikubelet.core.eviction import EvictionRules
    from trikubelet.core.eviction.thresholds import Threshold
    from trikubelet.model import k8s
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.objects import ObjectRef
    from trikubelet.model.stats_snapshot import NodeUsed, PodUsed
    from trikubelet.node.garbage import GarbageCollection
    from trikubelet.node.image_garbage import ImageGarbage
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.disruptions import Disruptions
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import Clock, Events, NodeUsage, RuntimePods
    from trikubelet.sources.desired import DesiredPods

log = logging.getLogger(__name__)


class Eviction:
    """Owns the last observed shortages of the node (``pressure``), and how many pods were ``evicted``, by signal, with
    the age (seconds) of the measurement."""

    def __init__(
        self,
        *,
        workers: PodWorkers,
        desired: DesiredPods,
        allocations: Allocations,
        runtime_pods: RuntimePods,
        garbage: GarbageCollection,
        images: ImageGarbage,
        disruptions: Disruptions,
        events: Events,
        node: ObjectRef,
        clock: Clock,
        rules: EvictionRules,
        bounds: Bounds,
    ) -> None:
        self._workers = workers
        self._desired = desired
        self._allocations = allocations
        self._runtime_pods = runtime_pods
        self._garbage = garbage
        self._images = images
        self._disruptions = disruptions
        self._events = events
        self._node = node
        self._clock = clock
        self._rules = rules
        self._bounds = bounds
        self._barriers = FaultBarriers(log, "%s: a bug in looking whether it is short of anything; no pod is evicted")
        # One for each message, otherwise one would suppress another.
        self._node_unmeasured, self._pods_unmeasured, self._only_critical, self._reclaim_late, self._unknown_pods = (
            LogRateLimit(bounds.eviction_silence_seconds) for _ in range(5)
        )
        self._finished = trio.lowlevel.ParkingLot()
        workers.finished.add(lambda _: self._finished.unpark_all())
        self._image_disk: bool | None = None
        self.pressure = Pressure()
        self.evicted: Counter[str] = Counter()
        self.stats_ages: Distributions[str] = Distributions()

    def conditions(self) -> Sequence[str]:
        """Return the present pressure conditions of the node, sorted."""
        return self.pressure.conditions

    async def run(self, usage: NodeUsage, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Observe and evict, until cancelled."""
        task_status.started()
        while True:
            ended: Sequence[str] = ()
            with self._barriers.of("The node"):
                ended = await self._look(usage)
            if ended:
                await self._are_over(ended)
            else:
                await trio.sleep(self._bounds.eviction_period_seconds)

    async def _look(self, usage: NodeUsage) -> Sequence[str]:
        """Observe once; return the UIDs of pods that were evicted."""
        try:
            node = await usage.node()
        except OSError as error:
            if self._node_unmeasured.may_log():
                log.warning("The node cannot be measured, no pod is evicted: %s", error)
            return ()
        self._note(node)
        if not self._runtime_pods.has_listed:
            return ()
        # While a source has not sent its pods, another pod may be the better one to evict, so none is.
        may_evict = self._desired.all_ready
        if (found := has_image_disk(node)) is not None:
            self._image_disk = found  # unchanged if the runtime does not answer once
        if may_evict and self._rules.local_limits and (ended := await self._evict_beyond_limits(usage)):
            return ended
        if not self.pressure.due:
            return ()
        threshold = self.pressure.due[0]
        resource = RESOURCES[threshold.signal]
        self._events.record(self._node, "Warning", messages.THRESHOLD_MET, f"Attempting to reclaim {resource}")
        image_disk = bool(self._image_disk)
        with trio.move_on_after(self._bounds.eviction_reclaim_seconds_max) as scope:
            if await self._reclaim(usage, threshold.signal, image_disk=image_disk):
                return ()
        if scope.cancelled_caught and self._reclaim_late.may_log():
            log.warning("Removing dead containers and unused images takes too long")
        if not may_evict:
            if self._unknown_pods.may_log():
                silent = ", ".join(sorted(self._desired.sources_not_ready))
                log.warning("No pod is evicted although %s is short: no pods received yet: %s", resource, silent)
            return ()
        return await self._evict_one(usage, threshold, image_disk=image_disk)

    def _note(self, node: NodeUsed) -> None:
        before = self.pressure
        now, rules = trio.current_time(), self._rules
        self.pressure = advance(before, rules.thresholds, observe(node), now, rules.transition_seconds)
        for name in sorted({*self.pressure.conditions} - {*before.conditions}):
            log.warning("The node has the condition %s: %s", name, self._shortages(name))
        for name in sorted({*before.conditions} - {*self.pressure.conditions}):
            log.info("The node has the condition %s no longer", name)

    def _shortages(self, condition: str) -> str:
        """Return the thresholds that caused that condition, for an operator."""
        found = self.pressure.observed
        return ", ".join(
            f"{one.signal} is {found[one.signal].available}, the threshold {one.value.of(found[one.signal].capacity)}"
            for one in self.pressure.met_since
            if one.condition == condition and one.signal in found
        )

    # ---- reclaiming without evictions ----

    async def _reclaim(self, usage: NodeUsage, signal: str, *, image_disk: bool) -> bool:
        """Free disk space if that helps; True if the node has no shortage afterwards."""
        if signal not in DISK_SIGNALS or (image_disk and signal not in IMAGE_SIGNALS):
            return False
        for remove in (self._garbage.collect_unused, self._images.remove_unused):
            await remove()
            try:
                found = observe(await usage.node())
            except OSError:
                return False
            if not met(self._rules.thresholds, found, with_reclaim=True):
                log.info("The node has enough again, without evicting a pod")
                return True
        return False

    # ---- ending pods ----

    async def _evict_one(self, usage: NodeUsage, threshold: Threshold, *, image_disk: bool) -> Sequence[str]:
        """Evict the first candidate of the ranking that can be ended."""
        if counts_directories(threshold.signal, image_disk=image_disk):
            with trio.move_on_after(self._bounds.eviction_measure_seconds_max):
                await usage.disks_measured()
        used = await self._measure(usage, with_layers=threshold.signal in DISK_SIGNALS)
        if used is None:
            return ()
        candidates = [Candidate(pod, used.get(pod.metadata.uid)) for pod in self._evictable()]
        for one in rank(candidates, threshold.signal, image_disk=image_disk):
            if is_critical(one.pod):
                continue
            observed = self.pressure.observed[threshold.signal]
            said = messages.evicted(one, threshold, observed)
            grace = GRACE_SECONDS_MIN if threshold.is_hard else self._soft_grace(one.pod)
            if self._evict(one.pod, threshold.signal, said, grace):
                self.stats_ages[threshold.signal].add(max(0, self._clock.now_ns() - observed.at_ns) / SECOND_NS)
                return [one.pod.metadata.uid]
        if self._only_critical.may_log():
            log.warning("No pod can be evicted although %s is short: critical pods never are", threshold.signal)
        return ()

    async def _evict_beyond_limits(self, usage: NodeUsage) -> Sequence[str]:
        limited = [pod for pod in self._evictable() if not is_critical(pod) and limits.has_limits(pod)]
        used = (await self._measure(usage) if limited else None) or {}
        # Until the disk of the layers is known, they do not count against limits.
        image_disk = self._image_disk is not False
        ended = []
        for pod in limited:
            await trio.lowlevel.checkpoint()  # parsing the limits of 500 pods takes a while
            uid = pod.metadata.uid
            found = limits.violation(pod, used[uid], image_disk=image_disk) if uid in used else None
            if found is None:
                continue
            said = messages.Said(found.message, {})
            if self._evict(pod, found.signal, said, GRACE_SECONDS_MIN, is_disruption=False):
                ended.append(uid)
        return ended

    async def _measure(self, usage: NodeUsage, *, with_layers: bool = False) -> Mapping[str, PodUsed] | None:
        """Return each pod's usage by UID; None if it cannot be measured. ``with_layers``: None also if the runtime does
        not answer, because only it knows the size of layers: the pod that wrote the most would count as using
        nothing."""
        try:
            snapshot = await usage.snapshot(Depth.SUMMARY)
        except OSError as error:
            problem = str(error)
        else:
            if not (with_layers and snapshot.problem):
                return {one.uid: one for one in snapshot.pods}
            problem = snapshot.problem
        if self._pods_unmeasured.may_log():
            log.warning("Cannot measure the usage of pods, so none is evicted for it: %s", problem)
        return None

    def _evictable(self) -> list[k8s.Pod]:
        """Return the pods that run, are to run, or end with more grace than an evicted pod gets, with their allocated
        resources: a resize that was not granted protects no pod."""
        return [
            self._allocations.as_allocated(one.pod)
            for one in self._workers
            if not ends_as_soon(one.state, GRACE_SECONDS_MIN)
        ]

    def _soft_grace(self, pod: k8s.Pod) -> int:
        """Return the grace in seconds: the configured maximum, or the pod's own if that is less."""
        own = pod.spec.termination_grace_period_seconds
        longest = self._rules.grace_seconds_max
        return longest if own is None else min(longest, own)  # no default, like upstream

    def _evict(
        self, pod: k8s.Pod, signal: str, said: messages.Said, grace_seconds: int, *, is_disruption: bool = True
    ) -> bool:
        """Evict the pod; False if it already ended as soon."""
        ended = self._disruptions.end(
            pod,
            reason=messages.REASON,
            message=said.message,
            annotations=said.annotations,
            grace_seconds=grace_seconds,
            is_disruption=is_disruption,
        )
        if ended:
            self.evicted[signal] += 1
            log.warning("Pod %s is evicted: %s", object_ref(pod), said.message.strip())
        return ended

    async def _are_over(self, uids: Sequence[str]) -> None:
        """Wait, for a limited time, until nothing of these pods is left, because their usage counts until then."""
        with trio.move_on_after(self._bounds.evicted_gone_seconds_max):
            await trio.sleep(self._bounds.eviction_pause_seconds)
            while not all(self._is_over(uid) for uid in uids):
                await self._finished.park()

    def _is_over(self, uid: str) -> bool:
        worker = self._workers.worker(uid)
        return worker is None or isinstance(worker.state, Finished)
