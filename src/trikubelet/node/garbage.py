"""Collecting what the runtime and the log directory keep and nobody needs: dead containers, sandboxes, logs.

Runs once a minute, and sooner for pods in which something has just died. What to remove is decided in ``core.garbage``;
of one pod it is removed one thing after another, going on after an error, which the next pass will meet again; of a few
pods side by side (``kit.chores``), so neither a pass nor another pod waits for one that hangs, and so it is with the
logs of pods that are gone, of which containers may have left any amount. When the runtime could
not be listed as a whole for a pass's time, which may be because of the garbage in it, each pod is listed by itself, one
after another, until it can be again; before that the last list will do, for what was dead stays dead.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core import garbage
from trikubelet.core.names import uid_of_log_directory
from trikubelet.core.parts import pods_of
from trikubelet.core.relist import DecodeError, Relist
from trikubelet.kit.barrier import Barrier, words
from trikubelet.kit.chores import Chores
from trikubelet.kit.complaints import Complaints
from trikubelet.kit.every import Every
from trikubelet.kit.instant import instant
from trikubelet.model.errors import StillMounted
from trikubelet.model.runtime_errors import NotFound, RuntimeCallError, RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from trikubelet.core.relist import PodRecord
    from trikubelet.kit.gather import Gather
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.objects import ObjectRef
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import ContainerFiles, Events, PodCache, Relister, Runtime, RuntimePods
    from trikubelet.sources.desired import DesiredPods

log = logging.getLogger(__name__)

_TROUBLES: Final = (OSError, StillMounted, RuntimeCallError, DecodeError, trio.TooSlowError)
"""What stands in the way of a removal; anything else is a bug."""


class GarbageCollection:
    """Owns of which pods something is being removed, and the complaints about what could not be, so that each is made
    once an hour. Removes dead containers and sandboxes, and the logs of pods that are gone. A file that cannot be
    touched is an operator's trouble: it is told, met again in a minute, and never ends the agent."""

    def __init__(
        self,
        runtime: Runtime,
        runtime_pods: RuntimePods,
        relister: Relister,
        cache: PodCache,
        desired: DesiredPods,
        workers: PodWorkers,
        files: ContainerFiles,
        leftovers: Gather[str],
        events: Events,
        node: ObjectRef,
        bounds: Bounds,
    ) -> None:
        self._runtime = runtime
        self._runtime_pods = runtime_pods
        self._relister = relister
        self._cache = cache
        self._desired = desired
        self._workers = workers
        self._files = files
        self._leftovers = leftovers
        self._events = events
        self._node = node
        self._bounds = bounds
        self._chores = Chores(bounds.removals_max, bounds.removal_hung_seconds)
        self._complaints = Complaints()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Collect until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._chores.run)
            nursery.start_soon(self._collect_leftovers)
            task_status.started()
            async for now in Every(self._bounds.garbage_period_seconds):
                if self._desired.all_ready:
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
            if self._desired.all_ready and self._runtime_pods.has_listed:
                self._collect_of(sorted(uids))

    def collect(self) -> None:
        """One pass over everything. Containers and logs go after it, as there are places."""
        self._collect_of(self._runtime_pods.uids_with_dead())
        with self._told_once("look through the pods' logs"):
            for directory in sorted(self._files.log_directories()):
                if self._may_go(directory):
                    self._chores.begin(f"logs {directory}", partial(self._collect_log_directory, directory))
        with self._told_once("remove links to logs that are gone"):
            self._files.remove_dead_links(self._runtime_pods.container_ids())

    @property
    def is_busy(self) -> bool:
        """Whether something is being removed, or is to be once there is a place."""
        return len(self._chores) > 0

    def _collect_of(self, uids: Iterable[str]) -> None:
        for uid in uids:
            self._chores.begin(uid, partial(self._collect_listed, uid))

    async def _collect_listed(self, uid: str) -> None:
        """The pod as it is when its turn comes: there may be thousands. It is over when a list has shown what became of
        it, so that whoever is next for the pod does not remove the same again."""
        if (record := self._runtime_pods.pod(uid)) is not None and await self._collect_from(record):
            with self._one_list(), suppress(RuntimeCallError, trio.TooSlowError):  # PLEG tells who cannot be inspected
                await self._cache.newer_than(uid, instant())

    def _may_go(self, directory: str) -> bool:
        """Whether nobody needs the logs. To be asked again when their turn comes: a static pod may have come back."""
        uid = uid_of_log_directory(directory)
        return self._workers.should_content_be_removed(uid) and self._runtime_pods.pod(uid) is None

    async def _collect_log_directory(self, directory: str) -> None:
        if self._may_go(directory):
            with self._told_once(f"remove the logs {directory}"), self._in_time():
                await self._files.remove_log_directory(directory)

    async def _collect_pod_by_pod(self) -> None:
        """One pass over every pod that something is known of, until all can be listed at once again. Logs without a
        container wait until it is known again which containers there are."""
        for uid in await self._uids():
            if self._runtime_pods.failing_since is None:
                return
            found: PodRecord | None = None
            with self._one_list(), self._told_once(f"list pod {uid}"):
                alone = Relist()
                sandboxes = await self._runtime.list_sandboxes(uid)
                alone.observe_pod(uid, sandboxes, await self._runtime.list_containers(uid))
                found = alone.pod(uid)
            if found is not None:
                self._chores.begin(uid, partial(self._collect_from, found))

    async def _uids(self) -> list[str]:
        """Pods that may have left something in the runtime: those it has sandboxes of, if it can tell, those that were
        listed when it last could, and those that have logs."""
        uids = set(self._runtime_pods.uids())
        with self._told_once("look through the pods' logs"):
            uids |= {uid_of_log_directory(directory) for directory in self._files.log_directories()}
        with self._one_list(), self._told_once("list the sandboxes"):
            for chunk in await self._runtime.list_sandboxes():
                uids.update(*pods_of(chunk).values())
                await trio.lowlevel.checkpoint()
        return sorted(uids)

    def _one_list(self) -> trio.CancelScope:
        """A runtime that does not answer in time is away, which others tell."""
        return trio.move_on_after(self._bounds.runtime_call_seconds_max)

    def _in_time(self) -> AbstractContextManager[trio.CancelScope]:
        """Raises TooSlowError. A thread that removes files goes on then, and is waited for by the next pass."""
        return trio.fail_after(self._bounds.runtime_call_seconds_max)

    @contextmanager
    def _told_once(self, what: str) -> Iterator[None]:
        """Do something; a failure is told when it is new, in the log and as an event of the node. A bug is one, too:
        what a runtime says of one container may provoke it, and would again after the agent's next start."""
        barrier = Barrier(partial(self._failed, what))
        with barrier:
            yield
        if barrier.fault is None:
            self._complaints.mended(what)

    def _failed(self, what: str, error: Exception) -> None:
        if isinstance(error, RuntimeUnavailable):
            log.debug("Cannot %s while the runtime is away: %s", what, error)
        elif self._complaints.may_say(what):
            why = "no answer in time" if isinstance(error, trio.TooSlowError) else words(error)
            told = f"Cannot {what}, will try again: {why}"
            log.warning("%s", told, exc_info=None if isinstance(error, _TROUBLES) else error)
            self._events.record(self._node, "Warning", "ContainerGCFailed", told)

    async def _collect_from(self, record: PodRecord) -> bool:
        """Whether there was something to remove."""
        uid = record.uid
        with self._told_once(f"look what is dead of pod {uid}"):
            found = garbage.collect([record], self._workers.should_content_be_removed)
            if not found.containers and not found.sandboxes:
                return False
            with self._relister.acting_on(uid):
                for container_id in found.containers:
                    await self._remove_container(container_id)
                    self._chores.goes_on(uid)
                for sandbox_id in found.sandboxes:
                    await self._remove_sandbox(sandbox_id)
                    self._chores.goes_on(uid)
        return True

    async def _remove_container(self, container_id: str) -> None:
        log_path = ""
        with self._told_once(f"remove container {container_id}"):
            log_path = await self._without_container(container_id)
        if log_path:
            with self._told_once(f"remove the log {log_path}"), self._in_time():
                await self._files.remove_container_logs(log_path)

    async def _without_container(self, container_id: str) -> str:
        """Remove the container; where its log is, or empty when it was gone already."""
        with self._in_time():
            try:
                log_path = (await self._runtime.container_status(container_id)).decode().log_path
            except NotFound:
                return ""
            await self._runtime.remove_container(container_id)
            return log_path

    async def _remove_sandbox(self, sandbox_id: str) -> None:
        with self._told_once(f"remove sandbox {sandbox_id}"), self._in_time():
            with suppress(NotFound):
                await self._runtime.stop_sandbox(sandbox_id)
            await self._runtime.remove_sandbox(sandbox_id)
