"""Collecting what the runtime and the log directory keep and nobody needs: dead containers, sandboxes, logs.

Runs once a minute, and sooner for pods in which something has just died. What to remove is decided in ``core.garbage``;
this task removes it, one at a time, and goes on after an error, which the next pass will meet again.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import trio

from trikubelet.core import garbage
from trikubelet.core.names import uid_of_log_directory
from trikubelet.kit.every import Every
from trikubelet.model.runtime_errors import NotFound, RuntimeCallError, RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trikubelet.core.relist import PodRecord
    from trikubelet.kit.gather import Gather
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.objects import ObjectRef
    from trikubelet.pods.desired import DesiredPods
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import Events, PodFiles, Runtime, RuntimePods

log = logging.getLogger(__name__)


class GarbageCollection:
    """Owns the complaints about files that could not be removed, so that each is made once. Removes dead containers and
    sandboxes, and the logs of pods that are gone. A file that cannot be touched is an operator's trouble: it is told,
    met again in a minute, and never ends the agent."""

    def __init__(
        self,
        runtime: Runtime,
        runtime_pods: RuntimePods,
        desired: DesiredPods,
        workers: PodWorkers,
        files: PodFiles,
        leftovers: Gather[str],
        events: Events,
        node: ObjectRef,
        bounds: Bounds,
    ) -> None:
        self._runtime = runtime
        self._runtime_pods = runtime_pods
        self._desired = desired
        self._workers = workers
        self._files = files
        self._leftovers = leftovers
        self._events = events
        self._node = node
        self._bounds = bounds
        self._told: set[str] = set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Collect until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._collect_leftovers)
            task_status.started()
            async for _ in Every(self._bounds.garbage_period_seconds):
                if self._may_collect:
                    await self.collect()

    @property
    def _may_collect(self) -> bool:
        return self._desired.all_ready and self._runtime_pods.has_listed

    async def _collect_leftovers(self) -> None:
        """A crashing container leaves one body per restart, and a removed pod all of them; a minute of that is too
        much."""
        while True:
            uids = frozenset(await self._leftovers.collect())
            if self._may_collect:
                await self._collect_from([record for record in self._runtime_pods.pods() if record.uid in uids])

    async def collect(self) -> None:
        """One pass over everything. Container logs go with their containers."""
        await self._collect_from(self._runtime_pods.pods())
        with self._told_once("look through the pods' logs"):
            for directory in sorted(self._files.log_directories()):
                self._collect_log_directory(directory)
        known = {container.id for record in self._runtime_pods.pods() for container in record.containers}
        with self._told_once("remove links to logs that are gone"):
            self._files.remove_dead_links(known)

    def _collect_log_directory(self, directory: str) -> None:
        uid = uid_of_log_directory(directory)
        in_runtime = any(record.uid == uid for record in self._runtime_pods.pods())
        if not in_runtime and self._workers.should_content_be_removed(uid):
            with self._told_once(f"remove the logs {directory}"):
                self._files.remove_log_directory(directory)

    @contextmanager
    def _told_once(self, what: str) -> Iterator[None]:
        """Do something; a failure is told when it is new, in the log and as an event of the node."""
        try:
            yield
        except RuntimeUnavailable as error:
            log.debug("Cannot %s while the runtime is away: %s", what, error)
        except (OSError, RuntimeCallError, trio.TooSlowError) as error:
            told = f"Cannot {what}, will try again: {str(error) or 'no answer in time'}"
            if told not in self._told:
                log.warning("%s", told)
                self._events.record(self._node, "Warning", "ContainerGCFailed", told)
            self._told.add(told)
        else:
            self._told = {one for one in self._told if not one.startswith(f"Cannot {what},")}

    async def _collect_from(self, records: Sequence[PodRecord]) -> None:
        found = garbage.collect(records, self._workers.should_content_be_removed)
        for container_id in found.containers:
            await self._remove_container(container_id)
        for sandbox_id in found.sandboxes:
            await self._remove_sandbox(sandbox_id)

    async def _remove_container(self, container_id: str) -> None:
        log_path = ""
        with self._told_once(f"remove container {container_id}"):
            log_path = await self._without_container(container_id)
        if log_path:
            with self._told_once(f"remove the log {log_path}"):
                self._files.remove_container_logs(log_path)

    async def _without_container(self, container_id: str) -> str:
        """Remove the container; where its log is, or empty when it was gone already."""
        with trio.fail_after(self._bounds.runtime_call_seconds_max):
            try:
                log_path = (await self._runtime.container_status(container_id)).log_path
            except NotFound:
                return ""
            await self._runtime.remove_container(container_id)
            return log_path

    async def _remove_sandbox(self, sandbox_id: str) -> None:
        with self._told_once(f"remove sandbox {sandbox_id}"):
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                with suppress(NotFound):
                    await self._runtime.stop_sandbox(sandbox_id)
                await self._runtime.remove_sandbox(sandbox_id)
