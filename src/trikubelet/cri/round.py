"""A round of calls: many unary calls made side by side by one task, which their answers wake.

    waiting ──turn──► under way, ``UNDER_WAY_MAX`` at a time ──answer, NotFound──► known
       ▲                  │      └─► failed: the error is raised at once, and what is under way given up
       └─ not looked at ──┘

The first relist of a node makes three calls for each pod. With a task, its scope and its places to wait for each of
them, those would cost as much as the asking.
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
"""Calls under way in one round. A pod that has crashed for weeks may have hundreds of dead containers, and asking for
all of them at once would fill the connection: lists and other pods would wait behind it."""

ASK_TIMES_MAX: Final = 5


class UnaryCall(NamedTuple):
    """The path of a unary method and the serialised request."""

    path: str
    request: bytes


class RoundConnection(Protocol):
    """Where calls begin; ``cri.channel.Channel`` is the one there is."""

    def begin(self, path: str, waiters: trio.lowlevel.ParkingLot) -> Exchange | None:
        """A call that begins now and wakes those in ``waiters``; None where it is not its turn, of which
        they are woken as well."""

    def note(self, path: str, seconds: float, *, failed: bool) -> None:
        """A call is over; so long it took."""

    def leave(self, waiters: trio.lowlevel.ParkingLot) -> None:
        """Those in ``waiters`` wait for no turn any more."""


class Round:
    """Owns which of the calls are still to be made, which are under way and what is known."""

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
        """The undecoded answers in the order of the calls; to be called once. Raises the first error that is not
        NotFound, as soon as it is there."""
        try:
            while self._waiting or self._under_way:
                await self._ask()
                # Sending all of a call may have taken its time, and answers may have come meanwhile.
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
        """Begin what may begin."""
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
        """Take what has come; whether anything had."""
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
