"""Graceful node shutdown: pods end in order before the machine does.

    the machine goes down ─► NotReady, no pod is admitted ─► the groups, lowest priority first ─► the delay is ended
                                     each: its pods end ─► all over, with their volumes, or the group's time is

The agent requests a delay as soon as there is a session with logind, and keeps it while the session is interrupted: it
is replaced only when the new session has granted one. Announcements that were missed without a session are queried.

The containers and sandboxes of the pods stay (``core.lifecycle``): after the boot the agent continues from them, as
after any other end. A static pod that may run again is started with its restart count; one that ended permanently is
not started.

A cancelled shutdown brings no pod back: they have failed, and their controllers make others. Static pods have no
controller: they continue at the next start of the agent, or begin anew when their manifest changes. Neither the delay
nor the pods wait for the disk: reads and writes (``node.shutdown_record``, the machine's settings) are concurrent or
come later.
(upstream: nodeshutdown_manager_linux.go)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core import node_shutdown
from trikubelet.core.lifecycle import Finished, StopReason
from trikubelet.core.timestamps import rfc3339
from trikubelet.kit.backoff import Backoff
from trikubelet.kit.failure_log import HOUR
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.listeners import Listeners
from trikubelet.kit.log_rate_limit import LogRateLimit
from trikubelet.kit.outage import Outage
from trikubelet.model.shutdown_times import ShutdownTimes
from trikubelet.node.shutdown_record import ShutdownRecord

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from trikubelet.core.node_shutdown import ShutdownGroup
    from trikubelet.model import k8s
    from trikubelet.model.objects import ObjectRef
    from trikubelet.pods.disruptions import Disruptions
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import Clock, Events, ShutdownManager, ShutdownRecords, ShutdownSession

log = logging.getLogger(__name__)

RETRY_SECONDS, RETRY_SECONDS_MAX = 1.0, 30.0
"""The pause between sessions (upstream: 1 s, always)."""
LOOK_SECONDS: Final = 1.0
"""While a group ends, the period of the check for pods that came meanwhile."""


class NodeShutdown:
    """Owns the state ``is_shutting_down`` of the machine, and the requested delay. ``changed``: a shutdown begins, or
    is cancelled. Without ``groups`` no delay is requested."""

    def __init__(
        self,
        *,
        workers: PodWorkers,
        disruptions: Disruptions,
        events: Events,
        node: ObjectRef,
        clock: Clock,
        groups: Sequence[ShutdownGroup],
        chance: random.Random,
    ) -> None:
        self._workers = workers
        self._disruptions = disruptions
        self._events = events
        self._node = node
        self._clock = clock
        self.groups = groups
        self._outage = Outage("systemd-logind, which announces a shutdown of this machine,")
        self._retries = Backoff(RETRY_SECONDS, RETRY_SECONDS_MAX, jitter=0.5, chance=chance)
        self._too_short = LogRateLimit(HOUR)
        self._barriers = FaultBarriers(log, "%s: a bug in ending it for the shutdown; the others end")
        self._finished = trio.lowlevel.ParkingLot()
        workers.finished.add(lambda _: self._finished.unpark_all())
        self._end_delay: Callable[[], None] | None = None
        self.is_shutting_down = False
        self._record = ShutdownRecord()
        self.changed: Final[Listeners[()]] = Listeners("a machine that goes down, or does not after all")

    @property
    def times(self) -> ShutdownTimes:
        """The times of the last shutdown."""
        return self._record.times

    async def run(
        self,
        manager: ShutdownManager,
        records: ShutdownRecords,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Delay shutdowns and end pods in them, until cancelled. Started at once."""
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._record.run, records)
            try:
                while True:
                    try:
                        async with manager.connect() as session:
                            await self._attend(session)
                    except OSError as error:
                        self._outage.failed("delaying a shutdown", error)
                    await trio.sleep(self._retries.next_seconds())
            finally:
                self._keep_delay(None)

    async def _attend(self, session: ShutdownSession) -> None:
        await self._announced(session, await session.is_shutting_down())
        await self._allow_delay(session)  # after the delay, because this writes to a disk and can take effect later
        self._outage.worked()
        self._retries.reset()
        while True:
            await self._announced(session, await session.next())

    async def _allow_delay(self, session: ShutdownSession) -> None:
        """Raise the machine's own limit for delays, which bounds every request. If that fails, pods have the time of
        the limit."""
        wanted, why = node_shutdown.delay_seconds(self.groups), ""
        if (allowed := await session.delay_seconds()) >= wanted:
            return
        try:
            await session.allow_delay(wanted)
            allowed = await session.delay_seconds()
        except OSError as error:
            why = f" (raising that failed: {error})"
        if allowed < wanted and self._too_short.may_log():
            message = (
                "This machine waits %g s before it shuts down, pods are to have %d s: those that need longer are cut "
                "off. Set InhibitDelayMaxSec=%d in the settings of systemd-logind (logind.conf)%s"
            )
            log.warning(message, allowed, wanted, wanted, why)

    async def _announced(self, session: ShutdownSession, is_shutting_down: bool) -> None:
        was = self.is_shutting_down
        self.is_shutting_down = is_shutting_down
        if is_shutting_down == was:
            if not is_shutting_down:
                self._keep_delay(await session.inhibit())
            return
        what = "shutdown event" if is_shutting_down else "shutdown cancellation"
        log.warning(
            "The machine %s", "shuts down, its pods end before it" if is_shutting_down else "stays up after all"
        )
        self._events.record(self._node, "Normal", "NodeShutdown", f"Shutdown manager detected {what}")
        self.changed.notify()
        if is_shutting_down:
            await self._end_pods()
        else:
            self._keep_delay(await session.inhibit())

    def _keep_delay(self, end: Callable[[], None] | None) -> None:
        """Replace the present delay, which is released."""
        before, self._end_delay = self._end_delay, end
        if before is not None:
            before()

    # ---- ending the pods ----

    async def _end_pods(self) -> None:
        try:
            began = rfc3339(self._clock.now_ns())
            self._record.set(ShutdownTimes(began))
            for place, group in enumerate(self.groups):
                await self._end_group(place, group)
            self._record.set(ShutdownTimes(began, rfc3339(self._clock.now_ns())))
            await self._record.settle()
        finally:
            self._keep_delay(None)  # the machine has nothing more to wait for here

    async def _end_group(self, place: int, group: ShutdownGroup) -> None:
        left = self._ask_to_end(place, group)
        with trio.move_on_after(group.seconds) as time:
            while left:
                with trio.move_on_after(LOOK_SECONDS):
                    await self._finished.park()
                left = self._ask_to_end(place, group)
        if time.cancelled_caught:
            log.warning("Pods of priority %d and above are not over after %d s", group.priority, group.seconds)

    def _ask_to_end(self, place: int, group: ShutdownGroup) -> int:
        """Request the end of the group's remaining pods; return how many are not over."""
        left = 0
        for worker in self._workers:
            if isinstance(worker.state, Finished) or node_shutdown.group_of(worker.pod, self.groups) != place:
                continue
            left += 1
            with self._barriers.of(f"Pod {worker.pod.metadata.namespace}/{worker.pod.metadata.name}"):
                self._end(worker.pod, group)
        return left

    def _end(self, pod: k8s.Pod, group: ShutdownGroup) -> None:
        self._disruptions.end(
            pod,
            reason=node_shutdown.REASON,
            message=node_shutdown.MESSAGE,
            grace_seconds=node_shutdown.grace_seconds(pod, group),
            stop_reason=StopReason.SHUT_DOWN,
        )

    def __repr__(self) -> str:
        return f"<NodeShutdown: {len(self.groups)} groups, {'going down' if self.is_shutting_down else 'up'}>"
