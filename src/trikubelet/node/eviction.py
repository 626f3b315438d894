"""Node-pressure eviction: every ten seconds, is the node short of anything, and whose pod ends for it?

    look at the node ─► core.eviction.pressure ─┬─► conditions, which the node's status and admission read
                                                └─► a threshold is due ─► reclaim: dead containers, unused images
                                                          enough? ◄──────────┘ └─ not enough ─► rank ─► one pod ends
    pods with limits on local storage ─► measured ─► those beyond them end

At most one pod ends for a threshold at a time; then the node is looked at again when it is over, not before a second
has passed, or half a minute later. The look at the node alone is cheap. What pods use is measured only when one must
end, or where one has a limit of its own to be held to; when that fails nobody is evicted. Critical pods (static,
mirror, of system-critical priority) never are.
(upstream: eviction_manager.go; upstream-behaviour.md §1.15)
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
    """Owns what the node was last found short of (``pressure``), and how many pods were ``evicted``, by the signal,
    with how old (seconds) the measurement was."""

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
        # One for each message, or one would keep another from being logged.
        self._node_unmeasured, self._pods_unmeasured, self._only_critical, self._reclaim_late = (
            LogRateLimit(bounds.eviction_silence_seconds) for _ in range(4)
        )
        self._finished = trio.lowlevel.ParkingLot()
        workers.finished.add(lambda _: self._finished.unpark_all())
        self._image_disk: bool | None = None
        self.pressure = Pressure()
        self.evicted: Counter[str] = Counter()
        self.stats_ages: Distributions[str] = Distributions()

    def conditions(self) -> Sequence[str]:
        """The pressure conditions the node has now, sorted."""
        return self.pressure.conditions

    async def run(self, usage: NodeUsage, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look and evict, until cancelled."""
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
        """One look, and what comes of it: the UIDs of pods that were evicted."""
        try:
            node = await usage.node()
        except OSError as error:
            if self._node_unmeasured.may_log():
                log.warning("The node cannot be measured, no pod is evicted: %s", error)
            return ()
        self._note(node)
        if not (self._desired.all_ready and self._runtime_pods.has_listed):
            return ()
        if (found := has_image_disk(node)) is not None:
            self._image_disk = found  # a runtime that does not answer once has not moved its images
        if self._rules.local_limits and (ended := await self._evict_beyond_limits(usage)):
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
            log.warning("Removing dead containers and unused images takes too long, a pod is evicted meanwhile")
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
        """Which thresholds mean that condition now, for an operator."""
        found = self.pressure.observed
        return ", ".join(
            f"{one.signal} is {found[one.signal].available}, the threshold {one.value.of(found[one.signal].capacity)}"
            for one in self.pressure.met_since
            if one.condition == condition and one.signal in found
        )

    # ---- what helps without ending a pod ----

    async def _reclaim(self, usage: NodeUsage, signal: str, *, image_disk: bool) -> bool:
        """Free disk where that helps; whether the node is short of nothing after that."""
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
        """The first of the ranking that may be ended."""
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
        # Until it is known where layers are they count against nobody's limit.
        image_disk = self._image_disk is not False
        ended = []
        for pod in limited:
            await trio.lowlevel.checkpoint()  # limits are parsed from their texts, for what may be 500 pods
            uid = pod.metadata.uid
            found = limits.violation(pod, used[uid], image_disk=image_disk) if uid in used else None
            if found is None:
                continue
            said = messages.Said(found.message, {})
            if self._evict(pod, found.signal, said, GRACE_SECONDS_MIN, is_disruption=False):
                ended.append(uid)
        return ended

    async def _measure(self, usage: NodeUsage, *, with_layers: bool = False) -> Mapping[str, PodUsed] | None:
        """What each pod uses, by its UID; None where that cannot be measured. ``with_layers``: and where the runtime,
        which alone knows how large layers are, does not answer: who wrote the most would count as using nothing."""
        try:
            snapshot = await usage.snapshot(Depth.SUMMARY)
        except OSError as error:
            problem = str(error)
        else:
            if not (with_layers and snapshot.problem):
                return {one.uid: one for one in snapshot.pods}
            problem = snapshot.problem
        if self._pods_unmeasured.may_log():
            log.warning("What pods use cannot be measured, none is evicted for it: %s", problem)
        return None

    def _evictable(self) -> list[k8s.Pod]:
        """The pods that run, are to run, or end with more grace than an evicted pod is given, with what they are
        allocated: what a resize asks for and did not get protects nobody."""
        return [
            self._allocations.as_allocated(one.pod)
            for one in self._workers
            if not ends_as_soon(one.state, GRACE_SECONDS_MIN)
        ]

    def _soft_grace(self, pod: k8s.Pod) -> int:
        """Seconds: the configured maximum, or the pod's own if that is less."""
        own = pod.spec.termination_grace_period_seconds
        longest = self._rules.grace_seconds_max
        return longest if own is None else min(longest, own)  # no default, as upstream

    def _evict(
        self, pod: k8s.Pod, signal: str, said: messages.Said, grace_seconds: int, *, is_disruption: bool = True
    ) -> bool:
        """Whether the pod was evicted, and did not end as soon already."""
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
        """Wait until nothing of these pods is left, for a while: what they had counts as used until then."""
        with trio.move_on_after(self._bounds.evicted_gone_seconds_max):
            await trio.sleep(self._bounds.eviction_pause_seconds)
            while not all(self._is_over(uid) for uid in uids):
                await self._finished.park()

    def _is_over(self, uid: str) -> bool:
        worker = self._workers.worker(uid)
        return worker is None or isinstance(worker.state, Finished)
