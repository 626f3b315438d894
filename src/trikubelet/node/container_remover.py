"""Removes the dead parts of one pod: its containers with their logs, its sandboxes, the logs of a removed pod.

``node.garbage`` calls this, and decides when and for which pods; ``core.garbage`` decides which parts are dead. They
are removed one after another, continuing after an error, which the next pass will meet again: obstacles are reported
when they are new, in the log and as an event of the node, and never end the agent.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core import garbage
from trikubelet.core.relist import DecodeError
from trikubelet.kit.barrier import Barrier, message_of
from trikubelet.kit.failure_log import FailureLog
from trikubelet.kit.instant import instant
from trikubelet.model.errors import StillMounted
from trikubelet.model.runtime_errors import NotFound, RuntimeCallError, RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from contextlib import AbstractContextManager

    from trikubelet.core.relist import PodRecord
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.objects import ObjectRef
    from trikubelet.ports import ContainerFiles, Events, PodCache, Relister, Runtime

log = logging.getLogger(__name__)

_PROBLEMS: Final = (OSError, StillMounted, RuntimeCallError, DecodeError, trio.TooSlowError)
"""The expected obstacles to a removal; any other error is a bug."""


class ContainerRemover:
    """Owns the reports about failed removals and observations, so that each is made once an hour."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        relister: Relister,
        cache: PodCache,
        files: ContainerFiles,
        events: Events,
        node: ObjectRef,
        bounds: Bounds,
    ) -> None:
        self._runtime = runtime
        self._relister = relister
        self._cache = cache
        self._files = files
        self._events = events
        self._node = node
        self._bounds = bounds
        self._failure_log = FailureLog()

    async def remove_dead(
        self, record: PodRecord, should_content_be_removed: Callable[[str], bool], goes_on: Callable[[], None]
    ) -> bool:
        """Remove the dead parts of the pod, calling ``goes_on`` after each step. True if there were any."""
        uid = record.uid
        with self.logged_once(f"find dead containers of pod {uid}"):
            found = garbage.collect([record], should_content_be_removed)
            if not found.containers and not found.sandboxes:
                return False
            with self._relister.changing(uid):
                for container_id in found.containers:
                    await self._remove_container(container_id)
                    goes_on()
                for sandbox_id in found.sandboxes:
                    await self._remove_sandbox(sandbox_id)
                    goes_on()
        return True

    async def wait_until_relisted(self, uid: str) -> None:
        """Wait until a list has shown the result for the pod, for a limited time: PLEG reports pods that cannot be
        inspected."""
        seen = self.logged_once(f"observe the removal from pod {uid}")
        with seen, self.one_list(), suppress(RuntimeCallError, trio.TooSlowError):
            await self._cache.newer_than(uid, instant())

    async def log_directories(self) -> Collection[str]:
        """Return the names of the pods' log directories; none if the disk does not answer."""
        found: set[str] = set()
        with self.logged_once("look through the pods' logs"):
            found |= await self._files.log_directories()
        return found

    async def remove_log_directory(self, directory: str) -> None:
        """Remove the logs of a removed pod."""
        with self.logged_once(f"remove the logs {directory}"), self._in_time():
            await self._files.remove_log_directory(directory)

    async def remove_dead_links(self, container_ids: Collection[str]) -> None:
        """Remove dangling links to logs, except those of these containers."""
        with self.logged_once("remove links to logs that are gone"), self._in_time():
            await self._files.remove_dead_links(container_ids)

    def one_list(self) -> trio.CancelScope:
        """Return a scope as long as one list may take. Other parts report a runtime that does not answer in time."""
        return trio.move_on_after(self._bounds.runtime_call_seconds_max)

    @contextmanager
    def logged_once(self, what: str) -> Iterator[None]:
        """Do something; a new failure is reported in the log and as an event of the node. A bug counts as a failure,
        too: the runtime's data about one container may trigger it, and would again after a restart of the agent."""
        barrier = Barrier(partial(self._failed, what))
        with barrier:
            yield
        if barrier.fault is None:
            self._failure_log.works_again(what)

    def _failed(self, what: str, error: Exception) -> None:
        if isinstance(error, RuntimeUnavailable):
            log.debug("Cannot %s while the runtime is away: %s", what, error)
        elif self._failure_log.may_log(what):
            why = "no answer in time" if isinstance(error, trio.TooSlowError) else message_of(error)
            message = f"Cannot {what}, will try again: {why}"
            log.warning("%s", message, exc_info=None if isinstance(error, _PROBLEMS) else error)
            self._events.record(self._node, "Warning", "ContainerGCFailed", message)

    def _in_time(self) -> AbstractContextManager[trio.CancelScope]:
        """Raise TooSlowError after the limit. A thread that removes files goes on then, and the next pass waits for
        it."""
        return trio.fail_after(self._bounds.runtime_call_seconds_max)

    async def _remove_container(self, container_id: str) -> None:
        log_path = ""
        with self.logged_once(f"remove container {container_id}"):
            log_path = await self._without_container(container_id)
        if log_path:
            with self.logged_once(f"remove the log {log_path}"), self._in_time():
                await self._files.remove_container_logs(log_path)

    async def _without_container(self, container_id: str) -> str:
        """Remove the container; return the path of its log, "" if it was gone already."""
        with self._in_time():
            try:
                log_path = (await self._runtime.container_status(container_id)).decode().log_path
            except NotFound:
                return ""
            await self._runtime.remove_container(container_id)
            return log_path

    async def _remove_sandbox(self, sandbox_id: str) -> None:
        with self.logged_once(f"remove sandbox {sandbox_id}"), self._in_time():
            with suppress(NotFound):
                await self._runtime.stop_sandbox(sandbox_id)
            await self._runtime.remove_sandbox(sandbox_id)
