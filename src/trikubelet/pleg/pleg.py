"""PLEG, the pod lifecycle event generator: observes the sandboxes and containers of the runtime.

    Dispatcher ─► list sandboxes and containers (undecoded) ─► core.relist: which pods changed ─► Inspections
      ▲  all of them every second, and single pods on demand                                          │
      └─ request_relist(uid) ◄─ EventHints, after changes      wake the pod's worker ◄─ PodCache ◄────────────┘

A list only shows which pods changed; the inspection of a pod gets its state. A pod's record advances when its
inspection has succeeded; until then every list reports the pod again.

Lists overlap, and an older list must not overwrite a newer one. One record for each pod that is not idle,
``core.pleg_pod``, decides the next action for the pod, and what a late answer may still change. This module calls the
runtime and passes its answers on.
"""

from __future__ import annotations

import logging
import math
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from secrets import token_bytes
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core import pleg_pod
from trikubelet.core.pleg_pod import Inspecting, Job, ListEnd
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
from trikubelet.pleg.inspections import Inspections, reason_of
from trikubelet.pleg.pods import PlegPods
from trikubelet.pleg.problem_reports import ProblemReports

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from trikubelet.core.pleg_pod import PlegPod, UninspectedPod
    from trikubelet.core.relist import Counts, PodRecord
    from trikubelet.kit.backoff import Backoff
    from trikubelet.kit.spans import Spans
    from trikubelet.model.bounds import Bounds
    from trikubelet.pleg.cache import PodCache
    from trikubelet.ports import Events, Runtime

log = logging.getLogger(__name__)

_EVENT: Final = level(2)  # upstream's level and text


