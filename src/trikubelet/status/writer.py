"""The status writer, which writes pods' computed statuses to the API server.

    enqueue(names) ─ synchronous ─► WorkQueue: names only       (urgent ones first: an end, the first time ready)
    run():  the next name ─► one task: core.pod_status.due ─► PATCH or DELETE ─► check again
            ─ an answer ─► kept next to the informer's object until that has caught up
            ─ no answer ─► all names pause, then one tries (status/work_queue.py)

Level-triggered: a status that changes while it waits, or while it is being written, is written once, as it is when its
turn comes. Objects are written concurrently, one object never twice at the same time, and nothing is read before it is
written: the base of a patch is the object that the informer last saw or our later write, whichever is newer.

An answer with an older version than the informer's comes from a server that was restored from a backup, and is newer
nevertheless. The same holds for a pod that the informer still sees and the server does not have. An unchanged status
that is written again is written with exponential backoff, whatever the versions.

It is woken by published statuses, by the informer's changes and by workers that finish. Every ten seconds everything is
compared, which sends no request where nothing differs.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from trikubelet.core.names import is_mirror, namespaced_name, status_uid
from trikubelet.core.pod_status import Patch, PodProgress, Remove, comes_back, due, is_to_go, is_urgent
from trikubelet.core.resource_version import is_older
from trikubelet.core.timestamps import rfc3339
from trikubelet.kit.distribution import Distribution
from trikubelet.kit.every import Every
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.listeners import Listeners
from trikubelet.model import api_errors, k8s
from trikubelet.model.api import PODS, PatchKind
from trikubelet.status.figures import WriterFigures
from trikubelet.status.rewrite_limit import RewriteLimit
from trikubelet.status.work_queue import WorkItem, WorkQueue, answer_within
from trikubelet.status.written_object import WrittenObject

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping

    from trikubelet.kit.barrier import Barrier
    from trikubelet.kit.outage import Outage
    from trikubelet.model.bounds import Bounds
    from trikubelet.ports import Api, ApiPods, Clock, PodDeletionSafetyProvider
    from trikubelet.status.memory import PodStatuses

log = logging.getLogger(__name__)

DURATIONS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0)
"""Buckets of the durations of status writes, in seconds: upstream's."""

REFUSALS_BEFORE_REMOVAL: Final = 5
"""How often the last status of a terminating pod is offered to a server that calls it invalid; it takes up to a minute.
Then the pod is deleted without it, because an admission policy must not keep a pod that no longer exists. Earlier
rejections do not count: only while the pod terminates can no better status follow."""

LAGGING_REFUSALS_MAX: Final = 6
"""Answers that the server does not have or show a pod which an informer's lag can explain."""

Name = tuple[str, str]
"""Namespace and name."""


