"""Decides about one resize: never, now, after others have made room, or later; notes and reports the decision.

    infeasible_reason ─► infeasible;  evaluation ─► granted: allocated │ deferred, maybe until pods have ended

``pods.resizes`` chooses the resizes and their order, and calls this; a resize is evaluated like a new pod
(``pods.evaluation``).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from trikubelet.core.admission import Admitted
from trikubelet.core.names import object_ref
from trikubelet.core.resize import messages
from trikubelet.core.resize.verdicts import DEFERRED, INFEASIBLE, Pending, infeasible_reason

if TYPE_CHECKING:
    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.resize.verdicts import Waiting
    from trikubelet.pods.allocations import Allocations
    from trikubelet.pods.evaluation import Evaluation
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.resize_notes import ResizeNotes
    from trikubelet.ports import Events

log = logging.getLogger(__name__)

NOT_YET: Final = "the node has not decided about it since its agent began"
MAKES_ROOM: Final = "it waits for pods that are ended to make room for it"


class ResizeDecisions:
    """Decides about resizes. Owns no state."""

    def __init__(
        self,
        *,
        evaluation: Evaluation,
        allocations: Allocations,
        notes: ResizeNotes,
        facts: NodeFacts,
        events: Events,
        figures: PodFigures,
    ) -> None:
        self._evaluation = evaluation
        self._allocations = allocations
        self._notes = notes
        self._facts = facts
        self._events = events
        self._figures = figures

    def decide(self, one: Waiting) -> bool:
        """Decide about one pod's resize; True if it still waits. It waits if it is not granted but may be later: an
        infeasible one can only wait for another spec. Never blocks."""
        pod, uid = one.pod, one.pod.metadata.uid
        generation = pod.metadata.generation or 0
        if one.allocated is pod:
            self._notes.note_taken_back(pod)
            self._notes.forget(uid)
        elif infeasible := infeasible_reason(pod, one.allocated, self._facts):
            self._figures.resizes_infeasible[infeasible.detail] += 1
            self.wait(one, Pending(INFEASIBLE, infeasible.message, generation))
        else:
            match self._evaluation.evaluate(pod):
                case Admitted(preempts=()):
                    return not self._grant(one)
                case Admitted() as admitted:
                    self._evaluation.make_room(pod, admitted)
                    self.wait(one, Pending(DEFERRED, MAKES_ROOM, generation))
                case why:
                    self.wait(one, Pending(DEFERRED, why.message, generation))
            return True
        return False

    def _grant(self, one: Waiting) -> bool:
        """Grant the resize; True if that could be written."""
        pod = one.pod
        try:
            self._allocations.allocate(pod)
        except OSError as error:
            generation = pod.metadata.generation or 0
            self.wait(one, Pending(DEFERRED, f"cannot write the allocation: {error}", generation))
            return False
        self._notes.note_granted(pod)
        log.info("Pod %s: its resize is granted", object_ref(pod))
        message = messages.event_message("started", pod, pod.metadata.generation or 0)
        self._events.record(object_ref(pod), "Normal", messages.STARTED, message)
        return True

    def wait(self, one: Waiting, pending: Pending) -> None:
        """Note why the pod's resize is not granted, and report it unless that was done."""
        pod, uid = one.pod, one.pod.metadata.uid
        before = self._notes.pending(uid)
        self._notes.note_pending(uid, pending)
        was_said = (
            before is not None and before.message != NOT_YET and before._replace(message=pending.message) == pending
        )
        if was_said:
            return  # the amounts in a message change with every pod that starts or ends
        log.info("Pod %s: its resize is %s: %s", object_ref(pod), pending.reason, pending.message)
        event = messages.INFEASIBLE if pending.reason == INFEASIBLE else messages.DEFERRED
        message = messages.event_message(pending.reason, pod, pending.generation, pending.message)
        self._events.record(object_ref(pod), "Warning", event, message)
