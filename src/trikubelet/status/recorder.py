"""The event recorder: the newest events of this node, merged when they repeat.

A repeated event about the same object is one event with a count, as on an API server. The store is bounded: the event
that was last seen longest ago is dropped, and dropped events are counted.
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
"""Normal events that every container has. (BackOff of a crashing one is a warning.)"""


class Event(Frozen):
    """An event about an object, with its count, and when it was first and last seen (nanoseconds since the epoch)."""

    about: ObjectRef
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    first_seen: int
    last_seen: int
    count: int = 1


class EventRecorder:
    """Owns the events of this node (``ports.Events``). ``recorded``: is called for each new or repeated event."""

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
        """Record an event. Never blocks."""
        now = self._clock.now_ns()
        key = (about, reason, message)
        held = self._events.pop(key, None)
        if held is None:
            # A container's steps have log lines of their own: started, stopped, pulled if that took long.
            is_routine = type_ == "Normal" and reason in _ROUTINE
            log.log(level(2 if is_routine else 0), "Event %s %s: %s: %s", about.kind.lower(), about, reason, message)
            held = Event(about, type_, reason, message, now, now, 0)
        self._events[key] = replace(held, last_seen=now, count=held.count + 1)
        while len(self._events) > self._events_kept_max:
            del self._events[next(iter(self._events))]
            self._dropped += 1
        self.recorded.notify(about, type_, reason, message, annotations or {})

    def all(self) -> tuple[Event, ...]:
        """Return every stored event, least recently seen first."""
        return tuple(self._events.values())

    def about(self, uid: str) -> tuple[Event, ...]:
        """Return the events of one object."""
        return tuple(event for event in self._events.values() if event.about.uid == uid)

    def __repr__(self) -> str:
        return f"<EventRecorder {len(self._events)} events, {self._dropped} dropped>"
