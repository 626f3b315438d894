"""The connections of a server, and which of them is closed when it is full.

    comes ─► waits ─► asks ─► admitted ─► waits ─► …
             └────────┬────┘ unauthenticated
                      └ full, and another comes: of the network that has most of these the oldest goes
                        └ there are none: turned away

A connection is *unauthenticated* while it got nothing but refusals. Every client that reaches a port can make a
thousand of those, at no cost; that must not lock out authenticated ones. Where a server wants a proof, to ask something
is none: a token may be made up, and it takes as long as the API server likes to find that out. So there only the
handler's word counts (``messages.Request.admit``).

The one that goes is not the silent one: a newcomer is silent as long as its handshake takes, and all the others may be
asking. It is the oldest one of the network that has most, whatever it did: so a newcomer has as long as it takes for a
whole server to be filled again, and a client that comes again as soon as it was closed closes its own.

A refusal costs us little, but a thousand clients that ask again at once keep the loop busy, and a newcomer would wait
for all of them at each of its turns. So where many are unauthenticated each of them
has to wait before it may ask again.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.httpd.client_network import UNKNOWN
from trikubelet.kit.fair_queue import FairQueue
from trikubelet.kit.log_rate_limit import LogRateLimit

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger(__name__)


PAUSE_SECONDS: Final = 2.0
"""A thousand that ask as soon as they may took an eighth of a processor with it, and nearly all of it without."""
CALM_SHARE: Final = 8
"""Up to one part in so many of its connections a server lets be unauthenticated without a pause."""


class ConnectionSlot:
    """Owns whether one connection is unauthenticated, and whether it may be closed for others now."""

    def __init__(
        self,
        queue: FairQueue[ConnectionSlot] | None = None,
        network: str = UNKNOWN,
        *,
        needs_proof: bool = False,
        calm_max: int = 0,
    ) -> None:
        """``queue``: those that may be closed, by networks; ``calm_max``: with no more of them, none has to pause."""
        self._calm_max = calm_max
        self._queue: FairQueue[ConnectionSlot] = FairQueue() if queue is None else queue
        self._needs_proof = needs_proof
        self.network = network
        self.is_unauthenticated = True
        self.scope = trio.CancelScope()
        """Cancelled where the connection has to make room."""
        self.waits()

    def waits(self) -> None:
        """It was answered, and is to ask something."""
        if self.is_unauthenticated and not self.scope.cancel_called:
            self._queue.add(self.network, self)

    @property
    def pause_seconds(self) -> float:
        """Return how long it has to wait before its next request is read."""
        is_crowd = self._needs_proof and len(self._queue) > self._calm_max
        return PAUSE_SECONDS if self.is_unauthenticated and is_crowd else 0

    def asks(self) -> None:
        """A whole request of it has come."""
        if not self._needs_proof:
            self.leaves()

    def admit(self, *, for_good: bool) -> None:
        """Keep the client from being closed for others until its answer has ended; ``for_good``: also after that."""
        self.leaves()
        self.is_unauthenticated &= not for_good

    def leaves(self) -> None:
        """From now on it is never closed for another: for now, or because it has ended."""
        self._queue.discard(self.network, self)

    def was_answered(self, status: int) -> None:
        """A client that got any answer is authenticated, unless the server wants another proof."""
        self.is_unauthenticated &= self._needs_proof or status >= HTTPStatus.BAD_REQUEST


class ConnectionLimit:
    """Owns who is connected. ``made_room``: how many unauthenticated ones had to go; ``turned_away``: how many found no
    room."""

    def __init__(self, what: str, connections_max: int, *, needs_proof: bool = False) -> None:
        """``what``: is being served, for the log. ``needs_proof``: the handler reports which clients it admits."""
        self._what = what
        self._connections_max = connections_max
        self._needs_proof = needs_proof
        self._held: set[ConnectionSlot] = set()
        self._queue: FairQueue[ConnectionSlot] = FairQueue()
        self._full_warning = LogRateLimit()
        self.made_room = 0
        self.turned_away = 0

    def __len__(self) -> int:
        """The number of connections."""
        return len(self._held)

    @contextmanager
    def slot(self, network: str = UNKNOWN) -> Iterator[ConnectionSlot | None]:
        """A slot for the length of the block, or None where there is no room. ``network``: see
        ``httpd.client_network``."""
        slot = self._take_slot(network)
        try:
            yield slot
        finally:
            if slot is not None:
                slot.leaves()
                self._held.discard(slot)

    def _take_slot(self, network: str) -> ConnectionSlot | None:
        if len(self._held) >= self._connections_max:
            if self._full_warning.may_log():
                why = "%s: %d connections are as many as there may be; unauthenticated ones are closed for others"
                log.warning(why, self._what, self._connections_max)
            leaves = self._queue.of_the_largest()
            if leaves is None:
                self.turned_away += 1
                return None
            self.made_room += 1
            leaves.scope.cancel()
            self._held.remove(leaves)
        calm_max = self._connections_max // CALM_SHARE
        slot = ConnectionSlot(self._queue, network, needs_proof=self._needs_proof, calm_max=calm_max)
        self._held.add(slot)
        return slot

    def __repr__(self) -> str:
        return f"<ConnectionLimit of {self._what}: {len(self)} connected, {len(self._queue)} may be closed>"
