"""Reports of lists that fail and of pods that cannot be inspected: in the log, and in events of the pods.

Both are tried again every second, and may go on for days, for thousands of pods. So a list's problem is said once for
each kind of it, wherever in the reply it stands, until a list succeeds; and pods are named once, at most a line a
second, when they come out of sight and when they are back. A pod that hangs or fails for as long as an operator should
know gets an event, where a user looks first; of very many pods that is no pod's own problem, and the node reports it.
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
"""Pods out of sight that have an event."""
KINDS_MAX: Final = 20
"""Kinds of problems with lists, until one succeeds: a runtime may make its words up."""
_PLACE: Final = re.compile(r"\bid .* stands|\d+", re.DOTALL)
"""The parts that differ between two texts of the same problem: runtimes list in an order drawn again."""
REMEDY: Final = "what is shown of them is from before; see what the container runtime says (crictl inspectp, its log)"


class ProblemReports:
    """Owns what was said of lists that fail and of pods out of sight. ``events``: where these are recorded, if
    anywhere; ``hung_seconds``: after how long."""

    def __init__(self, events: Events | None, hung_seconds: float) -> None:
        self._events = events
        self._hung_seconds = hung_seconds
        self._kinds: set[str] = set()
        self._named: dict[str, UninspectedPod] = {}
        self._with_event: set[str] = set()

    def list_failed(self, text: str) -> None:
        """A list of everything failed, for that reason."""
        kind = _PLACE.sub("", text)
        if kind not in self._kinds and len(self._kinds) < KINDS_MAX:
            self._kinds.add(kind)
            log.warning("Relist failed: %s", text)

    def listed(self) -> None:
        """A list of everything succeeded."""
        self._kinds.clear()

    def look(self, now: float, late: Sequence[UninspectedPod]) -> None:
        """These pods are out of sight now (Trio's clock), and no others."""
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
            log.info("Inspected again, or gone: %s%s", names, more)
        self._with_event &= self._named.keys()
        for one in late:
            if now - one.since > self._hung_seconds and one.uid not in self._with_event:
                self._give_event(one)

    def _give_event(self, one: UninspectedPod) -> None:
        if self._events is None or len(self._with_event) >= EVENTS_MAX:
            return
        self._with_event.add(one.uid)
        about = ObjectRef("Pod", one.name, one.namespace, one.uid)
        message = (
            f"The container runtime does not report the state of the pod ({one.why}): what is shown is from before"
        )
        self._events.record(about, "Warning", "NotInspected", message)
