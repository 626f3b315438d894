"""What containerd itself says happened: its event stream, kept as a list a test can wait on and count in.

Used by tests that must prove a negative, such as "no container was started or ended while the agent was killed": the
stream is the runtime's own record and owes nothing to the agent. It ends when containerd does; open another then.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType


@dataclass(frozen=True)
class Event:
    """One event. ``topic`` is containerd's, as ``/tasks/start``; ``container`` is empty when it concerns none."""

    topic: str
    container: str
    fields: dict[str, Any]


class EventLog:
    """Owns the events that came since it was entered. Use as a context manager; the reader is a thread of its own.

    ``command`` prints the events; ``speak`` causes one, and is called on entry until one is heard, because nothing else
    tells when a subscription holds.
    """

    def __init__(self, command: Sequence[str], speak: Callable[[], None]) -> None:
        self._command = command
        self._speak = speak
        self._events: list[Event] = []
        self._news = threading.Condition()
        self._ended = False

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        self._reader = threading.Thread(target=self._read, name="containerd events", daemon=True)
        self._reader.start()
        while not self.all and not self._ended:
            self._speak()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(timeout=10)
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def all(self) -> tuple[Event, ...]:
        """Every event so far, in the order they came."""
        with self._news:
            return tuple(self._events)

    @property
    def ended(self) -> bool:
        """Whether containerd closed the stream."""
        return self._ended

    def of(self, topic: str, container: str | None = None) -> list[Event]:
        """The events of one topic so far, of one container or of all."""
        return [event for event in self.all if event.topic == topic and container in (None, event.container)]

    def wait_for(self, topic: str, container: str | None = None, count: int = 1, seconds: float = 30) -> list[Event]:
        """Waits until ``count`` such events came and returns them. Raises TimeoutError, its message with all events."""
        self.wait_until(lambda: len(self.of(topic, container)) >= count, f"{count} {topic} of {container}", seconds)
        return self.of(topic, container)

    def wait_until(self, satisfied: Callable[[], bool], what: str, seconds: float = 30) -> None:
        """Waits until ``satisfied``, asked anew after every event. Raises TimeoutError naming ``what`` did not come."""
        deadline = time.monotonic() + seconds
        with self._news:
            while not satisfied():
                left = deadline - time.monotonic()
                if left <= 0 or self._ended:
                    topics = "\n".join(f"{event.topic} {event.container[:12]}" for event in self._events)
                    raise TimeoutError(
                        f"{what} did not come ({'stream ended' if self._ended else 'time is up'}):\n{topics}"
                    )
                self._news.wait(left)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if event := parse(line):
                with self._news:
                    self._events.append(event)
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


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
    return Event(topic, container, fields)
