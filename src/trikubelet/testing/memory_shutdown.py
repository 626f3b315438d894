"""The service that shuts a machine in memory down (``ports.ShutdownManager``), and its records."""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from trikubelet.model.shutdown_times import ShutdownTimes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable


class MemoryShutdownManager:
    """Owns the state of the shutdown, and the requested delays. ``delay_seconds``: the longest delay, which settings
    raise up to ``settings_max``, 0: they cannot be written; ``away``: the service does not answer."""

    def __init__(self, delay_seconds: float = 5.0, settings_max: float = 1800.0) -> None:
        self.delay_seconds = delay_seconds
        self.settings_max = settings_max
        self.away = False
        self.is_shutting_down = False
        self.delays: set[object] = set()
        self.sessions: list[MemoryShutdownSession] = []

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[MemoryShutdownSession, None]:
        """See ``ports.ShutdownManager``."""
        await trio.lowlevel.checkpoint()
        self.confirm_there()
        session = MemoryShutdownSession(self)
        self.sessions.append(session)
        try:
            yield session
        finally:
            self.sessions.remove(session)

    def announce(self, is_shutting_down: bool) -> None:
        """Announce a shutdown, or its cancellation."""
        self.is_shutting_down = is_shutting_down
        for session in self.sessions:
            session.put(is_shutting_down)

    def go_away(self) -> None:
        """Break every session, and allow no new one until ``away`` is False."""
        self.away = True
        for session in self.sessions:
            session.put(None)

    def confirm_there(self) -> None:
        """Raises OSError if the service does not answer."""
        if self.away:
            raise ConnectionError("the service does not answer")

    def __repr__(self) -> str:
        return f"<MemoryShutdownManager: {len(self.delays)} delays>"


class MemoryShutdownSession:
    """Owns the announcements since it began; None: it has broken."""

    def __init__(self, manager: MemoryShutdownManager) -> None:
        self._manager = manager
        self._announced: deque[bool | None] = deque()
        self._put = trio.lowlevel.ParkingLot()

    def put(self, announced: bool | None) -> None:
        """Queue an announcement."""
        self._announced.append(announced)
        self._put.unpark_all()

    async def delay_seconds(self) -> float:
        """See ``ports.ShutdownSession``; so for all below."""
        await self._ask()
        return self._manager.delay_seconds

    async def allow_delay(self, seconds: float) -> None:
        await self._ask()
        if self._manager.settings_max == 0:
            raise OSError("its settings cannot be written")
        self._manager.delay_seconds = min(seconds, self._manager.settings_max)

    async def inhibit(self) -> Callable[[], None]:
        await self._ask()
        if self._manager.is_shutting_down:
            raise OSError("the machine goes down already")
        delay = object()
        self._manager.delays.add(delay)
        return lambda: self._manager.delays.remove(delay)

    async def is_shutting_down(self) -> bool:
        await self._ask()
        return self._manager.is_shutting_down

    async def next(self) -> bool:
        await trio.lowlevel.checkpoint()
        while not self._announced:
            await self._put.park()
        announced = self._announced.popleft()
        if announced is None:
            raise ConnectionError("the session has ended")
        return announced

    async def _ask(self) -> None:
        await trio.lowlevel.checkpoint()
        self._manager.confirm_there()

    def __repr__(self) -> str:
        return f"<MemoryShutdownSession, {len(self._announced)} announced>"


class MemoryShutdownRecords:
    """Owns the last written times."""

    def __init__(self) -> None:
        self.times = ShutdownTimes()

    async def read(self) -> ShutdownTimes:
        """See ``ports.ShutdownRecords``; so for all below."""
        await trio.lowlevel.checkpoint()
        return self.times

    async def write(self, times: ShutdownTimes) -> None:
        await trio.lowlevel.checkpoint()
        self.times = times

    def __repr__(self) -> str:
        return f"<MemoryShutdownRecords: {self.times}>"
