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
import math
from typing import TYPE_CHECKING

import trio

from trikubelet.core.relist import DecodeError, EventKind, PodChange, Relist
from trikubelet.kit.every import Every
from trikubelet.kit.gather import Gather
from trikubelet.kit.instant import instant
from trikubelet.model.runtime import PodObservation
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
    """Owns the relist record and which pods are under inspection; the only writer of the PodCache.

    ``wake`` is told which pods changed in a way their workers must see, ``died`` in which of them something ended.
    """

    def __init__(self, runtime: Runtime, cache: PodCache, wake: Gather[str], died: Gather[str], bounds: Bounds) -> None:
        self._runtime = runtime
        self._cache = cache
        self._wake = wake
        self._died = died
        self._bounds = bounds
        self._relist = Relist()
        self._inspecting: set[str] = set()
        self._reinspect: set[str] = set()  # what is known of them may be wrong: inspect with the next list
        self._asked: Gather[str] = Gather()
        self._asked_at: dict[str, float] = {}
        self._asked_again: set[str] = set()  # asked for while being listed or inspected
        self._listing: set[str] = set()  # one by one, on demand
        self._limit = trio.CapacityLimiter(bounds.inspections_max)
        self._listing_since = -math.inf
        self._listed_alone: set[str] = set()  # by a list that began after the full one now under way, if any
        self._listed_at: float | None = None
        self._last_error = ""

    # ---- what others may ask ----

    def look_at(self, uid: str) -> None:
        """Ask for an on-demand relist of one pod, soon. Never blocks; asking twice is asking once."""
        self._asked_at[uid] = instant()
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

    def may_have(self, uid: str) -> bool:
        """Whether anything of the pod exists, as last listed or in the cache; true for every pod before the first
        list."""
        known = self._cache.get(uid)
        cached = bool(known.sandboxes or known.containers)  # a list may know better before the cache does
        return cached or not self.has_listed or self._relist.pod(uid) is not None

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
        began = self._listing_since = instant()
        self._listed_alone.clear()
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                sandboxes, containers = await self._lists(None)
            changes = self._relist.observe(sandboxes, containers, self._reinspect - self._inspecting)
        except (RuntimeCallError, DecodeError, trio.TooSlowError) as error:
            self._note_failure(error)
            return
        self._last_error = ""
        self._listed_at = began
        # A list of one pod that began later and was faster knew better: this one has set its record back.
        busy = self._inspecting | self._listed_alone
        due = [change for change in changes if change.uid not in busy]
        self._cache.listed(began, busy | {change.uid for change in due})
        for change in due:
            self._begin(change, began, nursery)
        for uid in sorted(self._listed_alone):
            self.look_at(uid)

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
        while True:
            for uid in await self._asked.collect():
                nursery.start_soon(self._answer, uid, self._asked_at.pop(uid), nursery)

    async def _answer(self, uid: str, asked_at: float, nursery: trio.Nursery) -> None:
        # Two lists of one pod at a time could end in the wrong order, and the older one have the last word.
        if uid in self._inspecting or uid in self._listing:
            self._asked_again.add(uid)
            return
        self._listing.add(uid)
        try:
            async with self._limit:
                await self._list_one(uid, asked_at, nursery)
        except (RuntimeCallError, DecodeError, trio.TooSlowError) as error:
            log.debug("On-demand relist of pod %s failed: %s", uid, _told(error))  # the next list will see it
        finally:
            self._listing.discard(uid)
            self._ask_again(uid)

    async def _list_one(self, uid: str, asked_at: float, nursery: trio.Nursery) -> None:
        if self._listed_at is not None and self._listed_at > asked_at:
            return  # everything was listed since: the request is answered
        began = instant()
        with trio.fail_after(self._bounds.runtime_call_seconds_max):
            sandboxes, containers = await self._lists(uid)
        if uid in self._inspecting or (self._listed_at is not None and self._listed_at > began):
            self._asked_again.add(uid)  # a full list overtook this one, which may be older than what is known by now
            return
        change = self._relist.observe_pod(uid, sandboxes, containers, force=True)
        if began > self._listing_since:
            self._listed_alone.add(uid)
        if change is not None:
            self._begin(change, began, nursery)

    def _ask_again(self, uid: str) -> None:
        """Renew a request that came at a bad moment, once the moment is over."""
        if uid in self._asked_again and uid not in self._inspecting and uid not in self._listing:
            self._asked_again.discard(uid)
            self.look_at(uid)

    # ---- one pod ----

    def _begin(self, change: PodChange, began: float, nursery: trio.Nursery) -> None:
        self._inspecting.add(change.uid)
        again = change.uid in self._reinspect
        self._reinspect.discard(change.uid)
        nursery.start_soon(self._inspect, change, began, self._relist.pod(change.uid), again)

    async def _inspect(self, change: PodChange, began: float, listed: PodRecord | None, again: bool) -> None:
        """Inspect a pod as it was ``listed``; ``again``: it had to be, even if nothing happened to it."""
        uid = change.uid
        try:
            found = None if change.gone else await self._ask(change, began)
        except (RuntimeCallError, trio.TooSlowError) as error:
            log.warning("Cannot inspect pod %s/%s: %s", change.namespace, change.name, _told(error))
            self._cache.put_error(uid, began, error)
            self._reinspect.add(uid)
            return  # its events come again with the inspection that succeeds
        finally:
            self._inspecting.discard(uid)
            self._ask_again(uid)
        # A list that came meanwhile may have seen what the inspection, made of an older one, did not ask for.
        is_newest = self._relist.pod(uid) == listed and began >= self._cache.get(uid).observed_at
        if is_newest:
            self._relist.advance(uid)
        else:
            self._reinspect.add(uid)
        self._cache.put(found or PodObservation(uid, observed_at=began), is_newest=is_newest)
        kinds = {event.kind for event in change.events}
        if again or kinds & {EventKind.STARTED, EventKind.DIED}:
            self._wake.add(uid)
        if EventKind.DIED in kinds:
            self._died.add(uid)

    async def _ask(self, change: PodChange, began: float) -> PodObservation:
        async with self._limit:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                return await inspect(self._runtime, change, self._cache.get(change.uid), began)

    def __repr__(self) -> str:
        health = self.unhealthy() or "healthy"
        return f"<Pleg {health}, inspecting {len(self._inspecting)}, {len(self._reinspect)} to inspect again>"


def _told(error: Exception) -> str:
    return "timed out" if isinstance(error, trio.TooSlowError) else str(error)
