"""PLEG, the pod lifecycle event generator: what is really there.

    every second ─► list sandboxes and containers (undecoded) ─► core.relist: which pods changed ─► inspect those,
    look_at(uid) ─► the same for one pod, right away             concurrently ─► PodCache ─► wake the pod's worker
    runtime events ─► look_at(uid)

A change of state only says who to look at; the inspection says what is so. A pod whose inspection failed is asked again
with the next list and keeps its old record until one succeeds. Inspections run beside the lists, within a bound, and a
pod has at most one at a time: a runtime that hangs over one pod does not delay the others or the next list.

PLEG is healthy while lists succeed. The time is taken before listing and counts as soon as the list is in, before
any inspection (upstream: pleg/generic.go).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from trikubelet.core.relist import EventKind, PodChange, Relist
from trikubelet.kit.every import Every
from trikubelet.kit.gather import Gather
from trikubelet.model.runtime_errors import NotImplementedByRuntime, RuntimeCallError
from trikubelet.pleg.inspection import inspect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.relist import Counts, PodRecord
    from trikubelet.kit.backoff import Backoff
    from trikubelet.model.bounds import Bounds
    from trikubelet.pleg.cache import PodCache
    from trikubelet.ports import Runtime

log = logging.getLogger(__name__)


class Pleg:
    """Owns the relist record and which pods are under inspection; the only writer of the PodCache."""

    def __init__(self, runtime: Runtime, cache: PodCache, wake: Gather[str], bounds: Bounds) -> None:
        self._runtime = runtime
        self._cache = cache
        self._wake = wake
        self._bounds = bounds
        self._relist = Relist()
        self._inspecting: set[str] = set()
        self._reinspect: set[str] = set()
        self._asked: Gather[str] = Gather()
        self._asked_at: dict[str, float] = {}
        self._listed_at: float | None = None
        self._last_error = ""

    # ---- what others may ask ----

    def look_at(self, uid: str) -> None:
        """Ask for an on-demand relist of one pod, soon. Never blocks; asking twice is asking once."""
        self._asked_at[uid] = trio.current_time()
        self._asked.add(uid)

    def unhealthy(self) -> str | None:
        """Why PLEG is not healthy, in upstream's words, or None."""
        if self._listed_at is None:
            return "pleg has yet to be successful" + (f": {self._last_error}" if self._last_error else "")
        age = trio.current_time() - self._listed_at
        if age <= self._bounds.relist_stale_seconds_max:
            return None
        threshold = self._bounds.relist_stale_seconds_max
        return f"pleg was last seen active {age:.0f}s ago; threshold is {threshold:.0f}s: {self._last_error}"

    def pods(self) -> list[PodRecord]:
        """Every pod the runtime has, as last listed."""
        return self._relist.pods()

    def counts(self) -> Counts:
        """How many pods and containers there are, by state."""
        return self._relist.counts()

    @property
    def has_listed(self) -> bool:
        """Whether a list ever succeeded."""
        return self._listed_at is not None

    # ---- the tasks ----

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """List, inspect and publish until cancelled. Started: the first list has succeeded or failed."""
        async with trio.open_nursery() as nursery:
            await self._list_all(nursery)
            task_status.started()
            nursery.start_soon(self._answer_requests, nursery)
            first = True
            async for _ in Every(self._bounds.relist_period_seconds):
                if not first:
                    await self._list_all(nursery)
                first = False

    async def follow_events(self, backoff: Backoff) -> None:
        """Take the runtime's container events as hints where to look, reconnecting for ever. A runtime without them
        is left alone: the relist finds everything, a little later."""
        while True:
            try:
                async with self._runtime.events() as events:
                    async for event in events:
                        backoff.reset()
                        if event.pod_uid:
                            self.look_at(event.pod_uid)
            except NotImplementedByRuntime:
                log.info("The container runtime does not send events; relying on the relist alone")
                return
            except RuntimeCallError as error:
                log.debug("Container events were interrupted: %s", error)
            await trio.sleep(backoff.next_seconds())

    async def _list_all(self, nursery: trio.Nursery) -> None:
        began = trio.current_time()
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                sandboxes, containers = await self._lists(None)
            changes = self._relist.observe(sandboxes, containers, self._reinspect - self._inspecting)
        except (RuntimeCallError, ValueError, trio.TooSlowError) as error:
            self._note_failure(error)
            return
        self._last_error = ""
        self._listed_at = began
        due = [change for change in changes if change.uid not in self._inspecting]
        self._cache.listed(began, self._inspecting | {change.uid for change in due})
        for change in due:
            self._begin(change, began, nursery)

    def _note_failure(self, error: Exception) -> None:
        text = _told(error)
        if text != self._last_error:  # a runtime that is away is said once, not every second
            log.warning("Relist failed: %s", text)
        self._last_error = text

    async def _lists(self, uid: str | None) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Containers are listed after sandboxes, so that a container's sandbox is in the lists when it is."""
        sandboxes = await self._runtime.list_sandboxes(uid)
        return sandboxes, await self._runtime.list_containers(uid)

    async def _answer_requests(self, nursery: trio.Nursery) -> None:
        limit = trio.CapacityLimiter(self._bounds.inspections_max)
        while True:
            for uid in await self._asked.collect():
                await limit.acquire_on_behalf_of(uid)
                nursery.start_soon(self._answer, uid, self._asked_at.pop(uid), limit, nursery)

    async def _answer(self, uid: str, asked_at: float, limit: trio.CapacityLimiter, nursery: trio.Nursery) -> None:
        try:
            await self._list_one(uid, asked_at, nursery)
        except (RuntimeCallError, ValueError, trio.TooSlowError) as error:
            log.debug("On-demand relist of pod %s failed: %s", uid, error)  # the next list will see it
        finally:
            limit.release_on_behalf_of(uid)

    async def _list_one(self, uid: str, asked_at: float, nursery: trio.Nursery) -> None:
        if self._listed_at is not None and self._listed_at > asked_at:
            return  # everything was listed since: the request is answered
        if uid in self._inspecting:
            self._reinspect.add(uid)
            return
        began = trio.current_time()
        with trio.fail_after(self._bounds.runtime_call_seconds_max):
            sandboxes, containers = await self._lists(uid)
        if uid in self._inspecting:  # a list came first
            self._reinspect.add(uid)
            return
        change = self._relist.observe_pod(uid, sandboxes, containers, force=True)
        if change is not None:
            self._begin(change, began, nursery)

    # ---- one pod ----

    def _begin(self, change: PodChange, began: float, nursery: trio.Nursery) -> None:
        self._inspecting.add(change.uid)
        nursery.start_soon(self._inspect, change, began)

    async def _inspect(self, change: PodChange, began: float) -> None:
        uid = change.uid
        self._reinspect.discard(uid)
        try:
            if change.gone:
                self._cache.delete(uid)
            else:
                with trio.fail_after(self._bounds.runtime_call_seconds_max):
                    self._cache.put(await inspect(self._runtime, change, self._cache.get(uid), began))
            self._relist.advance(uid)
        except (RuntimeCallError, trio.TooSlowError) as error:
            log.warning("Cannot inspect pod %s/%s: %s", change.namespace, change.name, _told(error))
            self._cache.put_error(uid, began, error)
            self._reinspect.add(uid)
            return  # its events come again with the inspection that succeeds
        finally:
            self._inspecting.discard(uid)
        if any(event.kind in (EventKind.STARTED, EventKind.DIED) for event in change.events) or not change.events:
            self._wake.add(uid)

    def __repr__(self) -> str:
        health = self.unhealthy() or "healthy"
        return f"<Pleg {health}, inspecting {len(self._inspecting)}, {len(self._reinspect)} to inspect again>"


def _told(error: Exception) -> str:
    return "timed out" if isinstance(error, trio.TooSlowError) else str(error)
