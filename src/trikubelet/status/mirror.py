"""Creates, recreates and deletes the mirror pods of this node's static pods.

    enqueue(names) ─ synchronous ─► WorkQueue ─► one task: core.mirror.mirror_due ─► create or delete

Nothing waits for a mirror pod: a static pod starts, runs and ends whether or not there is an API server. It is
level-triggered: woken by the informer and by statuses, and a comparison of everything runs every few seconds, because
nothing reports the removal of a manifest. A mirror pod that the server has deleted is neither deleted nor recreated
before the informer has seen the deletion. One that another client keeps undoing is rewritten with exponential backoff
(``status.rewrite_limit``).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.mirror import Create, Delete, mirror_due
from trikubelet.core.names import is_mirror, namespaced_name
from trikubelet.core.resource_version import may_be_newer
from trikubelet.kit.every import Every
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.log_rate_limit import LogRateLimit
from trikubelet.model import api_errors
from trikubelet.model.api import PODS
from trikubelet.status.rewrite_limit import RewriteLimit
from trikubelet.status.work_queue import WorkQueue, answer_within

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Mapping

    from trikubelet.kit.barrier import Barrier
    from trikubelet.kit.outage import Outage
    from trikubelet.model import k8s
    from trikubelet.model.bounds import Bounds
    from trikubelet.ports import Api, ApiPods, PodDeletionSafetyProvider, Statuses
    from trikubelet.status.work_queue import WorkItem

log = logging.getLogger(__name__)

LAGGING_REFUSALS_MAX: Final = 6
"""Refusals that an informer's lag can explain; they take half a minute. After that the mirror belongs to a pod of
another node."""

UNDONE_SILENCE_SECONDS: Final = 600.0
"""Seconds without another log line after one about undone mirror pods."""

Name = tuple[str, str]
"""Namespace and name."""

_REFUSALS = (
    api_errors.ObjectExists,
    api_errors.ObjectMissing,  # its namespace
    api_errors.Forbidden,
    api_errors.Invalid,
    api_errors.Refused,
)


class MirrorPods:
    """Owns the mirror pods being created or deleted, those to be recreated, and those that are deleted but still seen
    by the informer.

    ``static``: the desired static pods; ``node``: this node's object as last received, None while there is none,
    without which no mirror pod can be created.
    """

    def __init__(
        self,
        api: Api,
        static: Callable[[], Iterable[k8s.Pod]],
        pods: ApiPods,
        node: Callable[[], k8s.Node | None],
        pod_deletion_safety: PodDeletionSafetyProvider,
        statuses: Statuses,
        outage: Outage,
        bounds: Bounds,
        chance: random.Random,
    ) -> None:
        self._api = api
        self._static = static
        self._pods = pods
        self._node = node
        self._pod_deletion_safety = pod_deletion_safety
        self._statuses = statuses
        self._bounds = bounds
        self._queue: WorkQueue[Name] = WorkQueue(
            "keeping mirror pods", bounds.mirror_writes_max, outage, bounds, chance
        )
        self._rewrite_limit: RewriteLimit[Name] = RewriteLimit(chance)
        self._barriers = FaultBarriers(log, "%s: a bug in keeping its mirror; it is retried with backoff")
        self._gone_at: dict[Name, str] = {}
        self._to_remake: set[Name] = set()
        self._undone_log = LogRateLimit(UNDONE_SILENCE_SECONDS)

    def enqueue(self, names: Iterable[Name]) -> None:
        """Note a change of the pods of these names: of the static pod, or its mirror pod. Never blocks."""
        self._compare(names, self._static_pods())

    def enqueue_all(self) -> None:
        """Note a change that concerns all mirror pods, like one of the node's object. Never blocks."""
        mirrors = (name for name, pod in self._pods.objects.items() if is_mirror(pod))
        static = self._static_pods()
        names = list(dict.fromkeys([*static, *mirrors]))
        self._queue.keep(names)
        self._gone_at = {name: version for name, version in self._gone_at.items() if name in self._pods.objects}
        self._to_remake.intersection_update(names)
        self._compare(names, static)

    def remake(self, name: Name) -> None:
        """Recreate a mirror pod whose status makes the server reject the static pod's status: the new one has none.
        Never blocks."""
        self._to_remake.add(name)
        self.enqueue([name])

    def forget_answers(self) -> None:
        """Forget earlier answers, because the server was restored from a backup: a deleted mirror pod may exist again.
        Never blocks."""
        self._gone_at.clear()
        self.enqueue_all()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Maintain the mirror pods until cancelled. Cancelling deletes none."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._compare_always)
            task_status.started()
            while True:
                nursery.start_soon(self._serve, await self._queue.get())

    async def _compare_always(self) -> None:
        async for _ in Every(self._bounds.housekeeping_period_seconds):
            self.enqueue_all()

    def _compare(self, names: Iterable[Name], static: Mapping[Name, k8s.Pod]) -> None:
        for name in names:
            with self._barrier(name):
                if self._due(name, static) is not None:
                    self._queue.add(name)

    def _barrier(self, name: Name) -> Barrier:
        return self._barriers.of(f"Static pod {name[0]}/{name[1]}")

    def _static_pods(self) -> dict[Name, k8s.Pod]:
        """Return the static pods by name; if two manifests have the same name, the first one counts."""
        pods: dict[Name, k8s.Pod] = {}
        for pod in self._static():
            pods.setdefault(namespaced_name(pod), pod)
        return pods

    def _due(self, name: Name, static: Mapping[Name, k8s.Pod]) -> Create | Delete | None:
        node = self._node()
        if node is None or not self._pods.has_synced:
            return None
        seen = self._pods.objects.get(name)
        if seen is not None and self._is_gone(name, seen):
            return None
        safety = self._pod_deletion_safety
        begins_again = safety.is_to_begin_again

        def may_live(uid: str) -> bool:
            # The UID may belong to another, living pod by now; the end of the one before is shown until it has
            # finished.
            is_moved = any(pod.metadata.uid == uid for other, pod in static.items() if other != name)
            return safety.could_have_running_containers(uid) and (not is_moved or begins_again(uid))

        due = mirror_due(static.get(name), seen, node, may_live, self._phase, begins_again)
        is_to_remake = due is None and name in self._to_remake and name in static
        return Delete(seen) if is_to_remake and seen is not None and is_mirror(seen) else due

    def _is_gone(self, name: Name, seen: k8s.Pod) -> bool:
        """True if the server has deleted the mirror pod that the informer still sees."""
        return name in self._gone_at and not may_be_newer(seen.metadata.resource_version, self._gone_at[name])

    def _phase(self, uid: str) -> str:
        status = self._statuses.get(uid)
        return status.phase if status is not None else ""

    async def _serve(self, item: WorkItem[Name]) -> None:
        try:
            with self._barrier(item.name) as barrier:
                due = self._due(item.name, self._static_pods())
                if due is not None:
                    await self._ask(item.name, due)
            if barrier.fault is not None:
                self._queue.back_off(item.name)
        finally:
            self._queue.done(item.name)

    async def _ask(self, name: Name, due: Create | Delete) -> None:
        try:
            with answer_within(self._bounds.api_call_seconds_max):
                was_written = await self._carry_out(due)
        except _REFUSALS as error:
            # An existing one is mostly our own, which the informer has yet to see.
            logged_at = LAGGING_REFUSALS_MAX if isinstance(error, api_errors.ObjectExists) else 1
            if self._queue.refused(name) == logged_at:
                log.warning("The API server rejects the mirror pod of static pod %s/%s: %s", *name, error)
        except api_errors.ApiError as error:
            self._queue.failed(name, error)  # the next comparison requests another turn
        else:
            rest_seconds = self._rewrite_limit.written(name) if was_written else 0.0
            self._queue.answered(name, rest_seconds)
            if rest_seconds:
                self._say_undone(name)

    def _say_undone(self, name: Name) -> None:
        if self._undone_log.may_log():
            log.warning(
                "Another client undoes each write of the mirror pod of static pod %s/%s: writing it more rarely. "
                "Does another agent use this node's name? Stop it, or give it another with --hostname-override",
                *name,
            )

    async def _carry_out(self, due: Create | Delete) -> bool:
        """Return true if that changed anything. Raises ApiError."""
        match due:
            case Create(pod=pod):
                self._to_remake.discard(namespaced_name(pod))  # another client deleted the one to be recreated
                await self._api.create(PODS, pod, pod.metadata.namespace)
                log.info("Static pod %s/%s has a mirror", *namespaced_name(pod))
                return True
            case Delete(pod=pod):
                meta, was_there = pod.metadata, True
                try:
                    await self._api.delete(PODS, meta.name, meta.namespace, grace_seconds=0, uid=meta.uid)
                except (api_errors.ObjectMissing, api_errors.Conflict):
                    was_there = False  # it is gone, or replaced, and the informer will report that too
                self._gone_at[namespaced_name(pod)] = meta.resource_version
                self._to_remake.discard(namespaced_name(pod))
                if was_there:
                    log.info("The mirror of static pod %s/%s is removed", *namespaced_name(pod))
                return was_there

    def __repr__(self) -> str:
        return f"<MirrorPods {self._queue!r}>"
