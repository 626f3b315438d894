"""A round of calls: many concurrent unary calls of one task, which their answers wake.

    waiting ──turn──► in progress, ``UNDER_WAY_MAX`` at a time ──answer, NotFound──► known
       ▲                  │      └─► failed: the error is raised at once, and the calls in progress are abandoned
       └─ not processed ──┘

The first relist of a node makes three calls for each pod. A task, a scope and an event for each of them would cost as
much as the calls themselves.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import trio

from trikubelet.cri.exchange import NotProcessed
from trikubelet.model.runtime_errors import NotFound, RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.cri.exchange import Exchange

UNDER_WAY_MAX: Final = 16
"""Concurrent calls of one round. A pod that has crashed for weeks may have hundreds of dead containers, and requesting
all of them at once would fill the connection: lists and other pods would wait."""

ASK_TIMES_MAX: Final = 5


class UnaryCall(NamedTuple):
    """The path of a unary method and the serialised request."""

    path: str
    request: bytes


class RoundConnection(Protocol):
    """The interface that begins calls; implemented by ``cri.channel.Channel``."""

    def begin(self, path: str, waiters: trio.lowlevel.ParkingLot) -> Exchange | None:
        """Begin a call now, which wakes the tasks in ``waiters``. Return None if it is not its turn; they are woken
        when it is."""

    def note(self, path: str, seconds: float, *, failed: bool) -> None:
        """Record the duration of a call that has ended."""

    def leave(self, waiters: trio.lowlevel.ParkingLot) -> None:
        """Remove ``waiters`` from the queue for a turn."""


class Round:
    """Owns the pending calls, those in progress, and the answers."""

    def __init__(self, connection: RoundConnection, calls: Sequence[UnaryCall]) -> None:
        self._connection = connection
        self._calls = calls
        self._waiting = deque(range(len(calls)))
        self._under_way: dict[int, Exchange] = {}
        self._asked_times = [0] * len(calls)
        self._begun = [0.0] * len(calls)
        self._answers: list[bytes | NotFound] = [b""] * len(calls)
        self._waiters = trio.lowlevel.ParkingLot()

    async def answers(self) -> list[bytes | NotFound]:
        """Return the undecoded answers in the order of the calls. Called once. Raises the first error other than
        NotFound, as soon as it occurs."""
        try:
            while self._waiting or self._under_way:
                await self._ask()
                # Sending may have waited, and answers may have come meanwhile: parking now could miss the last wake-up.
                if not self._collect():
                    await self._waiters.park()
                    self._collect()
        finally:
            self._connection.leave(self._waiters)
            for number, exchange in self._under_way.items():
                exchange.abandon()
                self._note(number, failed=True)
        return self._answers

    async def _ask(self) -> None:
        """Begin as many calls as allowed."""
        while self._waiting and len(self._under_way) < UNDER_WAY_MAX:
            number = self._waiting[0]
            exchange = self._connection.begin(self._calls[number].path, self._waiters)
            if exchange is None:
                return
            self._waiting.popleft()
            self._asked_times[number] += 1
            self._under_way[number] = exchange
            self._begun[number] = trio.current_time()
            await exchange.say(self._calls[number].request)

    def _collect(self) -> bool:
        """Take the received answers. Return True if there were any."""
        over = [number for number, exchange in self._under_way.items() if exchange.is_decided]
        for number in over:
            self._take(number, self._under_way[number])
        return bool(over)

    def _take(self, number: int, exchange: Exchange) -> None:
        path = self._calls[number].path
        try:
            self._answers[number] = exchange.sole(path)
            self._note(number, failed=False)
        except NotFound as absent:
            self._answers[number] = absent
            self._note(number, failed=True)
        except NotProcessed as refusal:
            if exchange.has_answered or self._asked_times[number] == ASK_TIMES_MAX:
                raise RuntimeUnavailable(f"{path}: {refusal}") from refusal
            self._waiting.appendleft(number)
        exchange.abandon()
        del self._under_way[number]

    def _note(self, number: int, *, failed: bool) -> None:
        self._connection.note(self._calls[number].path, trio.current_time() - self._begun[number], failed=failed)
