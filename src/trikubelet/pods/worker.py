"""One pod's task: it holds the pod's state, makes one sync at a time, and never forgets a request.

    ask(request) ─ synchronous ─► core.lifecycle fold ─► state     (interrupt: cancel the sync; wake: be due now)
    run():  wait until woken or due ─► one sync in one cancel scope ─► fold the outcome ─► due again later

A request that arrives during a sync is folded at once and acted on after it; it interrupts the sync only if it makes it
pointless. The task is its own fault barrier: a bug in one pod's sync is logged, counted and retried with backoff,
unless something happens to the pod, and other pods are unaffected. A broken invariant is raised and ends the process.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Protocol

import trio

from trikubelet.core import lifecycle
from trikubelet.core.lifecycle import Finished, Graces, Outcome, Starting, Syncing, Terminated, Terminating
from trikubelet.core.names import object_ref
from trikubelet.kit.backoff import Backoff
from trikubelet.kit.barrier import Barrier, InvariantBroken, message_of
from trikubelet.kit.failure_log import FailureLog
from trikubelet.kit.instant import instant
from trikubelet.model.errors import NetworkNotReady, PodSyncError, RetryAt, VolumeFailed
from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Mapping

    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime import PodObservation
    from trikubelet.pods.figures import PodFigures

log = logging.getLogger(__name__)

FAILURE_SECONDS_MIN = 1.0
"""The least time between failing syncs, even after the pod's deadline: while the runtime is away no end is observed."""


class Syncer(Protocol):
    """The work of a worker. Its observation is made first and passed with the newest configuration, because that may
    change while a worker waits for an observation."""

    async def run_with_probes(self, pod: Pod, live: Callable[[], Awaitable[None]]) -> None:
        """Run ``live``, a worker's whole life, together with tasks that end with it."""
        ...

    async def observe(self, uid: str, since: float, *, soon: bool = False) -> PodObservation:
        """Return the runtime's state of the pod, observed after ``since``; ``soon``: request a relist instead of
        waiting."""
        ...

    async def sync(self, pod: Pod, observed: PodObservation) -> Outcome:
        """Bring the pod closer to its configuration. DONE: it has ended permanently; AGAIN: something was done whose
        result PLEG reports; AT_ONCE: something whose result it does not report; IDLE: nothing."""
        ...

    async def terminate(self, pod: Pod, state: Terminating, observed: PodObservation) -> Outcome:
        """Stop its containers. DONE: none runs."""
        ...

    async def clean_up(self, pod: Pod, state: Terminated) -> Outcome:
        """Release its resources. DONE: nothing of it needs a task any more."""
        ...

    def seconds_left(self, pod: Pod) -> float | None:
        """Return the seconds until the pod's activeDeadlineSeconds are over; None if it has no deadline."""
        ...

    def publish_readiness(self, pod: Pod) -> None:
        """Publish the readiness of its containers and its readiness gates, without a sync. Never blocks."""
        ...

    def forget(self, uid: str) -> None:
        """Forget this instance of the pod, which is over and has nothing left to show: drop its status and notes."""
        ...

    def begin_despite_leftovers(self, uid: str) -> None:
        """Record that a new instance of the pod begins despite leftovers of the last one, which do not belong to it."""
        ...

    def last_attempts(self, pod: Pod) -> Mapping[str, int]:
        """Return the restart counts that the pod's containers reached in this instance, or before it, by name."""
        ...

    def go_on_from(self, uid: str, attempts: Mapping[str, int]) -> None:
        """Record that a new instance of the pod begins, whose restart counts continue these, by the names of
        containers."""
        ...


class WorkerStatistics(Frozen):
    """The state of a worker, in words and numbers."""

    state: lifecycle.State
    syncs: int
    failures: int
    last_error: str
    busy_since: float | None


def graces(pod: Pod) -> Graces:
    """Return the pod's own grace periods."""
    return Graces(spec=pod.spec.termination_grace_period_seconds, deletion=pod.metadata.deletion_grace_period_seconds)


