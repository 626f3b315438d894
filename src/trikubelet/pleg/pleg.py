"""PLEG, the pod lifecycle event generator: what is really there.

    Dispatcher ─► list sandboxes and containers (undecoded) ─► core.relist: which pods changed ─► Inspections
      ▲  every second all, and one pod for whom it was asked                                           │
      └─ look_at(uid) ◄─ EventHints, whoever acted      wake the pod's worker ◄─ PodCache ◄────────────┘

A change of state only says who to look at; the inspection says what is so. A pod's record advances when its inspection
has succeeded; until then every list reports it again.

Lists overlap, and the older must not have the last word. A list of one pod that a newer full list overtook is thrown
away. A full list that a newer list of one pod overtook does not speak for that pod, which is listed once more. Of a
pod that waits for its inspection it is only known who it is; what is asked is asked as the newest list has it.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from secrets import token_bytes
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.relist import DecodeError, EventKind, PodChange, Relist
from trikubelet.core.statuses import KEY_BYTES, StatusDigester
from trikubelet.kit.gather import Gather
from trikubelet.kit.instant import instant
from trikubelet.kit.klog import level
from trikubelet.model.runtime import PodObservation
from trikubelet.model.runtime_errors import RuntimeCallError
from trikubelet.pleg import health, pace
from trikubelet.pleg.dispatcher import Dispatcher, Lister
from trikubelet.pleg.events import EventHints
from trikubelet.pleg.figures import Figures, Measured
from trikubelet.pleg.inspection import inspect
from trikubelet.pleg.inspections import Inspections, Job, told
from trikubelet.pleg.telling import Telling

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from trikubelet.core.relist import Counts, PodRecord
    from trikubelet.kit.backoff import Backoff
    from trikubelet.kit.spans import Spans
    from trikubelet.model.bounds import Bounds
    from trikubelet.pleg.agenda import Look
    from trikubelet.pleg.cache import PodCache
    from trikubelet.pleg.inspections import Laggard
    from trikubelet.ports import Events, Runtime

log = logging.getLogger(__name__)

_EVENT: Final = level(2)  # as upstream logs it, and in its words


class Pleg:
    """Owns the relist record and what is published of it; the only writer of the PodCache.

    ``wake`` is told which pods changed in a way their workers must see, ``died`` in which of them something ended.
    ``spans``: who is told of each list of everything, if anybody is; ``events``: of pods that cannot be inspected.
    """

    def __init__(
        self,
        runtime: Runtime,
        cache: PodCache,
        wake: Gather[str],
        died: Gather[str],
        bounds: Bounds,
        spans: Spans | None = None,
        events: Events | None = None,
    ) -> None:
        self._runtime = runtime
        self._cache = cache
        self._wake = wake
        self._died = died
        self._bounds = bounds
        self._relist = Relist()
        self._digester = StatusDigester(token_bytes(KEY_BYTES))
        everything = self._list_all if spans is None else partial(self._list_all_within, spans)
        self._dispatcher = Dispatcher(Lister(everything, self._list_one, self._may_rest, self._is_busy), bounds)
        self._agenda = self._dispatcher.agenda
        self._telling = Telling(events, bounds.inspection_hung_seconds)
        self._inspections = Inspections(self._inspect, self._settle, self._as_listed, self._telling.look, bounds)
        self._events = EventHints(runtime, self._take_hint, self._dispatcher.end_rest)
        self._acted_on: Counter[str] = Counter()  # how many change them now, and ask to look at them when they have
        # What was known of these pods at that instant may be wrong: to be inspected later than it, whatever lists say.
        self._reinspect: dict[str, float] = {}
        self._looked_since: set[str] = set()  # listed one by one in lists that began later than the full one under way
        self._measured = Measured()
        self._listed_at: float | None = None
        self._news_at = -math.inf
        self._last_error = ""
        self._failing_since: float | None = None

    # ---- what others may ask ----

    def look_at(self, uid: str) -> None:
        """Ask for an on-demand relist of one pod, soon. Never blocks; asking twice is asking once."""
        self._agenda.ask(uid, instant())
        self._news_at = trio.current_time()
        self._dispatcher.stir()

    def look_inside(self, uid: str) -> None:
        """Ask for an on-demand relist of one pod and for its inspection, see ``ports.Relister``."""
        self._reinspect[uid] = instant()
        self.look_at(uid)

    @contextmanager
    def acting_on(self, uid: str) -> Iterator[None]:
        """Somebody changes the pod within it, and the pod is looked at when he has: see ``ports.Relister``."""
        self._acted_on[uid] += 1
        try:
            yield
        finally:
            self._acted_on[uid] -= 1
            if not self._acted_on[uid]:
                del self._acted_on[uid]
            self.look_at(uid)

    def _take_hint(self, uid: str) -> None:
        """Something happened to a pod. Where its worker or garbage collection is at it, that is mostly what they do,
        three events for each start; the rest nobody could act on before they are done, and is seen then."""
        if uid in self._acted_on:
            self._news_at = trio.current_time()
        else:
            self.look_at(uid)

    def unhealthy(self) -> str | None:
        """Why PLEG is not healthy, or None. Pods that alone cannot be seen are no reason, see ``laggards``."""
        now = trio.current_time()
        trouble = health.unlisted(now, self._listed_at, self._last_error, self._bounds)
        if trouble is not None:
            return trouble
        # Unhealthy takes long; the pods are counted only when there is one that could be a reason.
        late = self._inspections.laggards(self._bounds.relist_stale_seconds_max)
        return health.unseen(now, self._relist.pod_count(), late, self._bounds) if late else None

    def remark(self) -> str | None:
        """What operators should know though PLEG is healthy: the pods out of sight, or None."""
        late = self.laggards()
        return f"cannot inspect {health.named(trio.current_time(), late)}" if late else None

    def laggards(self) -> list[Laggard]:
        """The pods out of sight for so long that an operator should know, longest first."""
        return self._inspections.laggards(self._bounds.inspection_hung_seconds)

    def pod(self, uid: str) -> PodRecord | None:
        """One pod as last listed; None when the runtime has nothing of it."""
        return self._relist.pod(uid)

    def uids(self) -> list[str]:
        """Of every pod the runtime has, as last listed."""
        return self._relist.uids()

    def uids_with_dead(self) -> list[str]:
        """Of the pods of which something does not run, as last listed."""
        return self._relist.uids_with_dead()

    def container_ids(self) -> frozenset[str]:
        """Of every container the runtime has, as last listed."""
        return self._relist.container_ids()

    def is_running(self, uid: str) -> bool:
        """Whether something of the pod ran when it was last listed."""
        return self._relist.is_running(uid)

    def running(self, beside: Collection[str]) -> list[PodRecord]:
        """The pods of which something ran when they were last listed, but for those of ``beside``."""
        return self._relist.running(beside)

    def may_have(self, uid: str) -> bool:
        """Whether anything of the pod exists, as last listed or in the cache; true for every pod before the first
        list."""
        known = self._cache.get(uid)
        cached = bool(known.sandboxes or known.containers)  # a list may know better before the cache does
        return cached or not self.has_listed or self._relist.pod(uid) is not None

    def counts(self) -> Counts:
        """How many pods and containers there are, by state."""
        return self._relist.counts()

    def figures(self) -> Figures:
        """How PLEG stands now."""
        ago = None if self._listed_at is None else trio.current_time() - self._listed_at
        return Figures(
            measured=self._measured,
            listed_ago_seconds=ago,
            counts=self.counts(),
            looks_waiting=len(self._agenda),
            looks_answered=self._agenda.answered,
            looks_dropped=self._agenda.dropped,
            inspections=self._inspections.seconds,
            inspections_running=len(self._inspections.running),
            inspections_waiting=len(self._inspections.waiting),
            oldest_inspection_seconds=self._inspections.oldest_seconds(),
            hung_pods=len(self.laggards()),
            event_streams=self._events.streams,
            event_stream_failures=self._events.failures,
            events_received=self._events.received,
            has_reliable_events=self._events.reliable_since is not None,
        )

    @property
    def has_listed(self) -> bool:
        """Whether a list ever succeeded."""
        return self._listed_at is not None

    @property
    def failing_since(self) -> float | None:
        """When the first of the lists of everything began that have all failed since; None when the newest did not."""
        return self._failing_since

    # ---- the tasks ----

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """List, inspect and publish until cancelled. Started: the first list has succeeded or failed, or
        takes its time."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._inspections.run)
            await nursery.start(self._dispatcher.run)
            task_status.started()

    async def follow_events(self, backoff: Backoff) -> None:
        """Take the runtime's container events as hints where to look, until cancelled."""
        await self._events.follow(backoff)

    def _may_rest(self, now: float) -> bool:
        situation = pace.Situation(
            listed_at=self._listed_at,
            news_at=self._news_at,
            events_since=self._events.reliable_since,
            is_awaited=self._cache.is_awaited,
            is_blind=bool(self._reinspect or self._inspections.running),
            backlog=len(self._inspections.waiting),
        )
        return pace.may_rest(now, situation, self._bounds)

    def _is_busy(self, uid: str) -> bool:
        return uid in self._inspections.running

    # ---- full lists ----

    async def _list_all_within(self, spans: Spans, began: float) -> None:
        with spans.span("PLEG/Relist"):
            await self._list_all(began)

    async def _list_all(self, began: float) -> None:
        self._looked_since.clear()
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                sandboxes, containers = await self._lists(None)
            came = trio.current_time()
            self._relist.take(sandboxes, containers)
            self._measured.decodes.add(trio.current_time() - came)
        except (RuntimeCallError, DecodeError, trio.TooSlowError) as error:
            self._note_failure(error, began)
            return
        self._measure(began, sum(map(len, (*sandboxes, *containers))))
        self._spread([*self._relist.due(), *(self._reinspect.keys() - self._inspections.running)], began)

    def _measure(self, began: float, list_bytes: int) -> None:
        self._measured.relists.add(trio.current_time() - began)
        if self._listed_at is not None:
            self._measured.intervals.add(began - self._listed_at)
        self._measured.list_bytes = list_bytes

    async def _lists(self, uid: str | None) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Containers are listed after sandboxes, so that a container's sandbox is in the lists when it is."""
        sandboxes = await self._runtime.list_sandboxes(uid)
        return sandboxes, await self._runtime.list_containers(uid)

    def _spread(self, due: Collection[str], began: float) -> None:
        """A full list is in: what it says, to whom it concerns."""
        self._listed_at = began
        self._last_error, self._failing_since = "", None
        self._telling.listed()
        if due:
            self._news_at = trio.current_time()
        apart = self._looked_since | self._inspections.running
        self._inspections.add_listed(due, apart)
        self._cache.listed(began, self._looked_since | self._inspections.running | self._inspections.waiting)
        self._agenda.answer(began, apart)
        for uid in sorted(self._looked_since):
            self.look_at(uid)  # this list has set back what a newer one had recorded of it

    def _note_failure(self, error: Exception, began: float) -> None:
        text = told(error)
        if self._failing_since is None:
            self._failing_since = began
        self._telling.list_failed(text)
        self._last_error = text
        self._news_at = trio.current_time()

    # ---- lists of one pod ----

    async def _list_one(self, look: Look, began: float) -> None:
        uid = look.uid
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                sandboxes, containers = await self._lists(uid)
            if self._listed_at is not None and self._listed_at > began:
                self._agenda.answered += 1  # a full list has overtaken this one
            elif uid in self._inspections.running:
                self._agenda.ask(*look)  # a full list that began earlier was faster
            else:
                self._take_one(uid, sandboxes, containers, began)
            self._measured.looks.add(trio.current_time() - began)
        except (RuntimeCallError, DecodeError, trio.TooSlowError) as error:
            log.debug("On-demand relist of pod %s failed: %s", uid, told(error))  # the next list will see it

    def _take_one(self, uid: str, sandboxes: Sequence[bytes], containers: Sequence[bytes], began: float) -> None:
        must = uid in self._reinspect or uid in self._inspections.waiting
        change = self._relist.observe_pod(uid, sandboxes, containers, force=must)
        listing_since = self._dispatcher.listing_since
        if listing_since is not None and began > listing_since:
            self._looked_since.add(uid)
        if change is None:  # as recorded: what is known of it holds until now
            self._cache.put(replace(self._cache.get(uid), observed_at=began))
        else:
            self._inspections.add_first(Job(change, began))

    # ---- one pod ----

    def _as_listed(self, uid: str) -> Job:
        assert self._listed_at is not None
        return Job(self._relist.change(uid), self._listed_at)

    async def _inspect(self, job: Job) -> PodObservation:
        if job.change.gone:
            await trio.lowlevel.checkpoint()
            return PodObservation(job.change.uid, observed_at=job.began)
        uid = job.change.uid
        before, listed = self._cache.get(uid), self._relist.pod(uid)
        return await inspect(self._runtime, self._digester, job.change, listed, before, job.began)

    def _settle(self, job: Job, found: PodObservation | Exception, is_outdated: bool) -> None:
        """An inspection is over: publish what it found, or that it failed."""
        change = job.change
        again = change.uid in self._reinspect
        self._dispatcher.stir()
        if isinstance(found, Exception):
            log.debug("Cannot inspect pod %s/%s: %s", change.namespace, change.name, told(found))
            self._cache.put_error(change.uid, job.began, found)
            self._reinspect.setdefault(change.uid, job.began)
            return  # its events come again with the inspection that succeeds
        if is_outdated:  # a newer list has seen what this inspection did not ask for
            self._reinspect.setdefault(change.uid, job.began)
            self.look_at(change.uid)
        else:
            self._relist.advance(change.uid)
            if self._reinspect.get(change.uid, -math.inf) < job.began:
                self._reinspect.pop(change.uid, None)
            else:
                self.look_at(change.uid)  # it was asked for after this inspection had begun
            _note(change)
        is_news = self._cache.put(found, is_newest=not is_outdated)
        kinds = {event.kind for event in change.events}
        # Starts and deaths are told even where the cache knew already (docs/decisions/0007), a second look only if it
        # shows more.
        if kinds & {EventKind.STARTED, EventKind.DIED} or (again and is_news):
            self._wake.add(change.uid)
        if EventKind.DIED in kinds:
            self._died.add(change.uid)

    def __repr__(self) -> str:
        return f"<Pleg {self.unhealthy() or 'healthy'}, {self._inspections!r}, {self._dispatcher!r}>"


def _note(change: PodChange) -> None:
    """Log what is on record of the pod from now on: each event once, however often lists had to report it."""
    for kind, id_, _ in change.events:
        told = f"Container{kind.name.capitalize()} {id_}"
        log.log(_EVENT, "SyncLoop (PLEG): event for pod %s/%s: %s", change.namespace, change.name, told)
