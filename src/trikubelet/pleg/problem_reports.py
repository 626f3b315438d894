"""Reports failing lists and pods that cannot be inspected, in the log and in events of the pods.

Both are retried every second, perhaps for days and for thousands of pods. So each kind of list failure is logged once,
whatever its position in the reply, until a list succeeds. Pods are named once when their inspection begins to fail and
once when it works again, in at most one line a second. A pod that hangs or fails for ``hung_seconds`` gets an event,
which is where its user looks first. If very many pods fail, the runtime is the cause, and the node reports it.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

from trikubelet.model.objects import ObjectRef
from trikubelet.pleg.health import NAMED_MAX, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.pleg_pod import UninspectedPod
    from trikubelet.ports import Events

log = logging.getLogger(__name__)

EVENTS_MAX: Final = 20
"""Failing pods that get an event."""
KINDS_MAX: Final = 20
"""Kinds of list failures that are logged until a list succeeds: a runtime may return endlessly varying texts."""
_PLACE: Final = re.compile(r"\bid .* stands|\d+", re.DOTALL)
"""The parts that differ between two texts of the same failure: runtimes list in a random order."""
REMEDY: Final = "their status is stale; check the container runtime (crictl inspectp, its log)"


class ProblemReports:
    """Owns the reported failures of lists and pods. ``events``: records the pods' events, if given; ``hung_seconds``:
    the delay before an event."""

    def __init__(self, events: Events | None, hung_seconds: float) -> None:
        self._events = events
        self._hung_seconds = hung_seconds
        self._kinds: set[str] = set()
        self._named: dict[str, UninspectedPod] = {}
        self._with_event: set[str] = set()

    def list_failed(self, text: str) -> None:
        """Report a failed full list and its reason."""
        kind = _PLACE.sub("", text)
        if kind not in self._kinds and len(self._kinds) < KINDS_MAX:
            self._kinds.add(kind)
            log.warning("Relist failed: %s", text)

    def listed(self) -> None:
        """Record a successful full list, after which each kind of failure is logged again."""
        self._kinds.clear()

    def look(self, now: float, late: Sequence[UninspectedPod]) -> None:
        """Report the pods that cannot be inspected at this time (Trio's clock); ``late`` contains all of them."""
        if not late and not self._named:
            return
        before, self._named = self._named, {one.uid: one for one in late}
        new = [one for one in late if one.uid not in before]
        if new:
            log.warning("Cannot inspect %s: %s", named(now, new), REMEDY)
        back = [one for uid, one in before.items() if uid not in self._named]
        if back:
            names = ", ".join(f"{one.namespace}/{one.name}" for one in back[:NAMED_MAX])
            more = f" and {len(back) - NAMED_MAX} more" if len(back) > NAMED_MAX else ""
            log.info("Inspection works again, or the pod is gone: %s%s", names, more)
        self._with_event &= self._named.keys()
        for one in late:
            if now - one.since > self._hung_seconds and one.uid not in self._with_event:
                self._give_event(one)

    def _give_event(self, one: UninspectedPod) -> None:
        if self._events is None or len(self._with_event) >= EVENTS_MAX:
            return
        self._with_event.add(one.uid)
        about = ObjectRef("Pod", one.name, one.namespace, one.uid)
        message = f"The container runtime does not report the state of the pod ({one.why}); its status is stale"
        self._events.record(about, "Warning", "NotInspected", message)
