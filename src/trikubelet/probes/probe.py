"""The task of one probe: it waits until it is due, runs, records its result, and sleeps until the next time.

    nothing to probe ──wakeup──► first due ──► run ──► a period later ──► run ──► …
         ▲                                 │ another container, on hold, or the pod ends
         └─────────────────────────────────┘

Run each period without drift; a run that took longer than a period is followed by the next at once, and those that
were missed are left out. The task is a fault barrier: a bug in a probe costs one result, and a line once an hour; one
in what is made of a result costs a pause besides.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.actions import Verdict
from trikubelet.core.names import object_ref
from trikubelet.core.probes import ProbeKind
from trikubelet.core.probes.timing import period_seconds
from trikubelet.kit.barrier import Barrier, message_of
from trikubelet.kit.distribution import Distribution
from trikubelet.kit.failure_log import FailureLog
from trikubelet.model.handlers import HandlerInvalid
from trikubelet.probes.figures import ProbeFigures
from trikubelet.probes.prober import ProbeOutcome, ProbeResult

if TYPE_CHECKING:
    from trikubelet.kit.shared_timer import SharedTimer
    from trikubelet.ports import Events
    from trikubelet.probes.pod import Key, PodProbes, Subject
    from trikubelet.probes.prober import ProbeCall, Prober

log = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 10.0
"""After a bug that is not the run's: it may come before anything is waited for."""
_VERDICTS = {
    ProbeResult.SUCCESS: Verdict.SUCCESS,
    ProbeResult.WARNING: Verdict.SUCCESS,
    ProbeResult.FAILURE: Verdict.FAILURE,
}


class ProbeTask:
    """Owns when one probe runs next, how often it had which result, and how fast (seconds)."""

    def __init__(self, key: Key, pod: PodProbes, prober: Prober, events: Events, timer: SharedTimer) -> None:
        self._key = key
        self._results: Counter[str] = Counter()
        self._durations = Distribution()
        self._pod = pod
        self._prober = prober
        self._events = events
        self._timer = timer
        self._next = -math.inf
        self._call_target: tuple[str, str] = ("", "")
        self._call: ProbeCall | None = None
        self._failure_log = FailureLog()

    async def run(self) -> None:
        """Probe until there will be nothing to probe any more, or cancelled."""
        kind, _ = self._key
        while kind is ProbeKind.READINESS or not self._pod.is_ending:
            with Barrier(self._log_bug) as barrier:
                await self._wait_and_run()
            if barrier.fault is not None:
                await trio.sleep(PAUSE_SECONDS)

    async def _wait_and_run(self) -> None:
        """Wait until the next run is due, and run; or until something changed."""
        subject = self._pod.subject_to_probe(self._key)
        if subject is not None and subject.container_id != self._call_target[0]:
            self._next = -math.inf
        due = math.inf if subject is None else max(subject.first_due, self._next)
        woken = self._pod.wakeup(self._key)
        if subject is None:
            await woken.wait()
        else:
            await self._timer.wait_until(due, woken)
        # The change may be that there is another container to probe, or none.
        if subject is not None and trio.current_time() >= due and self._pod.subject_to_probe(self._key) is subject:
            await self._run_once(subject, due)

    def figures(self) -> ProbeFigures:
        """Its results so far."""
        kind, container = self._key
        meta = self._pod.pod.metadata
        return ProbeFigures(meta.namespace, meta.name, meta.uid, container, kind.value, self._results, self._durations)

    async def _run_once(self, subject: Subject, due: float) -> None:
        now, period = trio.current_time(), period_seconds(subject.probe)
        self._next = (due if now < due + period else now) + period
        outcome = await self._probe_guarded(subject)
        self._durations.add(trio.current_time() - now)
        self._results[outcome.result.value] += 1
        self._record_event(subject, outcome)
        if outcome.result is not ProbeResult.UNKNOWN:
            self._pod.record_result(self._key, subject.container_id, _VERDICTS[outcome.result])

    async def _probe_guarded(self, subject: Subject) -> ProbeOutcome:
        with Barrier(self._log_bug) as barrier:
            try:
                return await self._prober.run_with_retries(self._call_of(subject))
            except HandlerInvalid as error:
                return ProbeOutcome(ProbeResult.UNKNOWN, str(error))
        return ProbeOutcome(ProbeResult.UNKNOWN, message_of(barrier.fault))

    def _log_bug(self, bug: Exception) -> None:
        if self._failure_log.may_log(type(bug).__name__):
            log.error("Pod %s: a bug in its probe; the next result will count", object_ref(self._pod.pod), exc_info=bug)

    def _call_of(self, subject: Subject) -> ProbeCall:
        """The call, prepared again only for another container or address. Raises HandlerInvalid."""
        target = (subject.container_id, self._pod.address)
        if self._call is None or target != self._call_target:
            self._call_target = target
            self._call = None
            self._call = self._prober.prepare(subject.probe, subject.container, *target)
        return self._call

    def _record_event(self, subject: Subject, outcome: ProbeOutcome) -> None:
        """An event for any result but a success."""
        if outcome.result is ProbeResult.SUCCESS:
            return
        words = self._key[0].value
        about = object_ref(self._pod.pod, subject.container.name)
        match outcome.result:
            case ProbeResult.WARNING:
                self._events.record(about, "Warning", "ProbeWarning", f"{words} probe warning: {outcome.output}")
            case ProbeResult.FAILURE:
                self._events.record(about, "Warning", "Unhealthy", f"{words} probe failed: {outcome.output}")
            case _:
                message = f"{words} probe errored and resulted in unknown state: {outcome.output}"
                self._events.record(about, "Warning", "Unhealthy", message)
