"""The event writer, which writes this node's events to the API server.

    record(…) ─ synchronous ─► core.events.Correlator ─► WorkQueue: names of series only
    run():  the next series, at the configured rate ─► create the event, or patch its count

Recording never blocks. A series that recurs while it waits is written once, with its count at that time. The queue is
bounded: events that arrive while it is full are dropped and counted, because an event is worth neither memory nor a
pod's time. Rejected events are dropped as well. Unanswered ones are retried, and dropped after ``TRIES_MAX`` attempts
at a server that answers with failures: an admission webhook may fail for this event alone.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import trio

from trikubelet.core.events import Correlator, namespace_of, new_event, recurrence
from trikubelet.core.token_bucket import TokenBucket
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.model import api_errors
from trikubelet.model.api import EVENTS, PatchKind
from trikubelet.status.figures import EventFigures
from trikubelet.status.work_queue import WorkQueue, answer_within

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from trikubelet.core.events import Key, Series
    from trikubelet.kit.outage import Outage
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.objects import ObjectRef
    from trikubelet.ports import Api, Clock
    from trikubelet.status.work_queue import WorkItem

log = logging.getLogger(__name__)

TRIES_MAX: Final = 12
"""Attempts for one event while the server fails (upstream's ``maxTriesPerEvent``)."""

_REFUSALS = (
    api_errors.ObjectMissing,  # its namespace
    api_errors.Conflict,
    api_errors.Forbidden,  # among others: its namespace is being deleted
    api_errors.Invalid,
    api_errors.Refused,
)


def _object_of(key: Key) -> tuple[str, str, str]:
    about = key[0]
    return about.kind, about.namespace, about.name


@dataclass(frozen=True, slots=True)
class EventRate:
    """The burst and rate of requests (``eventBurst``, ``eventRecordQPS``). ``per_second`` 0: no limit."""

    burst: int
    per_second: int


class EventWriter:
    """Owns the queue of events for the API server and the number of dropped ones (``ports.Events``)."""

    def __init__(
        self,
        api: Api,
        host: str,
        rate: EventRate,
        clock: Clock,
        outage: Outage,
        bounds: Bounds,
        chance: random.Random,
        node_uid: Callable[[], str] = str,
    ) -> None:
        """``node_uid``: of this node's object, empty while it is not registered."""
        self._api = api
        self._node_uid = node_uid
        self._host = host
        self._rate = rate
        self._clock = clock
        self._bounds = bounds
        self._correlator = Correlator()
        self._queue: WorkQueue[Key] = WorkQueue(
            # One after another for each object, because the server lists events of the same second in their order of
            # arrival.
            "writing an event", bounds.event_writes_max, outage, bounds, chance, lane=_object_of,
        )  # fmt: skip
        self._barriers = FaultBarriers(log, "%s: a bug in writing an event about it; that event is lost")
        self._written = self._lost = self._filtered = self._refused = 0

    def record(
        self,
        about: ObjectRef,
        type_: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Queue an event. Never blocks, never fails."""
        with self._barriers.of(f"{about.kind} {about}"):
            self._want(self._correlator.observe(about, type_, reason, message, self._clock.now_ns(), annotations))

    def _want(self, key: Key | None) -> None:
        if key is None:
            self._filtered += 1
        elif self._queue.waiting >= self._bounds.events_waiting_max and not self._queue.is_waiting(key):
            self._lost += 1
        else:
            self._queue.add(key)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send until cancelled. Queued events are lost then."""
        rate = self._rate
        bucket = TokenBucket(max(1, rate.burst), rate.per_second, trio.current_time()) if rate.per_second else None
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                item = await self._queue.get()
                if bucket is not None:
                    await trio.sleep(bucket.take_in_advance(trio.current_time()))
                nursery.start_soon(self._serve, item)

    def figures(self) -> EventFigures:
        """Return the numbers of written and dropped events."""
        return EventFigures(
            written=self._written,
            waiting=self._queue.waiting,
            lost=self._lost,
            filtered=self._filtered,
            refused=self._refused,
            bugs=self._barriers.count,
        )

    async def _serve(self, item: WorkItem[Key]) -> None:
        key = item.name
        try:
            with self._barriers.of(f"{key[0].kind} {key[0]}") as barrier:
                await self._serve_one(key)
            if barrier.fault is not None:
                self._queue.forget(key)
        finally:
            self._queue.done(key)

    async def _serve_one(self, key: Key) -> None:
        series = self._correlator.series(key)
        try:
            if series is None:
                self._lost += 1
                self._queue.forget(key)
                return
            with answer_within(self._bounds.api_call_seconds_max):
                await self._send(series)
            self._correlator.note_sent(key)
            self._written += 1
            self._queue.answered(key)
        except _REFUSALS as error:
            self._refused += 1
            self._queue.answered(key)
            log.debug("The API server rejects an event about %s: %s", key[0], error)
        except api_errors.ApiError as error:
            if self._queue.failed(key, error) < TRIES_MAX:
                self._queue.add(key)
                return
            self._lost += 1
            self._queue.forget(key)
            log.debug("Dropped an event about %s after %d attempts: %s", key[0], TRIES_MAX, error)

    async def _send(self, series: Series) -> None:
        namespace = namespace_of(series)
        if series.is_sent:
            with suppress(api_errors.ObjectMissing):  # the server keeps events for an hour or so: start over
                await self._say_again(series, namespace)
                return
        try:
            await self._api.create(EVENTS, new_event(series, self._host, self._node_uid()), namespace)
        except api_errors.ObjectExists:
            await self._say_again(series, namespace)  # it was created, and the answer was lost

    async def _say_again(self, series: Series, namespace: str) -> None:
        await self._api.patch(EVENTS, series.name, recurrence(series), namespace, kind=PatchKind.STRATEGIC)

    def __repr__(self) -> str:
        return f"<EventWriter {self._queue!r}, {self._written} written, {self._lost} lost>"
