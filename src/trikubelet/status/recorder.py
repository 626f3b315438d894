"""The event recorder: the newest events of this node, merged when they repeat.

The same event about the same object is one event with a count, as an API server would show it. The store is bounded by
dropping the event that was last seen longest ago; what was dropped is counted.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from trikubelet.kit.klog import level
from trikubelet.kit.listeners import Listeners
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.objects import ObjectRef
    from trikubelet.ports import Clock

    Type = Literal["Normal", "Warning"]

log = logging.getLogger(__name__)

_ROUTINE: Final = frozenset({"BackOff", "Created", "Killing", "Pulled", "Pulling", "Started"})
"""Normal events that every container has. (A crashing one's BackOff is a warning.)"""


class Event(Frozen):
    """What happened to an object, how often, and when first and last (nanoseconds since the epoch)."""

    about: ObjectRef
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    first_seen: int
    last_seen: int
    count: int = 1


class EventRecorder:
    """Owns the events of this node (``ports.Events``). ``recorded``: one was, however often before."""

    def __init__(self, clock: Clock, events_kept_max: int) -> None:
        self._clock = clock
        self._events_kept_max = events_kept_max
        self._events: dict[tuple[ObjectRef, str, str], Event] = {}
        self._dropped = 0
        self.recorded: Final[Listeners[ObjectRef, Type, str, str, Mapping[str, str]]] = Listeners("an event")

    def record(
        self,
        about: ObjectRef,
        type_: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Remember an event. Never blocks."""
        now = self._clock.now_ns()
        key = (about, reason, message)
        held = self._events.pop(key, None)
        if held is None:
            # A container's way has lines of its own in the log: started, stopped, pulled where that took long.
            is_routine = type_ == "Normal" and reason in _ROUTINE
            log.log(level(2 if is_routine else 0), "Event %s %s: %s: %s", about.kind.lower(), about, reason, message)
            held = Event(about, type_, reason, message, now, now, 0)
        self._events[key] = replace(held, last_seen=now, count=held.count + 1)
        while len(self._events) > self._events_kept_max:
            del self._events[next(iter(self._events))]
            self._dropped += 1
        self.recorded.notify(about, type_, reason, message, annotations or {})

    def all(self) -> tuple[Event, ...]:
        """Every event that is remembered, last seen longest ago first."""
        return tuple(self._events.values())

    def about(self, uid: str) -> tuple[Event, ...]:
        """The events of one object."""
        return tuple(event for event in self._events.values() if event.about.uid == uid)

    def __repr__(self) -> str:
        return f"<EventRecorder {len(self._events)} events, {self._dropped} dropped>"