class PodWorker:
    """Owns the lifecycle state of one pod, written by ``ask`` and its own task, and the pod's newest configuration,
    written by the methods that take one. ``over``: the task has ended; nothing of the pod is left to do."""

    def __init__(
        self,
        pod: Pod,
        state: lifecycle.State,
        syncer: Syncer,
        bounds: Bounds,
        chance: random.Random,
        figures: PodFigures,
        *,
        since: float = -math.inf,
    ) -> None:
        self.pod = pod
        self.state = state
        self._syncer = syncer
        self._bounds = bounds
        self._chance = chance
        self._volume_retries = Backoff(bounds.volume_retry_seconds, bounds.retry_seconds, jitter=0.5, chance=chance)
        self._bug_retries = Backoff(bounds.retry_seconds, bounds.bug_retry_seconds_max, jitter=0.5, chance=chance)
        self._failure_log = FailureLog()
        self._woken = trio.Event()
        self._sync: trio.CancelScope | None = None
        self._due = trio.current_time()
        self._since = since  # the end of the last sync that did something: earlier observations may not show it
        self._count = 0
        self._failures = 0
        self._last_error = ""
        self._busy_since: float | None = None
        self._figures = figures
        self._made_at = trio.current_time()
        self._is_for = "create"  # upstream's word for the reason of the next sync
        self.over = trio.Event()
        self.over_at = math.inf  # on Trio's clock

    def ask(self, request: lifecycle.Request, pod: Pod | None = None) -> None:
        """Fold a request in; ``pod`` is its newest configuration. Never blocks."""
        if pod is not None:
            self.pod = pod
            self._is_for = "update" if self._count else "create"
        step = lifecycle.on_request(self.state, request, graces(self.pod))
        self.state = step.state
        if step.interrupt and self._sync is not None:
            self._sync.cancel()
        if step.wake:
            self.wake()

    def wake(self) -> None:
        """Make the next sync due now. Never blocks."""
        self._woken.set()

    def probe_result_changed(self) -> None:
        """Act on a new verdict of a probe, and publish it now if a sync is under way. Never blocks."""
        if self._sync is not None:
            self._syncer.publish_readiness(self.pod)
        self.wake()

    def update_status_only(self, pod: Pod) -> None:
        """Take the pod with another status and an unchanged spec: it needs no sync of its own. Never blocks."""
        self.pod = pod

    def readiness_gates_changed(self, pod: Pod) -> None:
        """Publish the readiness after another component wrote a condition of its readiness gates. A sync under way
        began with the earlier conditions and may publish those again, so another sync follows. Never blocks."""
        self.pod = pod
        self._syncer.publish_readiness(pod)
        if self._sync is not None:
            self.wake()

    async def live(self) -> None:
        """Run until finished, together with the tasks that end with a worker."""
        await self._syncer.run_with_probes(self.pod, self.run)

    def statistics(self) -> WorkerStatistics:
        """Return the state of the worker."""
        return WorkerStatistics(self.state, self._count, self._failures, self._last_error, self._busy_since)

    async def run(self) -> None:
        """Run until finished."""
        while not isinstance(self.state, Finished):
            with trio.move_on_at(self._due):
                await self._woken.wait()
            await trio.lowlevel.checkpoint()  # a wait whose deadline is over ends without letting another task run
            self._woken = trio.Event()  # before the sync: a wake-up meanwhile causes another sync after it
            if not isinstance(self.state, Finished):  # a request may have moved it there while it waited
                await self._sync_once()
        self.over_at = trio.current_time()
        self.over.set()

    async def _sync_once(self) -> None:
        self.state = lifecycle.on_begin(self.state)
        made_for = type(self.state)
        began = self._busy_since = trio.current_time()
        is_for, self._is_for = self._is_for, "sync"
        if made_for in (Terminating, Terminated):
            is_for = "kill"
        elif not self._count:
            self._figures.worker_starts.add(began - self._made_at)
        self._count += 1
        delay = 0.0  # stays so if a request interrupts the sync: the next one is due at once
        outcome: Outcome | None = None
        with trio.CancelScope() as self._sync:
            with Barrier(self._found_bug) as barrier:
                try:
                    outcome = await self._try()
                    self._volume_retries.reset()
                    delay = 0.0 if outcome is Outcome.AT_ONCE else self._seconds_to_resync()
                    self._last_error = ""
                except (PodSyncError, RuntimeCallError, trio.TooSlowError) as error:
                    self._failed(error)
                    if made_for is Terminated:
                        self._report_stuck(error)
                    delay = self._until_deadline(self._seconds_to_retry(error), at_least=FAILURE_SECONDS_MIN)
                self._bug_retries.reset()  # not reached after a bug: the barrier ends its block
            if barrier.fault is not None:
                delay = self._bug_retries.next_seconds()
            # A request meanwhile may have moved the state on: then the outcome does not apply to it.
            if outcome is not None and type(self.state) is made_for:
                self.state = lifecycle.on_outcome(self.state, outcome, graces(self.pod))
        self._sync = None
        self._busy_since = None
        self._figures.syncs[is_for].add(trio.current_time() - began)
        if outcome is not Outcome.IDLE:  # a failed or interrupted sync may have changed something, too
            self._since = instant()
        moved = type(self.state) is not made_for
        self._due = trio.current_time() + (0.0 if moved else delay)

    async def _try(self) -> Outcome:
        uid = self.pod.metadata.uid
        match self.state:
            case Starting() | Syncing():
                observed = await self._syncer.observe(uid, self._since)
                return await self._syncer.sync(self.pod, observed)
            case Terminating() as state:
                # An interrupted sync may have created containers that the newest observation does not show. Stopping
                # their
                # sandbox would kill them without grace, so they must be observed first.
                observed = await self._syncer.observe(uid, self._since, soon=True)
                return await self._syncer.terminate(self.pod, state, observed)
            case Terminated() as state:
                return await self._syncer.clean_up(self.pod, state)
            case Finished():
                raise InvariantBroken(f"a sync of the finished pod {object_ref(self.pod)}")

    def _seconds_to_resync(self) -> float:
        """Return the pause after a sync that did not fail."""
        return self._until_deadline(self._jittered(self._bounds.resync_seconds))

    def _until_deadline(self, seconds: float, *, at_least: float = 0.0) -> float:
        """Return the seconds, limited by the end of the pod's activeDeadlineSeconds, but ``at_least`` that many. The
        deadline does not matter for a pod that ends anyway."""
        left = self._syncer.seconds_left(self.pod) if isinstance(self.state, Starting | Syncing) else None
        return seconds if left is None else min(seconds, max(left, at_least))

    def _seconds_to_retry(self, error: Exception) -> float:
        match error:
            case NetworkNotReady():
                return self._bounds.network_retry_seconds
            case RetryAt():
                # A delay of its own, but never longer than the resync period.
                left = max(0.0, error.at - trio.current_time())
                return min(left, self._jittered(self._bounds.resync_seconds))
            case VolumeFailed():
                return self._volume_retries.next_seconds()
            case _:
                return self._jittered(self._bounds.retry_seconds)

    def _found_bug(self, bug: Exception) -> None:
        """Log a bug once an hour; it stays until it is fixed, so each try is later than the last."""
        if self._failure_log.may_log(type(bug).__name__):
            said = "Pod %s: a bug in its worker; the sync will be repeated, later each time"
            log.error(said, object_ref(self.pod), exc_info=bug)
        self._failed(bug)

    def _report_stuck(self, error: Exception) -> None:
        """Log a failure to take down the pod, because otherwise its user only sees that its end does not come."""
        cause = error.__cause__
        kind = f"{type(error).__name__} {type(cause).__name__} {getattr(cause, 'errno', '')}"
        if self._failure_log.may_log(kind):
            said = "Pod %s: cannot take down its volumes or cgroup, will try again: %s"
            log.warning(said, object_ref(self.pod), message_of(error))

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        self._last_error = message_of(error)

    def _jittered(self, seconds: float) -> float:
        return seconds * (1.0 + 0.5 * self._chance.random())

    def __repr__(self) -> str:
        return f"<PodWorker {object_ref(self.pod)} {type(self.state).__name__} after {self._count} syncs>"
