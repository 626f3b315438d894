"""A gate before a server (a circuit breaker): when it may be asked again after it failed, and by how many.

Many things are asked of one server, each with a life of its own. When it fails, each of them backing off by itself is a
thundering herd that comes back at the same time, and none of them knows what the others have learnt. So whoever owns
such a stream of questions puts one Gate before it: the first failure shuts it for all of them, after a growing pause
one may try, and its success opens it again. Synchronous; the caller waits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from trikubelet.kit.backoff import Backoff


class Gate:
    """Owns whether one server was found failing, and when it may be asked again."""

    def __init__(self, backoff: Backoff, asks_max: int) -> None:
        """``asks_max``: how many may ask at the same time when all is well."""
        self._backoff = backoff
        self._asks_max = asks_max
        self._is_open = True
        self._shut_until = -math.inf

    @property
    def is_open(self) -> bool:
        """Whether the last that is known of the server is that it answers."""
        return self._is_open

    @property
    def asks_max(self) -> int:
        """How many may ask at the same time: one, while nobody knows whether it will answer."""
        return self._asks_max if self._is_open else 1

    @property
    def shut_until(self) -> float:
        """Nobody may ask before (Trio's clock, seconds)."""
        return self._shut_until

    def problem(self, after_seconds: float = 0.0) -> None:
        """A question failed; ``after_seconds``: the pause the server asked for, which the caller bounds. Failures of
        questions that were asked before the gate was shut say nothing new."""
        now = trio.current_time()
        self._is_open = False
        if now >= self._shut_until:
            self._shut_until = now + max(self._backoff.next_seconds(), after_seconds)

    def answered(self) -> None:
        """A question was answered, if only by a no."""
        self._is_open = True
        self._shut_until = -math.inf
        self._backoff.reset()

    def __repr__(self) -> str:
        return "<Gate open>" if self._is_open else f"<Gate shut until {self._shut_until:.1f}>"
