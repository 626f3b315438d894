"""Who is connected to a server, and who makes room when it is full.

    comes ─► waits ─► asks ─► waits ─► …
              ▲  └ full, another comes, and this stranger has been silent for longest: it goes
              └ no room, for nobody is a silent stranger: turned away

A *stranger* is a connection that got nothing yet but refusals. Whoever reaches a port can make a thousand of
those, at no cost; that must not keep out who may ask. One that asks something at once is never the longest silent one.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

import trio

from trikubelet.kit.seldom import Seldom

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger(__name__)


class Place:
    """Owns whether one connection is a stranger's, and whether it is silent now."""

    def __init__(self, silent: dict[Place, None] | None = None) -> None:
        """``silent``: the strangers that are, longest first."""
        self._silent = {} if silent is None else silent
        self.is_stranger = True
        self.scope = trio.CancelScope()
        """Cancelled where the connection has to make room."""
        self.waits()

    def waits(self) -> None:
        """It has nothing to wait for from us; it is to ask something."""
        if self.is_stranger:
            self._silent[self] = None

    def asks(self) -> None:
        """A whole request of it has come, or it has left."""
        self._silent.pop(self, None)

    def was_answered(self, status: int) -> None:
        """Who was given anything is known."""
        self.is_stranger &= status >= HTTPStatus.BAD_REQUEST


class Crowd:
    """Owns who is connected. ``made_room``: how many strangers had to go; ``turned_away``: how many found no room."""

    def __init__(self, what: str, connections_max: int) -> None:
        """``what``: is being served, for the log."""
        self._what = what
        self._connections_max = connections_max
        self._held: set[Place] = set()
        self._silent: dict[Place, None] = {}
        self._told = Seldom()
        self.made_room = 0
        self.turned_away = 0

    def __len__(self) -> int:
        """How many are connected."""
        return len(self._held)

    @contextmanager
    def joined(self) -> Iterator[Place | None]:
        """A place for the length of the block, or None where there is no room."""
        place = self._place()
        try:
            yield place
        finally:
            if place is not None:
                place.asks()
                self._held.discard(place)

    def _place(self) -> Place | None:
        if len(self._held) >= self._connections_max:
            if self._told.may_say():
                why = "%s: %d connections are as many as there may be; strangers that are silent are closed for others"
                log.warning(why, self._what, self._connections_max)
            leaves = next(iter(self._silent), None)
            if leaves is None:
                self.turned_away += 1
                return None
            self.made_room += 1
            leaves.asks()
            leaves.scope.cancel()
            self._held.remove(leaves)
        place = Place(self._silent)
        self._held.add(place)
        return place

    def __repr__(self) -> str:
        return f"<Crowd of {self._what}: {len(self)} connected, {len(self._silent)} silent strangers>"