class StatusWriter:
    """Owns the last write of each pod's status to the API server. ``refused_mirror``: is called if the status of the
    static pod of that name can never follow its mirror pod's status, as after a pod came back under its UID."""

    def __init__(
        self,
        api: Api,
        statuses: PodStatuses,
        pods: ApiPods,
        pod_deletion_safety: PodDeletionSafetyProvider,
        clock: Clock,
        outage: Outage,
        bounds: Bounds,
        chance: random.Random,
    ) -> None:
        self._api = api
        self._statuses = statuses
        self._pods = pods
        self._pod_deletion_safety = pod_deletion_safety
        self._clock = clock
        self._outage = outage
        self._bounds = bounds
        self._queue: WorkQueue[Name] = WorkQueue(
            "writing the status of a pod", bounds.status_writes_max, outage, bounds, chance
        )
        self._rewrite_limit: RewriteLimit[Name] = RewriteLimit(chance, at_once_max=0)
        self._objects: dict[Name, WrittenObject] = {}
        self._barriers = FaultBarriers(log, "%s: a bug in writing its status; it is retried with backoff")
        self._patches = self._removals = self._failures = 0
        self._durations = Distribution(DURATIONS)
        self.refused_mirror: Final[Listeners[Name]] = Listeners("a mirror whose status is refused")

    def enqueue(self, names: Iterable[Name]) -> None:
        """Note a change of the pods of these names: of their status, object or state. Never blocks."""
        for name in names:
            seen = self._pods.objects.get(name)
            if seen is not None:
                urgent = False
                with self._barrier(name):
                    urgent = self._is_urgent(name, seen)
                self._queue.add(name, urgent=urgent)

    def forget_answers(self) -> None:
        """Forget earlier answers, because the server was restored from a backup and the informer has its current state:
        a written status may be lost although the informer's object is the same. Never blocks."""
        for known in self._objects.values():
            known.forget_answers()
        self.enqueue(list(self._pods.objects))

    def _barrier(self, name: Name) -> Barrier:
        return self._barriers.of(f"Pod {name[0]}/{name[1]}")

    def _is_urgent(self, name: Name, seen: k8s.Pod) -> bool:
        uid = status_uid(seen)
        progress = self._progress(uid)
        self._reconsider_refusals(name, self._statuses.version(uid), is_last=is_to_go(seen, progress))
        return is_urgent(seen, self._reported(seen), self._statuses.get(uid), progress)

    def _reconsider_refusals(self, name: Name, version: int, *, is_last: bool) -> None:
        known = self._objects.get(name)
        if known is None:
            return
        if is_last and not known.is_to_go:
            known.is_to_go = True
            self._queue.forget(name)  # earlier rejections must not delay or count against the last status
        elif {known.refused, known.rewritten} - {0, version}:
            known.refused = known.rewritten = 0
            self._queue.skip_backoff(name)  # the rejection concerned the status before, or the object exists again

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reconcile)
            task_status.started()
            while True:
                nursery.start_soon(self._serve, await self._queue.get())

    def figures(self) -> WriterFigures:
        """Return the writer's figures."""
        return WriterFigures(
            waiting=self._queue.waiting,
            busy=len(self._queue.served),
            patches=self._patches,
            removals=self._removals,
            failures=self._failures,
            bugs=self._barriers.count,
            durations=self._durations,
        )

    async def _reconcile(self) -> None:
        async for _ in Every(self._bounds.status_reconcile_seconds):
            names = list(self._pods.objects)  # in order, so that a simulated node repeats itself
            self.enqueue(names)
            self._queue.keep(names)
            for name in self._objects.keys() - set(names) - self._queue.served:
                del self._objects[name]

    def _progress(self, uid: str) -> PodProgress:
        safety = self._pod_deletion_safety
        return PodProgress(safety.could_have_running_containers(uid), safety.is_finished(uid))

    def _reported(self, seen: k8s.Pod) -> k8s.PodStatus:
        """Return the status that the server has, as far as known."""
        known = self._objects.get(namespaced_name(seen))
        if known is None or known.uid != seen.metadata.uid or known.written is None:
            return seen.status or k8s.PodStatus()
        return known.written if known.is_written_after(seen, self._pods.version) else seen.status or k8s.PodStatus()

    def _known(self, seen: k8s.Pod) -> WrittenObject:
        known = self._objects.get(namespaced_name(seen))
        if known is None or known.uid != seen.metadata.uid:
            known = self._objects[namespaced_name(seen)] = WrittenObject(
                seen.metadata.uid, is_to_go=is_to_go(seen, self._progress(status_uid(seen)))
            )
        if not known.is_written_after(seen, self._pods.version):
            known.written = None
        return known

    # ---- one turn ----

    async def _serve(self, item: WorkItem[Name]) -> None:
        try:
            with self._barrier(item.name) as barrier:
                await self._serve_one(item)
            if barrier.fault is not None:
                self._queue.back_off(item.name)
                if (known := self._objects.get(item.name)) is not None:
                    known.in_doubt = True  # it may have been written before
        finally:
            self._queue.done(item.name)

    async def _serve_one(self, item: WorkItem[Name]) -> None:
        seen = self._pods.objects.get(item.name)
        if seen is None:
            return
        known = self._known(seen)
        step = self._step(seen, known)
        if step is not None and await self._done(step, seen, known):
            self._durations.add(trio.current_time() - item.since)
            self.enqueue([namespaced_name(seen)])

    def _step(self, seen: k8s.Pod, known: WrittenObject) -> Patch | Remove | None:
        """Return the due step for the object."""
        uid = status_uid(seen)
        computed = self._statuses.get(uid)
        if known.is_missing(seen):
            return None
        now = rfc3339(self._clock.now_ns())
        progress = self._progress(uid)
        step = due(
            seen,
            self._reported(seen),
            computed,
            progress,
            now,
            in_doubt=known.in_doubt,
            hopeless=known.refusals >= REFUSALS_BEFORE_REMOVAL,
        )
        if isinstance(step, Remove) and trio.current_time() < known.remove_after:
            return None
        if not isinstance(step, Patch) or seen.metadata.resource_version != known.written_version:
            return step
        if _digest(step.body) != known.written_digest:
            return step
        # It was written with this result: the server does not keep all fields that we write. The steps that follow a
        # write are due all the same.
        step = due(seen, step.status, computed, progress, now)
        return step if isinstance(step, Remove) else None

    async def _done(self, step: Patch | Remove, seen: k8s.Pod, known: WrittenObject) -> bool:
        """Take the step. Return true if it is done; otherwise the next action is scheduled already."""
        name, uid = namespaced_name(seen), status_uid(seen)
        version = self._statuses.version(uid)
        written_from = (version, self._progress(uid), seen.metadata.resource_version)
        is_last = known.is_to_go  # it may become so before the answer
        try:
            with answer_within(self._bounds.api_call_seconds_max):
                await self._carry_out(step, seen, known)
        except (api_errors.ObjectMissing, api_errors.Conflict) as error:
            await self._find_out(seen, known, error)
            return False
        except api_errors.Invalid as error:
            # A retry is useless until the rule that rejects it changes, like an admission policy.
            known.refused = version
            shown = seen.status or k8s.PodStatus()
            if is_mirror(seen) and isinstance(step, Patch) and comes_back(seen, shown, step.status):
                self.refused_mirror.notify(name)
            known.refusals += is_last
            self._refuse(name, error)
            return False
        except (api_errors.Forbidden, api_errors.Refused) as error:
            self._refuse(name, error)
            return False
        except api_errors.ApiError as error:
            self._fail(seen, known, error)
            return False
        known.in_doubt = False
        known.refused = known.refusals = 0
        is_again = isinstance(step, Patch) and known.is_written_again(_digest(step.body), written_from)
        known.rewritten = version if is_again else 0
        self._queue.answered(name, self._rewrite_limit.written(name) if is_again else 0.0)
        return True

    async def _carry_out(self, step: Patch | Remove, seen: k8s.Pod, known: WrittenObject) -> None:
        namespace, name = namespaced_name(seen)
        match step:
            case Patch(body=body, status=status):
                informed_to = self._pods.version
                item = await self._api.patch(
                    PODS, name, body, namespace, kind=PatchKind.STRATEGIC, subresource="status"
                )
                known.written, known.written_version = status, item.resource_version
                self._look_whether_set_back(seen, known, informed_to)
                self._patches += 1
            case Remove():
                await self._api.delete(PODS, name, namespace, grace_seconds=0, uid=seen.metadata.uid)
                # Until the informer reports otherwise: a finalizer may keep it.
                known.miss(seen)
                # The server writes the grace of 0 into the object before it removes it: a change, but not ours.
                known.remove_after = trio.current_time() + self._bounds.status_reconcile_seconds / 2
                self._removals += 1
                log.info("Pod %s/%s has ended; its object is deleted", namespace, name)

    def _look_whether_set_back(self, seen: k8s.Pod, known: WrittenObject, informed_to: str) -> None:
        """Check whether the server was restored from a backup. ``informed_to``: the version up to which the informer
        knew everything when the write was sent."""
        version, known.written_over = seen.metadata.resource_version, ""
        if self._pods.version and not is_older(self._pods.version, known.written_version):
            # The informer should have seen it: it cannot decode it, or the server was restored.
            known.written_over = version
        if is_older(known.written_version, version):
            known.written_over = version
            what = "/".join(namespaced_name(seen))
            self._outage.set_back(f"pod {what} was at version {version} and is at {known.written_version}")
        elif is_older(known.written_version, informed_to) and self._is_unheard_of(seen, known.written_version):
            what = "/".join(namespaced_name(seen))
            evidence = f"pod {what} is at version {known.written_version}, older than {informed_to} and never seen"
            self._outage.set_back(evidence)

    def _is_unheard_of(self, seen: k8s.Pod, version: str) -> bool:
        """True if the informer never had that version of the object. The answer to a write without a change has the
        version before; and an object that it had and could not decode is not ``seen``."""
        return version != seen.metadata.resource_version and namespaced_name(seen) not in self._pods.faults()

    async def _find_out(
        self, seen: k8s.Pod, known: WrittenObject, why: api_errors.ObjectMissing | api_errors.Conflict
    ) -> None:
        """Read the object to find out whether it is missing or has another UID. A 404 may also come from an admission
        webhook that misses something of its own, or from a server that is not fully restored. The informer removes an
        object that is really gone; until then the write is retried with backoff."""
        namespace, name = namespaced_name(seen)
        try:
            with answer_within(self._bounds.api_call_seconds_max):
                uid = (await self._api.get(PODS, name, namespace)).uid
        except (api_errors.ObjectMissing, api_errors.Forbidden) as error:
            # It is gone, which a node sees as Forbidden, or belongs to another node by now, and then the informer will
            # report it, mostly within a second; or the server is not ready yet.
            is_no_lag = self._refuse((namespace, name), error, logged_at=LAGGING_REFUSALS_MAX)
            if is_no_lag and (namespace, name) in self._pods.objects:
                # Once: if a list shows it as well, a rule of the cluster hides it.
                self._outage.set_back(f"pod {namespace}/{name} does not exist, and no watch has reported its deletion")
            return
        except api_errors.ApiError as error:
            self._fail(seen, known, error)
            return
        if uid != seen.metadata.uid:
            known.miss(seen)
            self._queue.answered((namespace, name))
            return
        if isinstance(why, api_errors.ObjectMissing):
            self._refuse((namespace, name), why)
            return
        log.info("Pod %s/%s: its status is written again: %s", namespace, name, why)
        known.in_doubt = True
        self._queue.refused((namespace, name))
        self.enqueue([namespaced_name(seen)])

    def _refuse(self, name: Name, error: api_errors.ApiError, *, logged_at: int = 1) -> bool:
        """Record a rejection and log it once; return true if it was logged now. It is retried with backoff, when
        everything is compared."""
        is_due = self._queue.refused(name) == logged_at
        if is_due:
            log.warning("Pod %s/%s: the API server rejects its status: %s", *name, error)
        return is_due

    def _fail(self, seen: k8s.Pod, known: WrittenObject, error: api_errors.ApiError) -> None:
        self._failures += 1
        known.in_doubt = True
        self._queue.failed(namespaced_name(seen), error)
        self.enqueue([namespaced_name(seen)])

    def __repr__(self) -> str:
        return f"<StatusWriter {self._queue!r}, {self._patches} patches, {self._removals} removals>"


def _digest(body: Mapping[str, object]) -> int:
    return hash(msgspec.json.encode(body))