class Pleg:
    """Owns the relist record; the only writer of the PodCache.

    ``wake`` gets the pods with changes that their workers must see, ``died`` those in which a container or sandbox
    ended. ``spans``: traces each full list, if given; ``events``: records events of pods that cannot be inspected.
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
        self._pods = PlegPods(bounds.pod_relists_waiting_max)
        lister = Lister(self._is_connected, everything, self._list_one, self._may_skip_list)
        self._dispatcher = Dispatcher(lister, self._pods, bounds)
        self._problem_reports = ProblemReports(events, bounds.inspection_hung_seconds)
        self._inspections = Inspections(
            self._pods, self._inspect, self._settle, self._as_listed, self._problem_reports.look, bounds
        )
        self._events = EventHints(runtime, self._take_hint, self._dispatcher.end_quiet_period)
        self._measured = Measured()
        self._listed_at: float | None = None
        self._changed_at = -math.inf
        self._last_error = ""
        self._failing_since: float | None = None

    # ---- requests and queries ----

    def request_relist(self, uid: str) -> None:
        """Request an on-demand relist of one pod, soon. Never blocks; repeated requests are merged."""
        self._now(uid, pleg_pod.relist_requested(self._pods.get(uid), instant()))

    def request_inspection(self, uid: str) -> None:
        """Request an on-demand relist of one pod and its inspection, see ``ports.Relister``."""
        self._now(uid, pleg_pod.inspection_requested(self._pods.get(uid), instant()))

    @contextmanager
    def changing(self, uid: str) -> Iterator[None]:
        """Mark the pod as being changed by the caller; its end requests an inspection. See ``ports.Relister``."""
        self._pods.put(uid, pleg_pod.change_began(self._pods.get(uid)))
        try:
            yield
        finally:
            self._now(uid, pleg_pod.change_ended(self._pods.get(uid), instant()))

    def _take_hint(self, uid: str) -> None:
        self._now(uid, pleg_pod.hinted(self._pods.get(uid), instant(), is_known=self.may_have(uid)))

    def _now(self, uid: str, pod: PlegPod) -> None:
        """Store the pod's record, whose relist or inspection is due now."""
        self._pods.put(uid, pod)
        self._changed_at = trio.current_time()
        self._dispatcher.wake()

    def unhealthy(self) -> str | None:
        """Return why PLEG is unhealthy, or None. Single pods that cannot be inspected are no reason, see
        ``uninspected_pods``."""
        now = trio.current_time()
        problem = health.unlisted(now, self._listed_at, self._last_error, self._bounds)
        if problem is not None:
            return problem
        # Counting all pods is expensive, so it is done only if a pod has been late for long enough.
        late = self._out_of_sight(self._bounds.relist_stale_seconds_max)
        return health.unseen(now, self._relist.pod_count(), late, self._bounds) if late else None

    def remark(self) -> str | None:
        """Return a warning for operators although PLEG is healthy: the pods that cannot be inspected, or None."""
        late = self.uninspected_pods()
        return f"cannot inspect {health.named(trio.current_time(), late)}" if late else None

    def uninspected_pods(self) -> list[UninspectedPod]:
        """Return the pods that could not be inspected for longer than ``inspection_hung_seconds``, longest first."""
        return self._out_of_sight(self._bounds.inspection_hung_seconds)

    def _out_of_sight(self, seconds: float) -> list[UninspectedPod]:
        """Return the pods that could not be inspected for longer than ``seconds``, longest first."""
        now = trio.current_time()
        return [one for one in self._pods.uninspected_pods() if now - one.since > seconds]

    def pod(self, uid: str) -> PodRecord | None:
        """Return one pod as last listed; None if the runtime has nothing of it."""
        return self._relist.pod(uid)

    def uids(self) -> list[str]:
        """Return the UIDs of all pods of the runtime, as last listed."""
        return self._relist.uids()

    def uids_with_dead(self) -> list[str]:
        """Return the UIDs of the pods with a sandbox or container that does not run, as last listed."""
        return self._relist.uids_with_dead()

    def container_ids(self) -> frozenset[str]:
        """Return the ids of all containers of the runtime, as last listed."""
        return self._relist.container_ids()

    def is_running(self, uid: str) -> bool:
        """True if a sandbox or container of the pod ran when it was last listed."""
        return self._relist.is_running(uid)

    def running(self, beside: Collection[str]) -> list[PodRecord]:
        """Return the pods that had a running sandbox or container when last listed, except those in ``beside``."""
        return self._relist.running(beside)

    def may_have(self, uid: str) -> bool:
        """True if a sandbox or container of the pod exists, as last listed or in the cache; True for every pod before
        the first list."""
        known = self._cache.get(uid)
        cached = bool(known.sandboxes or known.containers)  # a list may show the pod before the cache has it
        return cached or not self.has_listed or self._relist.pod(uid) is not None

    def counts(self) -> Counts:
        """Return the numbers of pods and containers, by state."""
        return self._relist.counts()

    def figures(self) -> Figures:
        """Return PLEG's current figures."""
        now = trio.current_time()
        oldest = self._pods.began_first()
        return Figures(
            measured=self._measured,
            listed_ago_seconds=None if self._listed_at is None else now - self._listed_at,
            counts=self.counts(),
            requests_waiting=len(self._pods.requested),
            requests_answered=self._pods.answered,
            requests_dropped=self._pods.dropped,
            inspections=self._inspections.seconds,
            inspections_running=len(self._pods.inspecting),
            inspections_waiting=len(self._pods.due),
            oldest_inspection_seconds=0.0 if oldest is None else now - oldest,
            hung_pods=len(self.uninspected_pods()),
            event_streams=self._events.streams,
            event_stream_failures=self._events.failures,
            events_received=self._events.received,
            has_reliable_events=self._events.reliable_since is not None,
        )

    @property
    def has_listed(self) -> bool:
        """True if a full list has succeeded since the start."""
        return self._listed_at is not None

    @property
    def failing_since(self) -> float | None:
        """The beginning of the first of the latest, all failed full lists; None if the newest one succeeded."""
        return self._failing_since

    # ---- the tasks ----

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """List, inspect and publish until cancelled. Started once the first list has succeeded or failed, or takes too
        long."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._inspections.run)
            await nursery.start(self._dispatcher.run)
            task_status.started()

    async def follow_events(self, backoff: Backoff) -> None:
        """Use the runtime's container events as hints, until cancelled."""
        await self._events.follow(backoff)

    def _may_skip_list(self, now: float) -> bool:
        situation = pace.Situation(
            listed_at=self._listed_at,
            changed_at=self._changed_at,
            events_since=self._events.reliable_since,
            is_awaited=self._cache.is_awaited,
            has_uninspected=self._pods.has_uninspected,
            backlog=len(self._pods.due),
        )
        return pace.may_skip_list(now, situation, self._bounds)

    # ---- full lists ----

    async def _is_connected(self, due_since: float) -> bool:
        """Wait for a connection, at most as long as a call may take. Return False, after recording the failed list, if
        there is none."""
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                await self._runtime.wait_connected()
        except (RuntimeCallError, trio.TooSlowError) as error:
            self._note_failure(error, due_since)
            return False
        return True

    async def _list_all_within(self, spans: Spans, began: float) -> None:
        with spans.span("PLEG/Relist"):
            await self._list_all(began)

    async def _list_all(self, began: float) -> None:
        self._pods.full_list_began()
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                sandboxes, containers = await self._lists(None)
            came = trio.current_time()
            # The one step that blocks the event loop; the figure ``decodes`` watches its length.
            self._relist.take(sandboxes, containers)
            self._measured.decodes.add(trio.current_time() - came)
        except (RuntimeCallError, DecodeError, trio.TooSlowError) as error:
            self._note_failure(error, began)
            return
        self._measure(began, sum(map(len, (*sandboxes, *containers))))
        self._spread(self._relist.due(), began)

    def _measure(self, began: float, list_bytes: int) -> None:
        self._measured.relists.add(trio.current_time() - began)
        if self._listed_at is not None:
            self._measured.intervals.add(began - self._listed_at)
        self._measured.list_bytes = list_bytes

    async def _lists(self, uid: str | None) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Return the lists of sandboxes and containers, of one pod or of all."""
        # Sandboxes come first: the sandbox of each listed container is older than it, and so in the lists, too.
        sandboxes = await self._runtime.list_sandboxes(uid)
        return sandboxes, await self._runtime.list_containers(uid)

    def _spread(self, due: Collection[str], began: float) -> None:
        """Pass the result of a full list to the pods that it concerns."""
        self._listed_at = began
        self._last_error, self._failing_since = "", None
        self._problem_reports.listed()
        pending = self._pods.full_list_ended(began, instant(), due, self._relist.change)
        if pending:
            self._changed_at = trio.current_time()
            self._dispatcher.wake()
        # Before the inspections begin: one that fails at once must find its pod pending.
        self._cache.listed(began, pending)
        self._inspections.begin()

    def _note_failure(self, error: Exception, began: float) -> None:
        text = reason_of(error)
        if self._failing_since is None:
            self._failing_since = began
        self._problem_reports.list_failed(text)
        self._last_error = text
        self._changed_at = trio.current_time()

    # ---- lists of one pod ----

    async def _list_one(self, uid: str, began: float) -> None:
        if self._relist.has_unlabelled(uid):  # a list by the pod's label would miss some of its containers
            self._pods.put(uid, pleg_pod.list_failed(self._pods.get(uid)))
            await trio.lowlevel.checkpoint()
            return
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                sandboxes, containers = await self._lists(uid)
            self._measured.pod_relists.add(trio.current_time() - began)
            self._one_listed(uid, sandboxes, containers, began)
        except (RuntimeCallError, DecodeError, trio.TooSlowError) as error:
            self._pods.put(uid, pleg_pod.list_failed(self._pods.get(uid)))
            log.debug("On-demand relist of pod %s failed: %s", uid, reason_of(error))  # the next list will see it

    def _one_listed(self, uid: str, sandboxes: Sequence[bytes], containers: Sequence[bytes], began: float) -> None:
        """Take in the result of an on-demand relist, unless a newer list has superseded it."""
        pod, end = pleg_pod.list_ended(
            self._pods.get(uid),
            began,
            self._listed_at,
            self._dispatcher.listing_since,
            has_unlabelled=self._relist.has_unlabelled(uid),  # a full list may have found it since
        )
        if end is not ListEnd.TAKEN:
            if end is ListEnd.SUPERSEDED:
                self._pods.note_superseded()
            self._pods.put(uid, pod)
            return
        change = self._relist.observe_pod(uid, sandboxes, containers, force=pod.must_be_inspected)
        self._pods.put(uid, pod)
        if change is None:  # unchanged: the observation is confirmed as of now, without an inspection
            self._cache.put(replace(self._cache.get(uid), observed_at=began))
        else:
            self._pods.found(uid, Job(change, began))
            self._inspections.begin()

    # ---- one pod ----

    def _as_listed(self, uid: str) -> Job:
        assert self._listed_at is not None
        return Job(self._relist.change(uid), self._listed_at)

    async def _inspect(self, job: Job) -> PodObservation:
        if job.change.gone:
            await trio.lowlevel.checkpoint()  # every inspection is one, so that many removed pods do not block
            return PodObservation(job.change.uid, observed_at=job.began)
        uid = job.change.uid
        before, listed = self._cache.get(uid), self._relist.pod(uid)
        return await inspect(self._runtime, self._digester, job.change, listed, before, job.began)

    def _settle(self, job: Job, found: PodObservation | Exception) -> None:
        """Publish the result of an inspection, or its failure."""
        change, uid = job.change, job.change.uid
        before = self._pods.get(uid)
        assert isinstance(before.inspection, Inspecting)
        self._dispatcher.wake()
        if isinstance(found, Exception):
            log.debug("Cannot inspect pod %s/%s: %s", change.namespace, change.name, reason_of(found))
            is_late = isinstance(found, trio.TooSlowError)
            why = f"no answer within {self._bounds.runtime_call_seconds_max:g} s" if is_late else reason_of(found)
            self._pods.put(uid, pleg_pod.inspection_failed(before, why))
            self._cache.put_error(uid, job.began, found)
            return  # the record does not advance: its events are reported when an inspection succeeds
        after = pleg_pod.inspected(before, instant())
        self._pods.put(uid, after)
        if after.stale_since is not None:  # the pod changed during the inspection, so it is requested again
            self._changed_at = trio.current_time()
        is_newest = not before.inspection.is_outdated
        if is_newest:
            self._relist.advance(uid)
            _note(change)
        is_changed = self._cache.put(found, is_newest=is_newest)
        kinds = {event.kind for event in change.events}
        # Starts and deaths wake the worker even if the cache was up to date (docs/decisions/0007); a repeated
        # inspection only if it found something new.
        if kinds & {EventKind.STARTED, EventKind.DIED} or (before.stale_since is not None and is_changed):
            self._wake.add(uid)
        if EventKind.DIED in kinds:
            self._died.add(uid)

    def __repr__(self) -> str:
        return f"<Pleg {self.unhealthy() or 'healthy'}, {self._pods!r}, {self._dispatcher!r}>"


def _note(change: PodChange) -> None:
    """Log the pod's events, once each: called when its record advances, not for every list that reports them."""
    for kind, id_, _ in change.events:
        event = f"Container{kind.name.capitalize()} {id_}"
        log.log(_EVENT, "SyncLoop (PLEG): event for pod %s/%s: %s", change.namespace, change.name, event)
