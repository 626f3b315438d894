"""The listeners to a runtime's events, and their queues. Each of our own runtimes has one board.

An event is only a hint. A listener that does not keep up loses the oldest events, never the newest.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

import trio

from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

EVENTS_WAITING_MAX: Final = 1000


class ShownSandbox(Protocol):
    """The interface of a runtime's sandboxes that a board needs."""

    def status(self) -> pb.PodSandboxStatus:
        """Return its ``PodSandboxStatus``."""


class ShownContainer(Protocol):
    """The interface of a runtime's containers that a board needs."""

    def status(self) -> pb.ContainerStatus:
        """Return its ``ContainerStatus``."""


class Listener:
    """Owns the pending events of one listener."""

    def __init__(self) -> None:
        self._waiting: deque[pb.ContainerEventResponse] = deque(maxlen=EVENTS_WAITING_MAX)
        self._waiters = trio.lowlevel.ParkingLot()

    def put(self, event: pb.ContainerEventResponse) -> None:
        """Add an event."""
        self._waiting.append(event)
        self._waiters.unpark()

    async def take(self) -> pb.ContainerEventResponse:
        """Wait for the oldest event and remove it."""
        await trio.lowlevel.checkpoint()
        while not self._waiting:
            await self._waiters.park()
        return self._waiting.popleft()


class EventBoard:
    """Owns the listeners."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()

    @contextmanager
    def listen(self) -> Generator[Listener]:
        """Receive all events within the block."""
        listener = Listener()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def publish(
        self,
        id_: str,
        kind: pb.ContainerEventType,
        sandbox: ShownSandbox,
        containers: Iterable[ShownContainer],
        now_ns: int,
    ) -> None:
        """Send an event about container or sandbox ``id_`` to all listeners."""
        if not self._listeners:
            return
        event = pb.ContainerEventResponse(
            container_id=id_,
            container_event_type=kind,
            created_at=now_ns,
            pod_sandbox_status=sandbox.status(),
            containers_statuses=[container.status() for container in containers],
        )
        for listener in self._listeners:
            listener.put(event)
