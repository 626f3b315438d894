"""The pod workers: one task per UID.

A pod that comes back while its earlier instance still ends gets a new worker when that life is over and nothing is left
of it. So does a pod of another name with the same UID: a worker keeps the pod, and the queue, that it began with.
``pods.earlier_instances`` decides which pods wait for which, and ``pods.static_turns`` does for static pods of one
name.

All requests are synchronous and never block; the tasks live in the pods nursery that ``run`` opens.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core import lifecycle
from trikubelet.core.admission.another_try import awaits_another_try
from trikubelet.core.lifecycle import (
    Finished,
    Restart,
    Starting,
    Stop,
    StopReason,
    Sync,
    Syncing,
    Terminated,
    Terminating,
)
from trikubelet.core.names import is_same_pod, is_static, object_ref
from trikubelet.kit.background import BackgroundTasks
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.instant import instant
from trikubelet.kit.listeners import Listeners
from trikubelet.pods.earlier_instances import EarlierInstances
from trikubelet.pods.known_uids import KnownUids
from trikubelet.pods.wanted_uids import WantedUids
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


class PodWorkers:
    """Owns which UIDs have a worker (``ports.PodDeletionSafetyProvider``).

    ``earlier``: the runtime's leftovers of earlier instances, and the pods that wait for their end. ``began``: a pod of
    which nothing ran before got a worker; ``finished``: a pod's worker finished."""

    def __init__(
        self,
        syncer: Syncer,
        runtime_pods: RuntimePods,
        leftovers: Gather[str],
        bounds: Bounds,
        chance: random.Random,
        figures: PodFigures,
        known: KnownUids | None = None,
    ) -> None:
        """``known``: the pods that are this node's; by default all of the runtime's."""
        self.known: Final = known or KnownUids(all_known=True)
        self._syncer = syncer
        self._runtime_pods = runtime_pods
        self._leftovers = leftovers
        self._bounds = bounds
        self._chance = chance
        self._workers: dict[str, PodWorker] = {}
        self._wanted = WantedUids()
        self.earlier: Final = EarlierInstances(runtime_pods, self._workers, self._wanted, self.known)
        self._turns = self.earlier.turns
        self._tasks = BackgroundTasks()
        self._barriers = FaultBarriers(log, "%s: a bug in comparing it with the desired pods; it is left unchanged")
        self._figures = figures
        self.began: Final[Listeners[Pod]] = Listeners("a pod that begins")
        self.finished: Final[Listeners[Pod]] = Listeners("a pod that has finished")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the pods nursery open until cancelled. Cancelling it stops no container."""
        await self._tasks.run(task_status=task_status)

    # ---- requests ----

    def begin(self, pod: Pod, *, after: Collection[str] = ()) -> None:
        """Begin with a pod that the node has admitted and that has no worker; only ``pods.admission`` calls this. The
        worker first waits for the pods that make room for it, those of the UIDs ``after``, as long as their grace
        allows."""
        uid = pod.metadata.uid
        assert uid not in self._workers
        leaving = [self._workers[other] for other in after if other in self._workers]
        self._begin(pod, Syncing() if self.earlier.may_run(uid) else Starting(), leaving)

    def sync(self, pod: Pod, *, create: bool = False) -> None:
        """Sync a desired pod with its configuration; ``create``: its source added it again. A pod without a worker is
        left to admission."""
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.ask(Sync(create=create), pod if is_same_pod(worker.pod, pod) else None)

    def update_status_only(self, pod: Pod) -> None:
        """Take another status of the pod from the server, usually the agent's own: it needs no sync."""
        if (worker := self._worker_of(pod)) is not None:
            worker.update_status_only(pod)

    def readiness_gates_changed(self, pod: Pod) -> None:
        """Publish the readiness of a pod whose status at the server does not match its readiness gates."""
        if (worker := self._worker_of(pod)) is not None:
            worker.readiness_gates_changed(pod)

    def stop(self, uid: str, reason: StopReason, grace_override: int | None = None) -> None:
        """Stop the pod. A UID without a worker is left to housekeeping."""
        worker = self._workers.get(uid)
        if worker is None:
            return
        had_finished = isinstance(worker.state, Finished)
        worker.ask(Stop(reason, grace_override))
        if had_finished:
            self._leftovers.add(uid)  # its content, which was kept while the pod was desired, may be removed now
        elif isinstance(worker.state, Finished):
            self._notify_finished(worker)
        self._turns.offer_beside(worker)

    def reject(self, pod: Pod) -> None:
        """Reject a pod without a worker: nothing of it is ever started."""
        assert pod.metadata.uid not in self._workers
        self._begin(pod, Terminated(StopReason.REJECTED))

    def kill_orphan(self, pod: Pod) -> None:
        """Stop a running pod that no source wants. ``pod`` has only the facts of the runtime's labels."""
        if pod.metadata.uid not in self._workers:
            log.warning("Stopping orphaned pod %s: it runs, and no source wants it", object_ref(pod))
            self._figures.orphans += 1
            # As deleted, so that it is forgotten as soon as the runtime has nothing of it.
            state = Terminating(self._bounds.kill_orphan_grace_seconds, StopReason.ORPHANED, deleted=True)
            self._begin(pod, state)

    def withdraw_for(self, orphans: Iterable[PodRecord]) -> None:
        """Withdraw the workers of wanted pods whose UIDs belong to these orphans of other names
        (``orphans_under_uids``). They were queued before the runtime was listed; now the orphan needs the UID's worker,
        to be ended."""
        for orphan in orphans:
            worker = self._workers.pop(orphan.uid, None)
            if worker is not None:
                worker.over.set()
                self._turns.leave(worker)
        self.earlier.all_looked_at()

    def wake(self, uids: Collection[str]) -> None:
        """Sync these pods now."""
        for uid in uids:
            worker = self._workers.get(uid)
            if worker is not None:
                worker.wake()

    def probe_result_changed(self, uid: str) -> None:
        """Act on a new verdict of the pod's probes."""
        worker = self._workers.get(uid)
        if worker is not None:
            worker.probe_result_changed()

    def compare_with(
        self, desired: Collection[str], undecodable: Collection[str] = (), *, all_known: bool = True
    ) -> None:
        """End pods that no source wants, now that every source has reported, and forget finished ones: a pod that came
        back after its end has no worker then, like a new one. ``undecodable``: wanted pods whose new configuration is
        unknown, so nothing of them changes. ``all_known``: no invalid manifest may want more; otherwise nothing of a
        pod without a worker may be removed."""
        self._wanted.replace({*desired, *undecodable}, all_known=all_known)
        self.earlier.forget_unwanted()
        for uid, worker in list(self._workers.items()):
            with self._barriers.of(f"Pod {object_ref(worker.pod)}"):
                self._compare(uid, worker, is_desired=uid in desired, is_undecodable=uid in undecodable)
        self.begin_again(desired)

    def begin_again(self, desired: Collection[str]) -> None:
        """Forget pods of ``desired`` that came back after their end as soon as they can begin as new ones, now that the
        runtime was listed. That only needs a report of the source that added them."""
        for uid, worker in list(self._workers.items()):
            if uid in desired and isinstance(worker.state, Finished) and worker.state.restart is not Restart.NO:
                with self._barriers.of(f"Pod {object_ref(worker.pod)}"):
                    self._begin_again_when_it_can(worker)

    def forget_rejection(self, pod: Pod) -> bool:
        """Forget the rejected life of a pod that the node has room for (``awaits_another_try``), so that admission can
        begin a new one. False while something of an earlier life is left."""
        worker = self._worker_of(pod)
        return worker is not None and self.awaits_another_try(pod) and self._forget_when_it_can(worker)

    def _compare(self, uid: str, worker: PodWorker, *, is_desired: bool, is_undecodable: bool) -> None:
        match worker.state:
            case _ if is_desired or is_undecodable:
                return
            case Finished(deleted=True):
                if not self._runtime_pods.may_have(uid):
                    del self._workers[uid]
                    self._syncer.forget(uid)
                    self._wanted.note_end(uid)
            case _:
                self.stop(uid, StopReason.REMOVED)

    # ---- the tasks ----

    def _begin(self, pod: Pod, state: lifecycle.State, leaving: Sequence[PodWorker] = ()) -> None:
        uid = pod.metadata.uid
        # If something of it exists, an earlier agent started it. It can only end by being stopped, and its present
        # containers must be observed first.
        since = instant() if isinstance(state, Syncing) else -math.inf
        worker = PodWorker(pod, state, self._syncer, self._bounds, self._chance, self._figures, since=since)
        self._workers[uid] = worker
        if self.earlier.ignores_leftovers(uid):
            self._syncer.begin_despite_leftovers(uid)
        if attempts := self.earlier.attempts(uid):
            self._syncer.go_on_from(uid, attempts)
        self.earlier.begun(uid)
        self._wanted.note_beginning(uid)
        self.known.note_beginning(uid)
        self._note_beginning(pod, state)
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
            return  # it was withdrawn before it began
        await self._make_way(worker, leaving)
        await worker.live()
        assert isinstance(worker.state, Finished)
        self._turns.leave(worker)
        if worker.statistics().syncs:  # a pod that never began was finished by ``stop``, which notified
            self._notify_finished(worker)

    async def _make_way(self, worker: PodWorker, leaving: Sequence[PodWorker]) -> None:
        # Admission has counted their resources as free already. One that hangs must not keep a critical pod from the
        # node
        # forever: it begins after their grace, at the risk of an OOM kill.
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
        assert isinstance(ended.state, Finished)
        # Upstream counts on where the containers of the earlier life are not removed yet. Here the last status knows.
        counts_on = ended.state.restart is Restart.COUNTS_ON
        attempts = self._syncer.last_attempts(ended.pod) if counts_on else {}
        if self._forget_when_it_can(ended):
            self.earlier.go_on_from(ended.pod.metadata.uid, attempts)
            self._figures.restarted[is_static(ended.pod)] += 1

    def _forget_when_it_can(self, ended: PodWorker) -> bool:
        """Forget a life that is over, so that a new one can begin; True if it was forgotten. It is best when nothing of
        the earlier instance is left, because its ends must not count for the next one. Leftovers that cannot be
        removed, or take too long, are noted by id and ignored (``pods.observations``), except their numbers
        (``pods.container_creator``)."""
        uid = ended.pod.metadata.uid
        if not ended.over.is_set():
            # Its task still waits for its turn: two tasks of one UID would use the same probes and volumes.
            return False
        is_left = self._runtime_pods.may_have(uid)
        if is_left and trio.current_time() - ended.over_at < self._bounds.removal_hung_seconds:
            return False
        if is_left:
            self.earlier.ignore_leftovers(uid)
        self._turns.leave(ended)
        self._syncer.forget(uid)
        del self._workers[uid]  # the next comparison begins with the new instance, through admission
        return True

    # ---- decisions for others ----

    def __contains__(self, uid: object) -> bool:
        return uid in self._workers

    def __iter__(self) -> Iterator[PodWorker]:
        return iter(list(self._workers.values()))

    @property
    def uids(self) -> Collection[str]:
        """The UIDs of pods that have a worker."""
        return self._workers.keys()

    def __len__(self) -> int:
        return len(self._workers)

    def worker(self, uid: str) -> PodWorker | None:
        """Return the worker of that UID; None if there is none."""
        return self._workers.get(uid)

    def _worker_of(self, pod: Pod) -> PodWorker | None:
        """Return the worker of this very pod, not that of another name under its UID."""
        worker = self._workers.get(pod.metadata.uid)
        return worker if worker is not None and is_same_pod(worker.pod, pod) else None

    def _state(self, uid: str) -> lifecycle.State | None:
        worker = self._workers.get(uid)
        return None if worker is None else worker.state

    def could_have_running_containers(self, uid: str) -> bool:
        """True if a container of this pod may run now."""
        return lifecycle.could_have_running_containers(self._state(uid), synced=self._wanted.is_certainly_unwanted(uid))

    def awaits_another_try(self, pod: Pod) -> bool:
        """True for a static pod that the node rejected, which may begin after all."""
        worker = self._worker_of(pod)
        return worker is not None and awaits_another_try(pod, worker.state)

    def is_finished(self, uid: str) -> bool:
        """True if the pod had a life here, and nothing of it is left to do."""
        return isinstance(self._state(uid), Finished)

    def is_to_begin_again(self, uid: str) -> bool:
        """True if the pod is wanted again, and its earlier instance is not gone yet."""
        state = self._state(uid)
        return isinstance(state, Terminating | Terminated | Finished) and state.restart is not Restart.NO

    def is_at_work(self, uid: str) -> bool:
        """True if the pod has a worker with work left."""
        return self._state(uid) is not None and not self.is_finished(uid)

    def is_termination_requested(self, uid: str) -> bool:
        """True if the pod began to stop."""
        return lifecycle.is_termination_requested(self._state(uid))

    def has_ended(self, uid: str) -> bool:
        """True if no container of the pod will be started again."""
        return lifecycle.has_ended(self._state(uid), synced=self._is_our_orphan(uid))

    def should_content_be_removed(self, uid: str) -> bool:
        """True if the pod's containers, logs and directories may be removed."""
        return lifecycle.should_content_be_removed(self._state(uid), synced=self._is_our_orphan(uid))

    def _is_our_orphan(self, uid: str) -> bool:
        """True for a pod of this node without a worker that is certainly not wanted."""
        return uid in self.known and self._wanted.is_certainly_unwanted(uid)

    def __repr__(self) -> str:
        return f"<PodWorkers {len(self._workers)}>"
