"""One pod's task: it holds the pod's state, makes one attempt at a time, and never forgets a request.

    ask(request) ─ synchronous ─► core.lifecycle fold ─► state     (interrupt: cancel the attempt; wake: be due now)
    run():  wait until woken or due ─► one attempt in one cancel scope ─► fold the outcome ─► due again later

A request that arrives during an attempt is folded at once and acted on after it; only what makes the attempt pointless
interrupts it. The task is its own fault barrier: a bug in one pod's attempt is logged, counted and retried, and the
neighbours do not notice. A broken invariant is let through and ends the process.
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
from trikubelet.kit.instant import instant
from trikubelet.model.errors import InvariantBroken, NetworkNotReady, PodSyncError, RetryAt
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    import random

    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime import PodObservation

log = logging.getLogger(__name__)


class Attempts(Protocol):
    """What a worker can try. What it acts on is observed first and given with the newest configuration: while a worker
    waits for an observation, what is wanted may change."""

    async def observe(self, uid: str, since: float, *, soon: bool = False) -> PodObservation:
        """What the runtime has of the pod, seen after ``since``; ``soon``: ask for it rather than wait for it."""
        ...

    async def sync(self, pod: Pod, observed: PodObservation) -> Outcome:
        """Bring the pod closer to its configuration. DONE: it has ended for good."""
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

    def forget(self, uid: str) -> None:
        """This life of the pod is over and left nothing to show: drop its status and notes."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """What a worker is doing, in words and numbers."""

    state: lifecycle.State
    attempts: int
    failures: int
    last_error: str
    busy_since: float | None


def graces(pod: Pod) -> Graces:
    """What the pod says about grace."""
    return Graces(spec=pod.spec.termination_grace_period_seconds, deletion=pod.metadata.deletion_grace_period_seconds)


class PodWorker:
    """Owns the lifecycle state of one pod. Its only writers are ``ask`` and its own task."""

    def __init__(
        self,
        pod: Pod,
        state: lifecycle.State,
        attempts: Attempts,
        bounds: Bounds,
        chance: random.Random,
        *,
        since: float = -math.inf,
    ) -> None:
        self.pod = pod
        self.state = state
        self._attempts = attempts
        self._bounds = bounds
        self._chance = chance
        self._woken = trio.Event()
        self._attempt: trio.CancelScope | None = None
        self._due = trio.current_time()
        self._since = since  # the end of the last attempt: an earlier observation does not show all that it did
        self._count = 0
        self._failures = 0
        self._last_error = ""
        self._busy_since: float | None = None

    def ask(self, request: lifecycle.Request, pod: Pod | None = None) -> None:
        """Fold a request in; ``pod`` is its newest configuration. Never blocks."""
        if pod is not None:
            self.pod = pod
        step = lifecycle.on_request(self.state, request, graces(self.pod))
        self.state = step.state
        if step.interrupt and self._attempt is not None:
            self._attempt.cancel()
        if step.wake:
            self.wake()

    def wake(self) -> None:
        """Make the next attempt due now. Never blocks."""
        self._woken.set()

    def statistics(self) -> WorkerStatistics:
        """What the worker is doing."""
        return WorkerStatistics(self.state, self._count, self._failures, self._last_error, self._busy_since)

    async def run(self) -> None:
        """Live until finished."""
        while not isinstance(self.state, Finished):
            with trio.move_on_at(self._due):
                await self._woken.wait()
            await trio.lowlevel.checkpoint()
            self._woken = trio.Event()
            if not isinstance(self.state, Finished):
                await self._attempt_once()

    async def _attempt_once(self) -> None:
        self.state = lifecycle.on_begin(self.state)
        made_for = type(self.state)
        self._busy_since = trio.current_time()
        self._count += 1
        delay = 0.0
        with trio.CancelScope() as self._attempt:
            outcome, delay = await self._guarded()
            self._last_error = "" if outcome is not None else self._last_error
            if outcome is not None and type(self.state) is made_for:
                self.state = lifecycle.on_outcome(self.state, outcome, graces(self.pod))
        self._attempt = None
        self._busy_since = None
        self._since = instant()
        moved = type(self.state) is not made_for
        self._due = trio.current_time() + (0.0 if moved else delay)

    async def _guarded(self) -> tuple[Outcome | None, float]:
        """One attempt; its outcome, or None if it failed, and how long to wait before the next, in seconds."""
        try:
            outcome = await self._try()
            left = self._attempts.seconds_left(self.pod)
            again = self._jittered(self._bounds.resync_seconds)
            return outcome, again if left is None else min(again, left)
        except NetworkNotReady as error:
            return self._failed(error, self._bounds.network_retry_seconds)
        except RetryAt as error:
            # A delay of its own, but never longer than the pod would have gone unlooked at anyway.
            wait = max(0.0, error.at - trio.current_time())
            return self._failed(error, min(wait, self._jittered(self._bounds.resync_seconds)))
        except (PodSyncError, RuntimeCallError, trio.TooSlowError) as error:
            return self._failed(error, self._jittered(self._bounds.retry_seconds))
        except InvariantBroken:
            raise
        except Exception as error:
            if isinstance(error, ExceptionGroup) and error.subgroup(InvariantBroken):
                raise
            log.exception("Pod %s: a bug in its worker; the attempt will be repeated", object_ref(self.pod))
            return self._failed(error, self._jittered(self._bounds.retry_seconds))

    async def _try(self) -> Outcome:
        uid = self.pod.metadata.uid
        match self.state:
            case Starting() | Syncing():
                observed = await self._attempts.observe(uid, self._since)
                return await self._attempts.sync(self.pod, observed)
            case Terminating() as state:
                # An attempt that was interrupted may have made containers which the newest observation does not show.
                # Stopping their sandbox would kill them without grace, so they must be seen first.
                observed = await self._attempts.observe(uid, self._since, soon=True)
                return await self._attempts.terminate(self.pod, state, observed)
            case Terminated() as state:
                return await self._attempts.clean_up(self.pod, state)
            case Finished():
                raise InvariantBroken(f"an attempt at the finished pod {object_ref(self.pod)}")

    def _failed(self, error: Exception, wait_seconds: float) -> tuple[None, float]:
        self._failures += 1
        self._last_error = str(error) or type(error).__name__
        return None, wait_seconds

    def _jittered(self, seconds: float) -> float:
        return seconds * (1.0 + 0.5 * self._chance.random())

    def __repr__(self) -> str:
        return f"<PodWorker {object_ref(self.pod)} {type(self.state).__name__} after {self._count} attempts>"
