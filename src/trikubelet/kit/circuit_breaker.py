"""A circuit breaker for a server: when requests may be sent again after a failure, and how many at once.

Many independent tasks send requests to one server. If each of them backed off by itself, they would return as a
thundering herd, and none would learn from the others' results. So the owner of such requests uses one CircuitBreaker:
the first failure blocks all of them, after a growing pause one may try, and its success unblocks all. Synchronous; the
caller waits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from trikubelet.kit.backoff import Backoff


class CircuitBreaker:
    """Owns the health of one server, and the time of the next allowed request."""

    def __init__(self, backoff: Backoff, requests_max: int) -> None:
        """``requests_max``: the number of concurrent requests to a healthy server."""
        self._backoff = backoff
        self._requests_max = requests_max
        self._is_answering = True
        self._blocked_until = -math.inf

    @property
    def is_answering(self) -> bool:
        """True if the last known state of the server is that it answers."""
        return self._is_answering

    @property
    def requests_max(self) -> int:
        """The number of concurrent requests: one, while it is unknown if the server will answer."""
        return self._requests_max if self._is_answering else 1

    @property
    def blocked_until(self) -> float:
        """No request may be sent before this time (Trio's clock, seconds)."""
        return self._blocked_until

    def failed(self, after_seconds: float = 0.0) -> None:
        """Record a failed request; ``after_seconds``: the pause that the server asked for, bounded by the caller.
        Failures of requests that were sent before the block are ignored."""
        now = trio.current_time()
        self._is_answering = False
        if now >= self._blocked_until:
            self._blocked_until = now + max(self._backoff.next_seconds(), after_seconds)

    def answered(self) -> None:
        """Record an answer, also a rejection."""
        self._is_answering = True
        self._blocked_until = -math.inf
        self._backoff.reset()

    def __repr__(self) -> str:
        return (
            "<CircuitBreaker: answering>"
            if self._is_answering
            else f"<CircuitBreaker: blocked until {self._blocked_until:.1f}>"
        )
