"""The task of one probe: it waits for its turn, asks, says what it was answered, and sleeps until the next time.

    nobody to ask ──news──► first due ──► ask ──► a period later ──► ask ──► …
         ▲                                 │ another container, on hold, or the pod ends
         └─────────────────────────────────┘

Asked each period without drift; a question that took longer than a period is followed by the next at once, and those
that were missed are left out. The task is a fault barrier: a bug in a probe costs one answer, and a line once an hour;
one in what is made of an answer costs a pause besides.
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
from trikubelet.probes.asking import Answer, Meaning
from trikubelet.probes.figures import ProbeFigures

if TYPE_CHECKING:
    from trikubelet.kit.shared_timer import SharedTimer
    from trikubelet.ports import Events
    from trikubelet.probes.asking import Asking, Question
    from trikubelet.probes.pod import Key, PodProbes, Subject

log = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 10.0
"""After a bug that is not the question's: it may come before anything is waited for."""
_SAYS = {Meaning.WELL: Verdict.SUCCESS, Meaning.REMARKABLE: Verdict.SUCCESS, Meaning.FAILED: Verdict.FAILURE}


class ProbeTask:
    """Owns when one probe asks next, and how often it was answered what, and how fast (seconds)."""

    def __init__(self, key: Key, pod: PodProbes, asking: Asking, events: Events, timer: SharedTimer) -> None:
        self._key = key
        self._answers: Counter[str] = Counter()
        self._durations = Distribution()
        self._pod = pod
        self._asking = asking
        self._events = events
        self._timer = timer
        self._next = -math.inf
        self._asked: tuple[str, str] = ("", "")
        self._question: Question | None = None
        self._failure_log = FailureLog()

    async def run(self) -> None:
        """Probe until there will be nothing to ask any more, or cancelled."""
        kind, _ = self._key
        while kind is ProbeKind.READINESS or not self._pod.is_ending:
            with Barrier(self._say_bug) as barrier:
                await self._take_turn()
            if barrier.fault is not None:
                await trio.sleep(PAUSE_SECONDS)

    async def _take_turn(self) -> None:
        """Wait until the next question is due, and ask it; or until there is news."""
        subject = self._pod.turn_of(self._key)
        if subject is not None and subject.container_id != self._asked[0]:
            self._next = -math.inf
        due = math.inf if subject is None else max(subject.first_due, self._next)
        woken = self._pod.woken_by_news(self._key)
        if subject is not None:
            self._timer.wake_at(due, woken)
        await woken.wait()
        # The news may be that there is another to ask, or nobody.
        if subject is not None and trio.current_time() >= due and self._pod.turn_of(self._key) is subject:
            await self._ask(subject, due)

    def figures(self) -> ProbeFigures:
        """What it was answered so far."""
        kind, container = self._key
        meta = self._pod.pod.metadata
        return ProbeFigures(meta.namespace, meta.name, meta.uid, container, kind.value, self._answers, self._durations)

    async def _ask(self, subject: Subject, due: float) -> None:
        now, period = trio.current_time(), period_seconds(subject.probe)
        self._next = (due if now < due + period else now) + period
        answer = await self._guarded(subject)
        self._durations.add(trio.current_time() - now)
        self._answers[answer.meaning.value] += 1
        self._tell(subject, answer)
        if answer.meaning is not Meaning.ERROR:
            self._pod.hear(self._key, subject.container_id, _SAYS[answer.meaning])

    async def _guarded(self, subject: Subject) -> Answer:
        with Barrier(self._say_bug) as barrier:
            try:
                return await self._asking.answer(self._question_to(subject))
            except HandlerInvalid as error:
                return Answer(Meaning.ERROR, str(error))
        return Answer(Meaning.ERROR, message_of(barrier.fault))

    def _say_bug(self, bug: Exception) -> None:
        if self._failure_log.may_log(type(bug).__name__):
            log.error("Pod %s: a bug in its probe; the next answer will count", object_ref(self._pod.pod), exc_info=bug)

    def _question_to(self, subject: Subject) -> Question:
        """The question, recreated only for another container or address. Raises HandlerInvalid."""
        asked = (subject.container_id, self._pod.address)
        if self._question is None or asked != self._asked:
            self._asked = asked
            self._question = None
            self._question = self._asking.question(subject.probe, subject.container, *asked)
        return self._question

    def _tell(self, subject: Subject, answer: Answer) -> None:
        """An event for what is not well."""
        if answer.meaning is Meaning.WELL:
            return
        words = self._key[0].value
        about = object_ref(self._pod.pod, subject.container.name)
        match answer.meaning:
            case Meaning.REMARKABLE:
                self._events.record(about, "Warning", "ProbeWarning", f"{words} probe warning: {answer.text}")
            case Meaning.FAILED:
                self._events.record(about, "Warning", "Unhealthy", f"{words} probe failed: {answer.text}")
            case _:
                message = f"{words} probe errored and resulted in unknown state: {answer.text}"
                self._events.record(about, "Warning", "Unhealthy", message)
