"""A UID lives once: which pods wait for the end of an earlier instance, and what of it does not count any more.

    what there is under the UID of a wanted pod         the pod
    ─────────────────────────────────────────────       ─────────────────────────────────────────────────────────────
    a worker of another name                            gets a worker of its own when that one is over
    none, and another name at the runtime: an orphan    the same, and housekeeping gives the orphan a worker, to end it
    none, and its own name at the runtime               was admitted, and begun, by an earlier agent: it goes on
    its own worker, which ended before it came back     begins again when nothing is left, or what is left never goes

So what runs under a UID is of one name for as long as it runs, whichever agent began it. A static pod waits for what
runs under its name besides (``pods.static_turns``). That holds from one life of the agent to the next, which upstream's
does not: what a manifest brought that was edited while no agent lived is an orphan (``core.orphans``), and it is first
in line before anybody knows it. Nobody of that name has a turn before the runtime was listed, nor while an orphan of it
runs; housekeeping stops that, or begins with it. A pod of the name that another node agent began is not stopped
(``pods.known_uids``), so a static pod may wait for it until an operator ends it; otherwise the pod would run twice.
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
    """Owns which pods got a worker before anybody knew what runs under their UIDs, which are to begin although an
    earlier instance of theirs left what cannot be removed, and the restart counts of those that were wanted again
    before they were gone. Pod workers tell it; whoever else has it only asks.

    ``turns``: the lines of the static pods of each name."""

    def __init__(
        self, runtime_pods: RuntimePods, workers: Mapping[str, PodWorker], wanted: WantedUids, node_uids: KnownUids
    ) -> None:
        """``workers``: by UID, those that there are whenever something is asked."""
        self._runtime_pods = runtime_pods
        self._workers = workers
        self._wanted = wanted
        self._node_uids = node_uids
        self._begun_unlisted: set[str] = set()
        self._leftovers_ignored: set[str] = set()
        self._attempts: dict[str, Mapping[str, int]] = {}  # by UID, then by the names of containers
        self.turns: Final = StaticTurns(self._is_running, self._has_predecessor)

    # ---- what pod workers tell ----

    def begun(self, uid: str) -> None:
        """The pod got a worker."""
        self._leftovers_ignored.discard(uid)
        self._attempts.pop(uid, None)
        if not self._runtime_pods.has_listed:
            self._begun_unlisted.add(uid)

    def ignore_leftovers(self, uid: str) -> None:
        """The pod is wanted again, and what its earlier instance left never goes: it says nothing of the next one."""
        self._leftovers_ignored.add(uid)

    def go_on_from(self, uid: str, attempts: Mapping[str, int]) -> None:
        """The pod was wanted again before it was gone: its next instance goes on from these restart counts."""
        self._attempts[uid] = attempts

    def forget_unwanted(self) -> None:
        """What is left of a pod that nobody wants any more is an orphan's."""
        self._leftovers_ignored.intersection_update(self._wanted)
        for uid in self._attempts.keys() - self._wanted:
            del self._attempts[uid]

    def all_looked_at(self) -> None:
        """Who began before the runtime was listed was compared with what it has."""
        self._begun_unlisted.clear()

    # ---- what is decided by ----

    def has_another(self, pod: Pod) -> bool:
        """Whether the worker of the pod's UID is that of a pod of another name, which has not ended yet."""
        worker = self._workers.get(pod.metadata.uid)
        return worker is not None and not is_same_pod(worker.pod, pod)

    def orphan_under_uid(self, pod: Pod) -> PodRecord | None:
        """What the runtime has under the UID of a pod that has not begun, and under another name: an earlier agent
        made it. None for a pod that has begun, and where an end of this agent's own left it."""
        uid = pod.metadata.uid
        worker = self._workers.get(uid)
        if worker is not None and not (uid in self._begun_unlisted and self.turns.waits(worker)):
            return None
        if uid in self._leftovers_ignored or not self._runtime_pods.has_listed:
            return None
        record = self._runtime_pods.pod(uid)
        return record if record is not None and has_another_name(record, pod) else None

    def orphans_under_uids(self, pods: Iterable[Pod]) -> list[PodRecord]:
        """The same of many."""
        return [orphan for pod in pods if (orphan := self.orphan_under_uid(pod)) is not None]

    def may_run(self, uid: str) -> bool:
        """Whether the runtime may have something of the pod that is not known to be dead: of one without a worker an
        earlier agent has started it, so the node had admitted it."""
        return uid not in self._leftovers_ignored and self._runtime_pods.may_have(uid)

    def ignores_leftovers(self, uid: str) -> bool:
        """Whether the pod is to begin although an earlier instance of it left something."""
        return uid in self._leftovers_ignored

    def attempts(self, uid: str) -> Mapping[str, int]:
        """Return the restart counts that the pod's next instance goes on from, by the names of containers."""
        return self._attempts.get(uid, {})

    def waits_because(self, pod: Pod) -> str:
        """For whose end a wanted pod waits before anything of it is started; "" for one that does not."""
        worker, orphan = self._workers.get(pod.metadata.uid), self.orphan_under_uid(pod)
        if orphan is not None:
            return f"what runs under its UID is pod {orphan.namespace}/{orphan.name}, which has not ended"
        if worker is None:
            return ""
        if self.has_another(pod):
            return f"its UID is that of pod {object_ref(worker.pod)}, which has not ended"
        if not self.turns.waits(worker) or not self._runtime_pods.has_listed:
            return ""
        if unknown := self._unknown_namesakes(worker):
            return waits_for_unknown(unknown[0].namespace, unknown[0].name, unknown[0].uid)
        first = self.turns.first(worker)
        which = "what an earlier agent began" if first is worker else f"the pod of UID {first.pod.metadata.uid}"
        return f"{which} under its name has not ended"

    # ---- what static pods take turns by ----

    def _is_running(self, worker: PodWorker) -> bool:
        return self._runtime_pods.is_running(worker.pod.metadata.uid)

    def _has_predecessor(self, worker: PodWorker) -> bool:
        """Whether something of the pod's name runs, or may, that an earlier agent or another one began and that has no
        worker yet."""
        if not self._runtime_pods.has_listed:
            return True
        orphans = [one for one in self._orphans() if not self._is_unknown(one)]
        awaited = awaited_by(worker.pod, orphans, pod_runs=self._is_running(worker))
        return bool(awaited or self._unknown_namesakes(worker))

    def _unknown_namesakes(self, worker: PodWorker) -> list[PodRecord]:
        """The unknown pods of the worker's name, without which its pod would not run twice. A pod that runs as well
        waits for none of them: an unknown pod may run for ever."""
        if self._is_running(worker):
            return []
        return awaited_by(worker.pod, [one for one in self._orphans() if self._is_unknown(one)], pod_runs=False)

    def _is_unknown(self, record: PodRecord) -> bool:
        return self._node_uids.has_looked and record.uid not in self._node_uids

    def _orphans(self) -> list[PodRecord]:
        """What runs without a worker, and gets none as a wanted pod. Under the UIDs of those that began before the list
        may be anything."""
        known = {*self._workers, *self._wanted} - self._begun_unlisted
        return [one for one in self._runtime_pods.running(beside=known) if not self._has_worker(one)]

    def _has_worker(self, record: PodRecord) -> bool:
        """Whether what runs is of a pod that has a worker, by its name, too."""
        worker = self._workers.get(record.uid)
        return worker is not None and namespaced_name(worker.pod) == (record.namespace, record.name)

    def __repr__(self) -> str:
        return f"<EarlierInstances {len(self.turns)} names in line>"
