"""The pod workers: one task per UID, and the rules between pods.

Two rules need sight of more than one pod. A UID lives once: a pod that comes back while its earlier instance still ends
gets a new worker when that life is over and nothing is left of it. So does a pod of another name that the UID was given
to: what runs under a UID is of one name for as long as it runs, whichever agent began it, and a worker keeps the pod,
and the line, that it began with. And static pods that share a full name run one after another (``pods.static_turns``).
That holds from one life of the agent to the next, which upstream's does not: what a manifest brought that was edited
while no agent lived is an orphan, and it is first in line before anybody knows it. Nobody of that name has a turn
before the runtime was listed, nor while something of that name runs that has no worker; housekeeping stops that
(``kill_orphan``) or begins with it.

Everything that asks is synchronous and never blocks; the tasks live in the pods nursery passed to ``run``.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core import lifecycle
from trikubelet.core.lifecycle import Finished, Starting, Stop, StopReason, Sync, Syncing, Terminated, Terminating
from trikubelet.core.names import is_same_pod, is_static, namespaced_name, object_ref
from trikubelet.core.orphans import earlier_versions, may_be_of_api_server
from trikubelet.kit.background import BackgroundTasks
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.instant import instant
from trikubelet.kit.listeners import Listeners
from trikubelet.pods.static_turns import StaticTurns
from trikubelet.pods.worker import PodWorker

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from trikubelet.core.relist import PodRecord
    from trikubelet.kit.gather import Gather
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Pod
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.worker import Syncer
    from trikubelet.ports import RuntimePods

log = logging.getLogger(__name__)

ENDED_KEPT_MAX: Final = 10_000
"""Pods that ended beside an invalid manifest and are remembered until it is mended; of more the first are forgotten.
What they left is gone after a few minutes, but for what cannot be removed."""


class PodWorkers:
    """Owns which UIDs have a worker, which pods are to begin although an earlier instance of theirs left what cannot be
    removed, which began before anybody knew what runs under their UIDs, and which ended beside an invalid manifest, so
    that nothing of them is kept for it (``ports.PodDeletionSafetyProvider``).

    ``began``: a pod got a worker, and nothing of it ran before; ``finished``: a pod's worker did."""

    def __init__(
        self,
        syncer: Syncer,
        runtime_pods: RuntimePods,
        leftovers: Gather[str],
        bounds: Bounds,
        chance: random.Random,
        figures: PodFigures,
    ) -> None:
        self._syncer = syncer
        self._runtime_pods = runtime_pods
        self._leftovers = leftovers
        self._bounds = bounds
        self._chance = chance
        self._workers: dict[str, PodWorker] = {}
        self._turns = StaticTurns(self._is_running, self._has_predecessor)
        self._tasks = BackgroundTasks()
        self._synced = False
        self._wanted: Collection[str] = ()
        self._despite_leftovers: set[str] = set()
        self._begun_unlisted: set[str] = set()
        self._ended: dict[str, None] = {}
        self._barriers = FaultBarriers(log, "%s: a bug in comparing it with what is wanted; it is left as it is")
        self._figures = figures
        self.began: Final[Listeners[Pod]] = Listeners("a pod that begins")
        self.finished: Final[Listeners[Pod]] = Listeners("a pod that has finished")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the pods nursery open until cancelled. Cancelling it stops no container."""
        await self._tasks.run(task_status=task_status)

    # ---- requests ----

    def begin(self, pod: Pod, *, after: Collection[str] = ()) -> None:
        """The node has admitted the pod, which has no worker; only ``pods.admission`` calls this. The worker first
        waits for pods that make room for it, those of the UIDs ``after``, as long as their grace gives them time."""
        uid = pod.metadata.uid
        assert uid not in self._workers
        leaving = [self._workers[other] for other in after if other in self._workers]
        self._begin(pod, Syncing() if self.may_run(uid) else Starting(), leaving)

    def sync(self, pod: Pod, *, create: bool = False) -> None:
        """The pod is desired as configured; ``create``: its source brought it again. One without a worker is left to
        admission."""
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.ask(Sync(create=create), pod if is_same_pod(worker.pod, pod) else None)

    def update_status_only(self, pod: Pod) -> None:
        """The server has another status of the pod, mostly one we wrote: worth no sync of its own."""
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None and is_same_pod(worker.pod, pod):
            worker.update_status_only(pod)

    def readiness_gates_changed(self, pod: Pod) -> None:
        """The server has a status of the pod that is not as ready as its readiness gates say."""
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None and is_same_pod(worker.pod, pod):
            worker.readiness_gates_changed(pod)

    def stop(self, uid: str, reason: StopReason, grace_override: int | None = None) -> None:
        """The pod must end. A UID without a worker is left to housekeeping."""
        worker = self._workers.get(uid)
        if worker is None:
            return
        had_finished = isinstance(worker.state, Finished)
        worker.ask(Stop(reason, grace_override))
        if had_finished:
            self._leftovers.add(uid)  # its content may go now, which stayed as long as the pod was desired
        elif isinstance(worker.state, Finished):
            self._notify_finished(worker)
        self._turns.offer_beside(worker)

    def reject(self, pod: Pod) -> None:
        """The node rejects this pod, which has no worker: nothing of it is ever started."""
        assert pod.metadata.uid not in self._workers
        self._begin(pod, Terminated(StopReason.REJECTED))

    def kill_orphan(self, pod: Pod) -> None:
        """Something of this pod runs and no source wants it. ``pod`` carries only what the runtime's labels say."""
        if pod.metadata.uid not in self._workers:
            log.warning("Stopping orphaned pod %s: it runs, and no source wants it", object_ref(pod))
            self._figures.orphans += 1
            # As deleted, so that it is forgotten as soon as the runtime has nothing of it.
            state = Terminating(self._bounds.kill_orphan_grace_seconds, StopReason.ORPHANED, deleted=True)
            self._begin(pod, state)

    def give_way(self, desired: Iterable[Pod]) -> list[PodRecord]:
        """The runtime was listed: what it has under the UIDs of these pods and under other names, where nothing of them
        has begun. It is an earlier agent's, and an orphan, whose end the pod waits for; one that stood in line for its
        own name has no worker any more."""
        found = []
        for pod in desired:
            uid = pod.metadata.uid
            if uid in self._workers and uid not in self._begun_unlisted:
                continue
            earlier = self.earlier_of_uid(pod)
            if earlier is not None:
                found.append(earlier)
                worker = self._workers.pop(uid, None)
                if worker is not None:
                    worker.over.set()
                    self._turns.leave(worker)
        self._begun_unlisted.clear()
        return found

    def wake(self, uids: Collection[str]) -> None:
        """Look at these pods again now."""
        for uid in uids:
            worker = self._workers.get(uid)
            if worker is not None:
                worker.wake()

    def probe_result_changed(self, uid: str) -> None:
        """The pod's probes concluded something new."""
        worker = self._workers.get(uid)
        if worker is not None:
            worker.probe_result_changed()

    def compare_with(
        self, desired: Collection[str], undecodable: Collection[str] = (), *, all_known: bool = True
    ) -> None:
        """Every source has spoken: pods that none of them wants end, and finished ones are forgotten: one that came
        back after its end has no worker then, as one that is new. ``undecodable`` are wanted too, as it is unknown what
        they are now, so nothing of them changes.
        ``all_known``: no manifest is left that may want more; while there is one, nothing of a pod without a worker may
        be removed."""
        self._synced = all_known
        if all_known:
            self._ended.clear()
        self._wanted = {*desired, *undecodable}
        self._despite_leftovers &= self._wanted
        for uid, worker in list(self._workers.items()):
            with self._barriers.of(f"Pod {object_ref(worker.pod)}"):
                self._compare(uid, worker, is_desired=uid in desired, is_undecodable=uid in undecodable)
        self.begin_again(desired)

    def begin_again(self, desired: Collection[str]) -> None:
        """The runtime was listed: pods of ``desired`` that came back after their end are forgotten as soon as they can
        begin as new ones. That needs no source's word but that of the one which brought them."""
        for uid, worker in list(self._workers.items()):
            if uid in desired and isinstance(worker.state, Finished) and worker.state.restart:
                with self._barriers.of(f"Pod {object_ref(worker.pod)}"):
                    self._begin_again_when_it_can(worker)

    def _compare(self, uid: str, worker: PodWorker, *, is_desired: bool, is_undecodable: bool) -> None:
        match worker.state:
            case _ if is_desired or is_undecodable:
                return
            case Finished(deleted=True):
                if not self._runtime_pods.may_have(uid):
                    del self._workers[uid]
                    self._syncer.forget(uid)
                    self._note_ended(uid)
            case _:
                self.stop(uid, StopReason.REMOVED)

    def _note_ended(self, uid: str) -> None:
        """Its worker is forgotten. While not all is known, that says that no invalid manifest can want what it left."""
        if not self._synced:
            self._ended[uid] = None
        if len(self._ended) > ENDED_KEPT_MAX:
            del self._ended[next(iter(self._ended))]

    # ---- the tasks ----

    def _begin(self, pod: Pod, state: lifecycle.State, leaving: Sequence[PodWorker] = ()) -> None:
        # Where something of it exists, an earlier agent started it. It can only end by being stopped, and what is there
        # must be seen as it is now.
        since = instant() if isinstance(state, Syncing) else -math.inf
        worker = PodWorker(pod, state, self._syncer, self._bounds, self._chance, self._figures, since=since)
        self._workers[pod.metadata.uid] = worker
        self._ended.pop(pod.metadata.uid, None)
        if pod.metadata.uid in self._despite_leftovers:
            self._despite_leftovers.discard(pod.metadata.uid)
            self._syncer.begin_despite_leftovers(pod.metadata.uid)
        self._note_beginning(pod, state)
        if not self._runtime_pods.has_listed:
            self._begun_unlisted.add(pod.metadata.uid)
        turn = None
        if isinstance(state, Terminating):
            self._turns.go_first(worker)
        elif is_static(pod) and isinstance(state, Starting | Syncing):
            turn = self._turns.stand(worker)
        self._tasks.start_soon(self._live, worker, turn, leaving)

    def _note_beginning(self, pod: Pod, state: lifecycle.State) -> None:
        if isinstance(state, Starting | Syncing):
            self._figures.containers.add(len(pod.spec.containers))
        if isinstance(state, Starting):
            self.began.notify(pod)

    async def _live(self, worker: PodWorker, turn: trio.Event | None, leaving: Sequence[PodWorker]) -> None:
        if turn is not None:
            await turn.wait()
        if worker.over.is_set():
            return  # it gave way before it began
        await self._make_way(worker, leaving)
        await worker.live()
        assert isinstance(worker.state, Finished)
        self._turns.leave(worker)
        if worker.statistics().syncs:  # a pod that never began was finished by ``stop``, which notified
            self._notify_finished(worker)

    async def _make_way(self, worker: PodWorker, leaving: Sequence[PodWorker]) -> None:
        # Admission has counted what these hold as free already. One that hangs must not keep a critical pod from the
        # node for ever: it begins after their grace and takes its chance with the kernel.
        patience = max((lifecycle.patience_seconds(other.state) for other in leaving), default=0.0)
        with trio.move_on_after(patience) as waiting:
            for other in leaving:
                await other.over.wait()
        if waiting.cancelled_caught:
            log.warning("Pod %s begins although not all has ended that makes room for it", object_ref(worker.pod))

    def _notify_finished(self, worker: PodWorker) -> None:
        self._leftovers.add(worker.pod.metadata.uid)
        self.finished.notify(worker.pod)

    def _begin_again_when_it_can(self, ended: PodWorker) -> None:
        """Best when nothing of its earlier instance is left, for what ended there must not count here. Where that does
        not go away, or takes for ever, what is left is noted by its ids and does not count (``pods.observations``), but
        for the numbers it has (``pods.container_creator``)."""
        uid = ended.pod.metadata.uid
        if not ended.over.is_set():
            return  # its task still waits for its turn: two tasks of one UID would take each other's probes and volumes
        if not self._runtime_pods.may_have(uid):
            self._forget_for_new_instance(ended)  # whoever compares begins with it, by way of admission
        elif trio.current_time() - ended.over_at >= self._bounds.removal_hung_seconds:
            self._forget_for_new_instance(ended)  # the same, for what is left says nothing of the new instance any more
            self._despite_leftovers.add(uid)

    def _forget_for_new_instance(self, ended: PodWorker) -> None:
        """The same UID is wanted again, and its new instance knows nothing of the one before."""
        uid = ended.pod.metadata.uid
        self._figures.restarted[is_static(ended.pod)] += 1
        self._turns.leave(ended)
        self._syncer.forget(uid)
        del self._workers[uid]

    def offer_turns(self) -> None:
        """Who waits for what an earlier agent began may go on when that has ended, by whomever it was stopped."""
        self._turns.offer()

    def _is_running(self, worker: PodWorker) -> bool:
        return self._runtime_pods.is_running(worker.pod.metadata.uid)

    def _has_predecessor(self, worker: PodWorker) -> bool:
        """Whether something of the pod's name runs, or may, that an earlier agent began and nobody looks after yet.
        What is wanted gets a worker of its own."""
        if not self._runtime_pods.has_listed:
            return True
        unknown = self._runtime_pods.running(beside={*self._workers, *self._wanted} - self._begun_unlisted)
        if self._begun_unlisted:
            unknown = [one for one in unknown if not self._is_workers(one)]
        earlier = earlier_versions(unknown, [worker.pod])
        # What runs beside it already is no version of it, but of the API server. That may be late, and may be what
        # this pod runs, so it must not be waited for.
        return not all(may_be_of_api_server(one) and self._is_running(worker) for one in earlier)

    def _is_workers(self, record: PodRecord) -> bool:
        """Whether what runs is of a pod that has a worker, by its name, too."""
        worker = self._workers.get(record.uid)
        return worker is not None and namespaced_name(worker.pod) == (record.namespace, record.name)

    # ---- what others decide by ----

    def __contains__(self, uid: object) -> bool:
        return uid in self._workers

    def has_another(self, pod: Pod) -> bool:
        """Whether the worker of the pod's UID is that of a pod of another name, which has not ended yet."""
        worker = self._workers.get(pod.metadata.uid)
        return worker is not None and not is_same_pod(worker.pod, pod)

    def earlier_of_uid(self, pod: Pod) -> PodRecord | None:
        """What the runtime has under the UID of a pod that has not begun, and under another name: an earlier agent
        made it. None for a pod that has begun, and where an end of this agent's own left it."""
        uid = pod.metadata.uid
        worker = self._workers.get(uid)
        if worker is not None and not (uid in self._begun_unlisted and self._turns.waits(worker)):
            return None
        if uid in self._despite_leftovers or not self._runtime_pods.has_listed:
            return None
        record = self._runtime_pods.pod(uid)
        if record is None or not record.name:
            return None
        return None if (record.namespace, record.name) == namespaced_name(pod) else record

    def waits_because(self, pod: Pod) -> str:
        """For whose end a wanted pod waits before anything of it is started; "" for one that does not."""
        uid = pod.metadata.uid
        worker, earlier = self._workers.get(uid), self.earlier_of_uid(pod)
        if earlier is not None:
            return f"what runs under its UID is pod {earlier.namespace}/{earlier.name}, which has not ended"
        if worker is None:
            return ""
        if not is_same_pod(worker.pod, pod):
            return f"its UID is that of pod {object_ref(worker.pod)}, which has not ended"
        if not self._turns.waits(worker) or not self._runtime_pods.has_listed:
            return ""
        first = self._turns.first(worker)
        which = "what an earlier agent began" if first is worker else f"the pod of UID {first.pod.metadata.uid}"
        return f"{which} under its name has not ended"

    def may_run(self, uid: str) -> bool:
        """Whether the runtime may have something of the pod that is not known to be dead: of one without a worker an
        earlier agent has started it, so the node had admitted it."""
        return uid not in self._despite_leftovers and self._runtime_pods.may_have(uid)

    def __iter__(self) -> Iterator[PodWorker]:
        return iter(list(self._workers.values()))

    @property
    def uids(self) -> Collection[str]:
        """Of the pods that have a worker."""
        return self._workers.keys()

    def __len__(self) -> int:
        return len(self._workers)

    def worker(self, uid: str) -> PodWorker | None:
        """The worker of that UID, or None."""
        return self._workers.get(uid)

    def _state(self, uid: str) -> lifecycle.State | None:
        worker = self._workers.get(uid)
        return None if worker is None else worker.state

    def _is_known(self, uid: str) -> bool:
        """Whether a UID without a worker is certainly an orphan's, or that of a pod which ended here."""
        return (self._synced or uid in self._ended) and uid not in self._wanted

    def could_have_running_containers(self, uid: str) -> bool:
        """Whether a container of this pod may run now."""
        return lifecycle.could_have_running_containers(self._state(uid), synced=self._is_known(uid))

    def is_finished(self, uid: str) -> bool:
        """Whether the pod had a life here, and nothing of it is left to do."""
        return isinstance(self._state(uid), Finished)

    def is_to_begin_again(self, uid: str) -> bool:
        """Whether the pod is wanted again, and its earlier instance is not gone yet."""
        state = self._state(uid)
        return isinstance(state, Terminating | Terminated | Finished) and state.restart

    def is_at_work(self, uid: str) -> bool:
        """Whether the pod has a worker that has something left to do."""
        return self._state(uid) is not None and not self.is_finished(uid)

    def is_termination_requested(self, uid: str) -> bool:
        """Whether the pod began to stop."""
        return lifecycle.is_termination_requested(self._state(uid))

    def has_ended(self, uid: str) -> bool:
        """Whether no container of the pod will be started again."""
        return lifecycle.has_ended(self._state(uid), synced=self._is_known(uid))

    def should_content_be_removed(self, uid: str) -> bool:
        """Whether the pod's containers, logs and directories may go."""
        return lifecycle.should_content_be_removed(self._state(uid), synced=self._is_known(uid))

    def __repr__(self) -> str:
        return f"<PodWorkers {len(self._workers)}, {len(self._turns)} names in line>"
