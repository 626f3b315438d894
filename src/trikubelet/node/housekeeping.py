"""Housekeeping: every two seconds, compares the node with its desired state and corrects it.

It does not rely on notifications; everything is compared: desired pods with workers, workers with sources, the
runtime's pods and the disk's pod directories with both. So everything that was missed, by this or an earlier process
that was killed at any time, is found again. Until the runtime was listed once, nothing is touched. Until every source
has reported, nothing is removed that one of them may still want: no worker and no orphan ends. Neither do orphans while
there is a manifest that was invalid when the agent started, because they may belong to it. A pod of the API server that
cannot be decoded still has a UID, so only its own leftovers are kept.

Certain decisions wait for no source. A wanted pod without a worker is begun as soon as the runtime was listed, even if
a source has not reported: that source may be the API server, and the pod may be what it runs in. So is a pod that ended
and came back. For the same reason an earlier version of a static pod (``core.orphans``), whose end that one awaits, is
stopped without a report of the API server, and despite any invalid manifest.

A static pod that the node rejected is evaluated again here (``core.admission.another_try``), a few in each pass.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.admission.another_try import next_pass
from trikubelet.core.names import API_SOURCE, orphan_pod
from trikubelet.core.orphans import earlier_versions, may_be_of_api_server
from trikubelet.kit.every import Every
from trikubelet.kit.fault_barriers import FaultBarriers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trikubelet.core.relist import PodRecord
    from trikubelet.model.bounds import Bounds
    from trikubelet.node.orphaned_pods import OrphanedPodCleanup
    from trikubelet.node.unknown_pods import UnknownPods
    from trikubelet.pods.admission import Admission
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import RuntimePods
    from trikubelet.sources.desired import DesiredPods

log = logging.getLogger(__name__)

BEGUN_IN_ONE_STEP_MAX: Final = 16
"""The number of pods that are admitted before other tasks may run: each is compared with all pods of the node."""


class Housekeeping:
    """Owns the invalid manifests for which orphans are left alone, so that each is logged once; until when a late
    source keeps an earlier version of a static pod alive; and which rejected pods were evaluated again in this
    round."""

    def __init__(
        self,
        desired: DesiredPods,
        admission: Admission,
        workers: PodWorkers,
        runtime_pods: RuntimePods,
        orphan_cleanup: OrphanedPodCleanup,
        unknown: UnknownPods,
        bounds: Bounds,
    ) -> None:
        self._desired = desired
        self._admission = admission
        self._workers = workers
        self._earlier = workers.earlier
        self._runtime_pods = runtime_pods
        self._orphan_cleanup = orphan_cleanup
        self._unknown = unknown
        self._left_alone: tuple[str, ...] = ()
        self._evaluated: frozenset[str] = frozenset()
        self._patient_until = math.inf
        self._bounds = bounds
        self._barriers = FaultBarriers(log, "%s: a bug in killing this orphan; it keeps running")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Compare and correct until cancelled."""
        self._patient_until = trio.current_time() + self._bounds.late_source_seconds_max
        task_status.started()
        async for _ in Every(self._bounds.housekeeping_period_seconds):
            await self._unknown.look()  # before anything below may remove a pod's directory
            if self._may_compare:
                await self.compare()
                self._orphan_cleanup.clean_up()
            elif self._runtime_pods.has_listed:
                under_uids = self._earlier.orphans_under_uids(self._desired)
                self._workers.withdraw_for(under_uids)
                self._workers.begin_again({pod.metadata.uid for pod in self._desired})
                await self._begin_with_new()
                self._stop_earlier_versions(under_uids)
            if self._runtime_pods.has_listed:
                self._try_rejected_again()
            self._earlier.turns.offer()

    @property
    def _may_compare(self) -> bool:
        return self._desired.all_ready and self._runtime_pods.has_listed

    async def compare(self) -> None:
        """Adjust workers to the wanted pods and to the running ones, with the facts known at each of the two steps."""
        wanted = list(self._desired)
        under_uids = self._earlier.orphans_under_uids(wanted)
        self._workers.withdraw_for(under_uids)
        desired = {pod.metadata.uid for pod in wanted}.difference(orphan.uid for orphan in under_uids)
        undecodable = self._desired.undecodable
        self._workers.compare_with(desired, undecodable, all_known=not self._desired.invalid_manifests)
        await self._begin_with_new()
        orphans = [*self._orphans(), *under_uids]
        earlier = earlier_versions(orphans, self._desired)
        if self._may_be_wanted([orphan for orphan in orphans if orphan not in earlier]):
            orphans = earlier
        self._kill(orphans)

    def _stop_earlier_versions(self, under_uids: Sequence[PodRecord]) -> None:
        """Stop earlier versions of wanted pods. ``under_uids``: the orphans under the UIDs of wanted pods with other
        names.

        The API server may be late because it waits for this; only pods that may be its own wait for it. Another source
        may define a pod with the name of a file's pod, and the running pod of that name may be its own. Its pod must
        then wait its turn, so it gets some time to report; but a URL may never answer."""
        late = self._desired.sources_not_ready
        if late <= {API_SOURCE} or trio.current_time() >= self._patient_until:
            earlier = earlier_versions([*self._orphans(), *under_uids], self._desired)
            self._kill(one for one in earlier if API_SOURCE not in late or not may_be_of_api_server(one))

    def _orphans(self) -> Sequence[PodRecord]:
        wanted = {pod.metadata.uid for pod in self._desired} | self._desired.undecodable
        return self._unknown.left_out(self._runtime_pods.running(beside=wanted.union(self._workers.uids)))

    def _kill(self, orphans: Iterable[PodRecord]) -> None:
        for record in orphans:
            with self._barriers.of(f"Pod {record.namespace}/{record.name}"):
                self._workers.kill_orphan(orphan_pod(record.uid, record.name, record.namespace))
                if (pod := self._desired.get(record.uid)) is not None:
                    self._admission.begin(pod)  # the next pod of that UID, after its end

    async def _begin_with_new(self) -> None:
        """Begin with the wanted pods that have no worker."""
        uids = [pod.metadata.uid for pod in self._desired if pod.metadata.uid not in self._workers]
        for count, uid in enumerate(uids, 1):
            # It may have got a worker, gone or changed while other tasks ran.
            pod = self._desired.get(uid)
            if pod is not None and uid not in self._workers:
                self._admission.begin(pod)
            if count % BEGUN_IN_ONE_STEP_MAX == 0:
                await trio.lowlevel.checkpoint()

    def _try_rejected_again(self) -> None:
        """Evaluate rejected static pods again, each once before any of them again."""
        awaiting = [pod for pod in self._desired if self._workers.awaits_another_try(pod)]
        due, self._evaluated = next_pass(awaiting, self._evaluated)
        for pod in due:
            self._admission.try_again(pod)

    def _may_be_wanted(self, orphans: Sequence[PodRecord]) -> bool:
        """True if these pods may belong to a manifest that is invalid since the start. Logged once."""
        invalid_manifests = self._desired.invalid_manifests
        if invalid_manifests and orphans and invalid_manifests != self._left_alone:
            names = ", ".join(f"{one.namespace}/{one.name}" for one in orphans)
            log.warning("Not killing orphaned pods (%s) while manifest %s cannot be read", names, invalid_manifests[0])
        self._left_alone = invalid_manifests
        return bool(invalid_manifests)
