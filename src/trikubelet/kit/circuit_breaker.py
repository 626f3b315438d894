"""A circuit breaker before a server: when it may be asked again after it failed, and by how many.

Many things are asked of one server, each with a life of its own. When it fails, each of them backing off by itself is a
thundering herd that comes back at the same time, and none of them knows what the others have learnt. So the owner of
such a stream of questions puts one CircuitBreaker before it: the first failure blocks all of them, after a growing
pause one may try, and its success lets all through again. Synchronous; the caller waits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from trikubelet.kit.backoff import Backoff


class CircuitBreaker:
    """Owns whether one server was found failing, and when it may be asked again."""

    def __init__(self, backoff: Backoff, requests_max: int) -> None:
        """``requests_max``: how many may ask at the same time when all is well."""
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
        """A question failed; ``after_seconds``: the pause the server asked for, which the caller bounds. Failures of
        questions that were asked before requests were blocked say nothing new."""
        now = trio.current_time()
        self._is_answering = False
        if now >= self._blocked_until:
            self._blocked_until = now + max(self._backoff.next_seconds(), after_seconds)

    def answered(self) -> None:
        """A question was answered, if only by a no."""
        self._is_answering = True
        self._blocked_until = -math.inf
        self._backoff.reset()

    def __repr__(self) -> str:
        return (
            "<CircuitBreaker: answering>"
            if self._is_answering
            else f"<CircuitBreaker: blocked until {self._blocked_until:.1f}>"
        )
