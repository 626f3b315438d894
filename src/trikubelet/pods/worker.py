"""One pod's task: it holds the pod's state, makes one sync at a time, and never forgets a request.

    ask(request) ─ synchronous ─► core.lifecycle fold ─► state     (interrupt: cancel the sync; wake: be due now)
    run():  wait until woken or due ─► one sync in one cancel scope ─► fold the outcome ─► due again later

A request that arrives during a sync is folded at once and acted on after it; only what makes the sync pointless
interrupts it. The task is its own fault barrier: a bug in one pod's sync is logged, counted and retried ever more
rarely, unless something happens to the pod, and the neighbours do not notice. A broken invariant is let through and
ends the process.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
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
"""Between syncs that fail, also where the pod's deadline is over: a runtime that is away shows no end."""


class Syncer(Protocol):
    """What a worker can try. What it acts on is observed first and given with the newest configuration: while a worker
    waits for an observation, what is wanted may change."""

    async def run_with_probes(self, pod: Pod, live: Callable[[], Awaitable[None]]) -> None:
        """Run ``live``, a worker's whole life, with what lives beside it and ends with it."""
        ...

    async def observe(self, uid: str, since: float, *, soon: bool = False) -> PodObservation:
        """What the runtime has of the pod, seen after ``since``; ``soon``: ask for it rather than wait for it."""
        ...

    async def sync(self, pod: Pod, observed: PodObservation) -> Outcome:
        """Bring the pod closer to its configuration. DONE: it has ended permanently; AGAIN: the runtime was asked for
        something that shows when it happens; AT_ONCE: for something that does not; IDLE: for nothing."""
        ...

    async def terminate(self, pod: Pod, state: Terminating, observed: PodObservation) -> Outcome:
        """Stop its containers. DONE: none runs."""
        ...

    async def clean_up(self, pod: Pod, state: Terminated) -> Outcome:
        """Release what it held. DONE: nothing of it needs a task any more."""
        ...

    def seconds_left(self, pod: Pod) -> float | None:
        """Until the pod's activeDeadlineSeconds are over; None when it has no end."""
        ...

    def publish_readiness(self, pod: Pod) -> None:
        """Show which of its containers serve and what its readiness gates say, without a sync. Never blocks."""
        ...

    def forget(self, uid: str) -> None:
        """This instance of the pod is over and left nothing to show: drop its status and notes."""
        ...

    def begin_despite_leftovers(self, uid: str) -> None:
        """A new instance of the pod begins, and something of the one before is still there: it is not its own."""
        ...

    def last_attempts(self, pod: Pod) -> Mapping[str, int]:
        """Return the restart counts that the pod's containers reached in this instance, or before it, by name."""
        ...

    def go_on_from(self, uid: str, attempts: Mapping[str, int]) -> None:
        """A new instance of the pod begins, whose restart counts go on from these, by the names of containers."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """What a worker is doing, in words and numbers."""

    state: lifecycle.State
    syncs: int
    failures: int
    last_error: str
    busy_since: float | None


def graces(pod: Pod) -> Graces:
    """What the pod says about grace."""
    return Graces(spec=pod.spec.termination_grace_period_seconds, deletion=pod.metadata.deletion_grace_period_seconds)


class PodWorker:
    """Owns the lifecycle state of one pod, written by ``ask`` and its own task, and the pod as it was last given,
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
        self._since = since  # the end of the last sync that did something: what was observed before may not show it
        self._count = 0
        self._failures = 0
        self._last_error = ""
        self._busy_since: float | None = None
        self._figures = figures
        self._made_at = trio.current_time()
        self._is_for = "create"  # upstream's word for why the next sync is made
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
        """Probes concluded something new: act on it, and show it now if a sync is under way. Never blocks."""
        if self._sync is not None:
            self._syncer.publish_readiness(self.pod)
        self.wake()

    def update_status_only(self, pod: Pod) -> None:
        """The pod has another status, and is wanted as before: worth no sync of its own. Never blocks."""
        self.pod = pod

    def readiness_gates_changed(self, pod: Pod) -> None:
        """Somebody wrote a condition that its readiness gates name: show what follows. A sync under way began with
        the conditions of before and may show those again, so there is another after it. Never blocks."""
        self.pod = pod
        self._syncer.publish_readiness(pod)
        if self._sync is not None:
            self.wake()

    async def live(self) -> None:
        """Run until finished, with what lives beside a worker."""
        await self._syncer.run_with_probes(self.pod, self.run)

    def statistics(self) -> WorkerStatistics:
        """What the worker is doing."""
        return WorkerStatistics(self.state, self._count, self._failures, self._last_error, self._busy_since)

    async def run(self) -> None:
        """Live until finished."""
        while not isinstance(self.state, Finished):
            with trio.move_on_at(self._due):
                await self._woken.wait()
            await trio.lowlevel.checkpoint()  # a wait whose deadline is over ends without letting another task run
            self._woken = trio.Event()  # before the sync: who wakes it meanwhile has another made after it
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
        delay = 0.0  # stays so when a request cuts the sync: the next one is due at once
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
                self._bug_retries.reset()  # not reached where there was a bug: the barrier ends its block
            if barrier.fault is not None:
                delay = self._bug_retries.next_seconds()
            # A request meanwhile may have moved the state on: then the outcome is not about that one.
            if outcome is not None and type(self.state) is made_for:
                self.state = lifecycle.on_outcome(self.state, outcome, graces(self.pod))
        self._sync = None
        self._busy_since = None
        self._figures.syncs[is_for].add(trio.current_time() - began)
        if outcome is not Outcome.IDLE:  # one that failed or was cut may have changed something, too
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
                # A sync that was interrupted may have made containers which the newest observation does not show.
                # Stopping their sandbox would kill them without grace, so they must be seen first.
                observed = await self._syncer.observe(uid, self._since, soon=True)
                return await self._syncer.terminate(self.pod, state, observed)
            case Terminated() as state:
                return await self._syncer.clean_up(self.pod, state)
            case Finished():
                raise InvariantBroken(f"a sync of the finished pod {object_ref(self.pod)}")

    def _seconds_to_resync(self) -> float:
        """After a sync that did not fail."""
        return self._until_deadline(self._jittered(self._bounds.resync_seconds))

    def _until_deadline(self, seconds: float, *, at_least: float = 0.0) -> float:
        """No longer than until the pod's activeDeadlineSeconds are over, but ``at_least`` so long. Of a pod that ends
        anyway they ask nothing more."""
        left = self._syncer.seconds_left(self.pod) if isinstance(self.state, Starting | Syncing) else None
        return seconds if left is None else min(seconds, max(left, at_least))

    def _seconds_to_retry(self, error: Exception) -> float:
        match error:
            case NetworkNotReady():
                return self._bounds.network_retry_seconds
            case RetryAt():
                # A delay of its own, but never longer than the pod would have gone unlooked at anyway.
                left = max(0.0, error.at - trio.current_time())
                return min(left, self._jittered(self._bounds.resync_seconds))
            case VolumeFailed():
                return self._volume_retries.next_seconds()
            case _:
                return self._jittered(self._bounds.retry_seconds)

    def _found_bug(self, bug: Exception) -> None:
        """It stays until somebody mends it, so each try is later than the last, and one an hour is logged."""
        if self._failure_log.may_log(type(bug).__name__):
            said = "Pod %s: a bug in its worker; the sync will be repeated, later each time"
            log.error(said, object_ref(self.pod), exc_info=bug)
        self._failed(bug)

    def _report_stuck(self, error: Exception) -> None:
        """Nothing else tells of it: whoever asked for the pod's end sees no more than that it does not come."""
        cause = error.__cause__
        kind = f"{type(error).__name__} {type(cause).__name__} {getattr(cause, 'errno', '')}"
        if self._failure_log.may_log(kind):
            said = "Pod %s: what it held cannot be taken down, will try again: %s"
            log.warning(said, object_ref(self.pod), message_of(error))

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        self._last_error = message_of(error)

    def _jittered(self, seconds: float) -> float:
        return seconds * (1.0 + 0.5 * self._chance.random())

    def __repr__(self) -> str:
        return f"<PodWorker {object_ref(self.pod)} {type(self.state).__name__} after {self._count} syncs>"
