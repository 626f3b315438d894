"""Garbage collection in the runtime and the log directory: dead containers, sandboxes, logs.

Runs once a minute, and sooner for pods in which something has just died. ``core.garbage`` decides, and
``node.container_remover`` removes, for a few pods concurrently (``kit.keyed_tasks``), so neither a pass nor another pod
waits for one that hangs. The same holds for the logs of removed pods, which may be of any size, and for finding them:
if their disk does not answer, logs stay, and all else is removed. If the runtime could not be listed as a whole for the
time of a pass, perhaps because of its garbage, each pod is listed by itself, one after another, until the whole list
works again. Before that the last list is used, because dead containers stay dead.

It does not wait for the sources, because they may never report, and containers crash meanwhile. For a pod that no
source has reported yet the newest of everything is kept, as for any wanted pod
(``PodWorkers.should_content_be_removed``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.core.names import uid_of_log_directory
from trikubelet.core.parts import pods_of
from trikubelet.core.relist import Relist
from trikubelet.kit.every import Every
from trikubelet.kit.keyed_tasks import KeyedTasks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.core.relist import PodRecord
    from trikubelet.kit.gather import Gather
    from trikubelet.model.bounds import Bounds
    from trikubelet.node.container_remover import ContainerRemover
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import Runtime, RuntimePods


class GarbageCollection:
    """Owns which pods have a removal under way, and for which of them eviction requested to remove more. Removes dead
    containers and sandboxes, and the logs of removed pods. A file that cannot be removed is an operator's problem: it
    is reported, retried in a minute, and never ends the agent."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        runtime_pods: RuntimePods,
        workers: PodWorkers,
        leftovers: Gather[str],
        container_remover: ContainerRemover,
        bounds: Bounds,
    ) -> None:
        self._runtime = runtime
        self._runtime_pods = runtime_pods
        self._workers = workers
        self._leftovers = leftovers
        self._container_remover = container_remover
        self._bounds = bounds
        self._keyed_tasks = KeyedTasks(bounds.removals_max, bounds.removal_hung_seconds)
        self._unused: set[str] = set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Collect until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._keyed_tasks.run)
            nursery.start_soon(self._collect_leftovers)
            task_status.started()
            async for now in Every(self._bounds.garbage_period_seconds):
                await self._pass(now)

    async def _pass(self, now: float) -> None:
        failing_since = self._runtime_pods.failing_since
        if failing_since is not None and now - failing_since >= self._bounds.garbage_period_seconds:
            await self._collect_pod_by_pod()
        elif self._runtime_pods.has_listed:
            self.collect()

    async def _collect_leftovers(self) -> None:
        """Collect pods in which something has died, before the next pass: a crashing container leaves a dead one per
        restart, and a removed pod all of its own, which adds up within a minute."""
        while True:
            uids = await self._leftovers.collect()
            if self._runtime_pods.has_listed:
                self._collect_of(sorted(uids))

    def collect(self) -> None:
        """Make one pass over everything. Containers and logs follow concurrently, as slots become free."""
        self._collect_of(self._runtime_pods.uids_with_dead())
        self._keyed_tasks.begin("all logs", self._collect_logs)
        self._keyed_tasks.begin("dead links", self._remove_dead_links)

    async def collect_unused(self) -> None:
        """Remove everything dead, including the last containers of ended pods, because the node is short of disk. Waits
        until that is done, unless it hangs."""
        uids = self._runtime_pods.uids_with_dead()
        self._unused.update(uids)  # not in the task, which a regular pass replaces while it waits for a slot
        self._collect_of(uids)
        with trio.move_on_after(self._bounds.removal_hung_seconds):
            await self._keyed_tasks.all_done()

    @property
    def is_busy(self) -> bool:
        """True if a removal is under way, or waits for a slot."""
        return len(self._keyed_tasks) > 0

    def _collect_of(self, uids: Iterable[str]) -> None:
        for uid in uids:
            if uid in self._workers.known:  # another node agent needs the ended containers of its pods
                self._keyed_tasks.begin(uid, partial(self._collect_listed, uid))

    async def _collect_listed(self, uid: str) -> None:
        """Collect the pod in its state when its turn comes: there may be thousands. Returns when a list has shown the
        result, so that the next task for the pod does not remove the same again."""
        record = self._runtime_pods.pod(uid)
        if record is None:
            self._unused.discard(uid)
        elif await self._collect_from(record):
            await self._container_remover.wait_until_relisted(uid)

    def _may_go(self, directory: str) -> bool:
        """True if the logs are no longer needed. Must be called again when their turn comes, because a static pod may
        have come back."""
        uid = uid_of_log_directory(directory)
        return self._workers.should_content_be_removed(uid) and self._runtime_pods.pod(uid) is None

    async def _collect_logs(self) -> None:
        for directory in sorted(await self._container_remover.log_directories()):
            await trio.lowlevel.checkpoint()
            if self._may_go(directory):
                self._keyed_tasks.begin(f"logs {directory}", partial(self._collect_log_directory, directory))

    async def _collect_log_directory(self, directory: str) -> None:
        if self._may_go(directory):
            await self._container_remover.remove_log_directory(directory)

    async def _remove_dead_links(self) -> None:
        await self._container_remover.remove_dead_links(self._runtime_pods.container_ids())

    async def _collect_pod_by_pod(self) -> None:
        """Make one pass over all known pods, until all can be listed at once again. Logs without a container wait until
        the containers are known again."""
        for uid in filter(self._workers.known.__contains__, await self._uids()):
            if self._runtime_pods.failing_since is None:
                return
            found: PodRecord | None = None
            with self._container_remover.one_list(), self._container_remover.logged_once(f"list pod {uid}"):
                alone = Relist()
                sandboxes = await self._runtime.list_sandboxes(uid)
                alone.observe_pod(uid, sandboxes, await self._runtime.list_containers(uid))
                found = alone.pod(uid)
            if found is not None:
                self._keyed_tasks.begin(uid, partial(self._collect_from, found))

    async def _uids(self) -> list[str]:
        """Return the pods that may have leftovers in the runtime: those with sandboxes, if it can list them, those of
        the last list, and those with logs."""
        logs = await self._container_remover.log_directories()
        uids = {*self._runtime_pods.uids(), *map(uid_of_log_directory, logs)}
        with self._container_remover.one_list(), self._container_remover.logged_once("list the sandboxes"):
            for chunk in await self._runtime.list_sandboxes():
                uids.update(*pods_of(chunk).values())
                await trio.lowlevel.checkpoint()
        return sorted(uids)

    async def _collect_from(self, record: PodRecord) -> bool:
        """Collect from the pod; True if there was something. All is removed once its content must go, or, if eviction
        requested it, once the pod has ended."""
        uid = record.uid
        may_go = self._workers.has_ended if uid in self._unused else self._workers.should_content_be_removed
        self._unused.discard(uid)
        goes_on = partial(self._keyed_tasks.made_progress, uid)
        return await self._container_remover.remove_dead(record, may_go, goes_on)
