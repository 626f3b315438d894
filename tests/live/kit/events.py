"""What containerd itself says happened: its event stream, kept as a list a test can wait on and count in.

Used by tests that must prove a negative, such as "no container was started or ended while the agent was killed": the
stream is the runtime's own record and owes nothing to the agent. It ends when containerd does; open another then.
"""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from .heard import Heard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HEARD_SECONDS_MAX = 60.0
_SPEAK_AGAIN_SECONDS = 0.1


@dataclass(frozen=True)
class Event:
    """One event. ``topic`` is containerd's, as ``/tasks/start``; ``container`` is empty when it concerns none. ``when``
    it was told by whoever saw it first, a shim or containerd, in seconds since the epoch."""

    topic: str
    container: str
    when: float
    fields: dict[str, Any]


class EventLog(Heard):
    """Owns the events that came since it was entered. Use as a context manager.

    ``command`` prints the events; ``speak`` causes one, and is called on entry until one is heard, because nothing else
    tells when a subscription holds. Entering it raises TimeoutError, naming the command, when none is.
    """

    def __init__(self, command: Sequence[str], speak: Callable[[], None]) -> None:
        super().__init__(command)
        self._speak = speak
        self._events: list[Event] = []

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._hear_one()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _hear_one(self) -> None:
        deadline = time.monotonic() + HEARD_SECONDS_MAX
        self._speak()
        while why := self.why_not(lambda: bool(self._events), _SPEAK_AGAIN_SECONDS):
            if self.ended or time.monotonic() > deadline:
                why = why if self.ended else f"not after {HEARD_SECONDS_MAX:g} s"
                raise TimeoutError(f"no event was heard from {shlex.join(self._command)}: {why}")
            self._speak()

    @property
    def all(self) -> tuple[Event, ...]:
        """Every event so far, in the order they came."""
        with self.news:
            return tuple(self._events)

    def of(self, topic: str, container: str | None = None) -> list[Event]:
        """The events of one topic so far, of one container or of all."""
        return [event for event in self.all if event.topic == topic and container in (None, event.container)]

    def wait_for(self, topic: str, container: str | None = None, count: int = 1, seconds: float = 60) -> list[Event]:
        """Waits until ``count`` such events came and returns them. Raises TimeoutError, its message with all events."""
        self.wait_until(lambda: len(self.of(topic, container)) >= count, f"{count} {topic} of {container}", seconds)
        return self.of(topic, container)

    def wait_until(self, satisfied: Callable[[], bool], what: str, seconds: float = 60) -> None:
        """Waits until ``satisfied``, asked after every event. Raises TimeoutError naming ``what`` did not come."""
        if why := self.why_not(satisfied, seconds):
            topics = "\n".join(f"{event.topic} {event.container[:12]}" for event in self.all)
            raise TimeoutError(f"{what}: {why}\n{topics}")

    def take(self, line: str) -> None:
        """See ``Heard``."""
        if event := parse(line):
            self._events.append(event)


def parse(line: str) -> Event | None:
    """One line of ``ctr events``: a time in five words, the namespace, the topic, the fields as JSON. None for a line
    that is no event."""
    start = line.find("{")
    head = line[: start if start >= 0 else None].split()
    topic = next((word for word in head if word.startswith("/")), "")
    if not topic:
        return None
    fields = json.loads(line[start:]) if start >= 0 else {}
    container = fields.get("container_id") or (fields.get("id", "") if topic.startswith("/containers/") else "")
    # Go writes nanoseconds, less their last zeros; Python reads microseconds at most.
    moment = datetime.strptime(f"{head[0]} {head[1][:8]} {head[2]}", "%Y-%m-%d %H:%M:%S %z")
    return Event(topic, container, moment.timestamp() + float(f"0{head[1][8:]}"), fields)
