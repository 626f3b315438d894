"""One instance per UID: decides which pods wait for the end of an earlier instance, and which leftovers to ignore.

    under the UID of a wanted pod is                    the pod
    ─────────────────────────────────────────────       ─────────────────────────────────────────────────────────────
    a worker of another name                            gets a worker of its own when that one has ended
    no worker, but another name at the runtime          the same, and housekeeping gives the orphan a worker, to end it
    no worker, but its own name at the runtime          was admitted, and begun, by an earlier agent: it goes on
    its own worker, which ended before it came back     begins again when nothing is left, or only unremovable leftovers

So a UID has one name for as long as its pod runs, whichever agent began it. A static pod also waits for running pods of
its name (``pods.static_turns``). That holds over restarts of the agent, unlike upstream: the pod of a manifest that was
edited while no agent ran is an orphan (``core.orphans``), and first in line before it is even known. No pod of that
name has its turn before the runtime was listed, nor while an orphan of it runs; housekeeping stops the orphan, or
begins with it. A pod of the name that another node agent began is not stopped (``pods.known_uids``), so a static pod
may wait for it until an operator ends it; otherwise the pod would run twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.names import is_same_pod, namespaced_name, object_ref
from trikubelet.core.orphans import awaited_by, has_another_name
from trikubelet.core.unknown_pods import waits_for_unknown
from trikubelet.pods.static_turns import StaticTurns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trikubelet.core.relist import PodRecord
    from trikubelet.model.k8s import Pod
    from trikubelet.pods.known_uids import KnownUids
    from trikubelet.pods.wanted_uids import WantedUids
    from trikubelet.pods.worker import PodWorker
    from trikubelet.ports import RuntimePods


class EarlierInstances:
    """Owns which pods got a worker before the runtime was listed, which pods may begin although their earlier instance
    has unremovable leftovers, and the restart counts of pods that were wanted again before their earlier instance had
    ended. Pod workers write these; all others only read.

    ``turns``: the queues of the static pods of each name."""

    def __init__(
        self, runtime_pods: RuntimePods, workers: Mapping[str, PodWorker], wanted: WantedUids, node_uids: KnownUids
    ) -> None:
        """``workers``: by UID, the live mapping of workers."""
        self._runtime_pods = runtime_pods
        self._workers = workers
        self._wanted = wanted
        self._node_uids = node_uids
        self._begun_unlisted: set[str] = set()
        self._leftovers_ignored: set[str] = set()
        self._attempts: dict[str, Mapping[str, int]] = {}  # by UID, then by the names of containers
        self.turns: Final = StaticTurns(self._is_running, self._has_predecessor)

    # ---- notifications from pod workers ----

    def begun(self, uid: str) -> None:
        """Record that the pod got a worker."""
        self._leftovers_ignored.discard(uid)
        self._attempts.pop(uid, None)
        if not self._runtime_pods.has_listed:
            self._begun_unlisted.add(uid)

    def ignore_leftovers(self, uid: str) -> None:
        """Ignore the unremovable leftovers of the pod's earlier instance, because the pod is wanted again."""
        self._leftovers_ignored.add(uid)

    def go_on_from(self, uid: str, attempts: Mapping[str, int]) -> None:
        """Record restart counts from which the pod's next instance counts on, because it was wanted before it was
        gone."""
        self._attempts[uid] = attempts

    def forget_unwanted(self) -> None:
        """Forget pods that are no longer wanted: their leftovers are orphans."""
        self._leftovers_ignored.intersection_update(self._wanted)
        for uid in self._attempts.keys() - self._wanted:
            del self._attempts[uid]

    def all_looked_at(self) -> None:
        """Record that the pods that began before the runtime was listed were compared with the list."""
        self._begun_unlisted.clear()

    # ---- decisions ----

    def has_another(self, pod: Pod) -> bool:
        """True if the worker of the pod's UID is that of a pod of another name, which has not ended yet."""
        worker = self._workers.get(pod.metadata.uid)
        return worker is not None and not is_same_pod(worker.pod, pod)

    def orphan_under_uid(self, pod: Pod) -> PodRecord | None:
        """Return the runtime's record under the UID of a pod that has not begun, if an earlier agent created it under
        another name. None for a pod that has begun, and for leftovers of a pod that this agent ended."""
        uid = pod.metadata.uid
        worker = self._workers.get(uid)
        if worker is not None and not (uid in self._begun_unlisted and self.turns.waits(worker)):
            return None
        if uid in self._leftovers_ignored or not self._runtime_pods.has_listed:
            return None
        record = self._runtime_pods.pod(uid)
        return record if record is not None and has_another_name(record, pod) else None

    def orphans_under_uids(self, pods: Iterable[Pod]) -> list[PodRecord]:
        """Return the orphans under the UIDs of these pods, see ``orphan_under_uid``."""
        return [orphan for pod in pods if (orphan := self.orphan_under_uid(pod)) is not None]

    def may_run(self, uid: str) -> bool:
        """True if the runtime may have something of the pod that is not known to be dead: for a pod without a worker it
        means that an earlier agent started it, and that the node had admitted it."""
        return uid not in self._leftovers_ignored and self._runtime_pods.may_have(uid)

    def ignores_leftovers(self, uid: str) -> bool:
        """True if the pod may begin although an earlier instance of it has leftovers."""
        return uid in self._leftovers_ignored

    def attempts(self, uid: str) -> Mapping[str, int]:
        """Return the restart counts from which the pod's next instance counts on, by the names of containers."""
        return self._attempts.get(uid, {})

    def waits_because(self, pod: Pod) -> str:
        """Return the pod whose end a wanted pod awaits before it is started, as a sentence; "" if it does not wait."""
        worker, orphan = self._workers.get(pod.metadata.uid), self.orphan_under_uid(pod)
        if orphan is not None:
            return f"the pod under its UID is {orphan.namespace}/{orphan.name}, which has not ended"
        if worker is None:
            return ""
        if self.has_another(pod):
            return f"its UID is that of pod {object_ref(worker.pod)}, which has not ended"
        if not self.turns.waits(worker) or not self._runtime_pods.has_listed:
            return ""
        if unknown := self._unknown_namesakes(worker):
            return waits_for_unknown(unknown[0].namespace, unknown[0].name, unknown[0].uid)
        first = self.turns.first(worker)
        which = "the pod of an earlier agent" if first is worker else f"the pod of UID {first.pod.metadata.uid}"
        return f"{which} under its name has not ended"

    # ---- conditions for the turns of static pods ----

    def _is_running(self, worker: PodWorker) -> bool:
        return self._runtime_pods.is_running(worker.pod.metadata.uid)

    def _has_predecessor(self, worker: PodWorker) -> bool:
        """True if a pod of the same name runs, or may run, that an earlier agent or another one began and that has no
        worker yet."""
        if not self._runtime_pods.has_listed:
            return True
        orphans = [one for one in self._orphans() if not self._is_unknown(one)]
        awaited = awaited_by(worker.pod, orphans, pod_runs=self._is_running(worker))
        return bool(awaited or self._unknown_namesakes(worker))

    def _unknown_namesakes(self, worker: PodWorker) -> list[PodRecord]:
        """Return the unknown pods of the worker's name, next to which its pod would run twice. A pod that runs already
        waits for none of them, because an unknown pod may run forever."""
        if self._is_running(worker):
            return []
        return awaited_by(worker.pod, [one for one in self._orphans() if self._is_unknown(one)], pod_runs=False)

    def _is_unknown(self, record: PodRecord) -> bool:
        return self._node_uids.has_looked and record.uid not in self._node_uids

    def _orphans(self) -> list[PodRecord]:
        """Return the running pods without a worker that will get none as wanted pods. The UIDs of pods that began
        before the list may belong to other pods."""
        known = {*self._workers, *self._wanted} - self._begun_unlisted
        return [one for one in self._runtime_pods.running(beside=known) if not self._has_worker(one)]

    def _has_worker(self, record: PodRecord) -> bool:
        """True if the running pod has a worker, compared by UID and name."""
        worker = self._workers.get(record.uid)
        return worker is not None and namespaced_name(worker.pod) == (record.namespace, record.name)

    def __repr__(self) -> str:
        return f"<EarlierInstances {len(self.turns)} names in line>"
