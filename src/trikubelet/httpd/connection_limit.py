"""Who is connected to a server, and who makes room when it is full.

    comes ─► waits ─► asks ─► waits ─► …
              ▲  └ full, another comes, and this one is idle and unauthenticated for longest: it goes
              └ no room, for none is idle and unauthenticated: turned away

A connection is *unauthenticated* while it got nothing but refusals. Whoever reaches a port can make a thousand of
those, at no cost; that must not keep out who may ask. One that asks something at once is never the longest idle one.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

import trio

from trikubelet.kit.log_rate_limit import LogRateLimit

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger(__name__)


class ConnectionSlot:
    """Owns whether one connection is unauthenticated, and whether it is idle now."""

    def __init__(self, idle: dict[ConnectionSlot, None] | None = None) -> None:
        """``idle``: the unauthenticated connections that are, longest first."""
        self._idle = {} if idle is None else idle
        self.is_unauthenticated = True
        self.scope = trio.CancelScope()
        """Cancelled where the connection has to make room."""
        self.waits()

    def waits(self) -> None:
        """It has nothing to wait for from us; it is to ask something."""
        if self.is_unauthenticated:
            self._idle[self] = None

    def asks(self) -> None:
        """A whole request of it has come, or it has left."""
        self._idle.pop(self, None)

    def was_answered(self, status: int) -> None:
        """Who was given anything is authenticated."""
        self.is_unauthenticated &= status >= HTTPStatus.BAD_REQUEST


class ConnectionLimit:
    """Owns who is connected. ``made_room``: how many idle ones had to go; ``turned_away``: how many found no room."""

    def __init__(self, what: str, connections_max: int) -> None:
        """``what``: is being served, for the log."""
        self._what = what
        self._connections_max = connections_max
        self._held: set[ConnectionSlot] = set()
        self._idle: dict[ConnectionSlot, None] = {}
        self._full_warning = LogRateLimit()
        self.made_room = 0
        self.turned_away = 0

    def __len__(self) -> int:
        """How many are connected."""
        return len(self._held)

    @contextmanager
    def slot(self) -> Iterator[ConnectionSlot | None]:
        """A slot for the length of the block, or None where there is no room."""
        slot = self._take_slot()
        try:
            yield slot
        finally:
            if slot is not None:
                slot.asks()
                self._held.discard(slot)

    def _take_slot(self) -> ConnectionSlot | None:
        if len(self._held) >= self._connections_max:
            if self._full_warning.may_log():
                why = "%s: %d connections are as many as there may be; idle unauthenticated ones are closed for others"
                log.warning(why, self._what, self._connections_max)
            leaves = next(iter(self._idle), None)
            if leaves is None:
                self.turned_away += 1
                return None
            self.made_room += 1
            leaves.asks()  # so that it is idle no more and is not chosen twice
            leaves.scope.cancel()
            self._held.remove(leaves)
        slot = ConnectionSlot(self._idle)
        self._held.add(slot)
        return slot

    def __repr__(self) -> str:
        return f"<ConnectionLimit of {self._what}: {len(self)} connected, {len(self._idle)} idle and unauthenticated>"
