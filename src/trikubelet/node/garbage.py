"""Collecting what the runtime and the log directory keep and nobody needs: dead containers, sandboxes, logs.

Runs once a minute, and sooner for pods in which something has just died. What to remove is decided in ``core.garbage``
and removed by ``node.container_remover``, of a few pods side by side (``kit.keyed_tasks``), so neither a pass nor
another pod waits for one that hangs, and so it is with the logs of pods that are gone, of which containers may have
left any amount, and with finding them: where their disk does not answer, logs stay, and all else goes.

When the runtime could not be listed as a whole for a pass's time, which may be because of the garbage in it, each pod
is listed by itself, one after another, until it can be again; before that the last list will do, for what was dead
stays dead.

No source need have spoken: that may take for ever, and containers crash meanwhile. Of a pod that nobody has brought yet
the newest of everything stays, as of any pod that is wanted (``PodWorkers.should_content_be_removed``).
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
    """Owns of which pods something is being removed, and of which of them eviction waits for more to go. Has dead
    containers and sandboxes removed, and the logs of pods that are gone. A file that cannot be touched is an operator's
    problem: it is reported, met again in a minute, and never ends the agent."""

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
        """A crashing container leaves one body per restart, and a removed pod all of them; a minute of that is too
        much."""
        while True:
            uids = await self._leftovers.collect()
            if self._runtime_pods.has_listed:
                self._collect_of(sorted(uids))

    def collect(self) -> None:
        """One pass over everything. Containers and logs go after it, as there are places."""
        self._collect_of(self._runtime_pods.uids_with_dead())
        self._keyed_tasks.begin("all logs", self._collect_logs)
        self._keyed_tasks.begin("dead links", self._remove_dead_links)

    async def collect_unused(self) -> None:
        """Remove all that is dead, also the last containers of pods that have ended: the node is short of disk. Waits
        until that is done, unless it hangs."""
        uids = self._runtime_pods.uids_with_dead()
        self._unused.update(uids)  # not with the task, which a regular pass replaces while it waits
        self._collect_of(uids)
        with trio.move_on_after(self._bounds.removal_hung_seconds):
            await self._keyed_tasks.all_done()

    @property
    def is_busy(self) -> bool:
        """Whether something is being removed, or is to be once there is a place."""
        return len(self._keyed_tasks) > 0

    def _collect_of(self, uids: Iterable[str]) -> None:
        for uid in uids:
            if uid in self._workers.known:  # the ended containers of another node agent's pods are its memory of them
                self._keyed_tasks.begin(uid, partial(self._collect_listed, uid))

    async def _collect_listed(self, uid: str) -> None:
        """The pod as it is when its turn comes: there may be thousands. It is over when a list has shown what became of
        it, so that whoever is next for the pod does not remove the same again."""
        record = self._runtime_pods.pod(uid)
        if record is None:
            self._unused.discard(uid)
        elif await self._collect_from(record):
            await self._container_remover.wait_until_relisted(uid)

    def _may_go(self, directory: str) -> bool:
        """Whether nobody needs the logs. To be asked again when their turn comes: a static pod may have come back."""
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
        """One pass over every pod that something is known of, until all can be listed at once again. Logs without a
        container wait until it is known again which containers there are."""
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
        """Pods that may have left something in the runtime: those it has sandboxes of, if it can list them, those that
        were listed when it last could, and those that have logs."""
        logs = await self._container_remover.log_directories()
        uids = {*self._runtime_pods.uids(), *map(uid_of_log_directory, logs)}
        with self._container_remover.one_list(), self._container_remover.logged_once("list the sandboxes"):
            for chunk in await self._runtime.list_sandboxes():
                uids.update(*pods_of(chunk).values())
                await trio.lowlevel.checkpoint()
        return sorted(uids)

    async def _collect_from(self, record: PodRecord) -> bool:
        """Whether there was something to remove. Nothing of a pod need be kept once its content is to be removed; where
        eviction asked, once it has ended."""
        uid = record.uid
        may_go = self._workers.has_ended if uid in self._unused else self._workers.should_content_be_removed
        self._unused.discard(uid)
        goes_on = partial(self._keyed_tasks.made_progress, uid)
        return await self._container_remover.remove_dead(record, may_go, goes_on)
