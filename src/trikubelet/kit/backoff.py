"""Delays between attempts: exponential, capped, with jitter from a seeded source.

One object per operation; ``next_seconds`` returns the delay to wait now, ``reset`` records a success. Jitter lengthens
a delay by up to its share and never shortens it, so a bound on the rate of attempts holds.
"""

from __future__ import annotations

import random


class Backoff:
    """Owns the delay before the next attempt of one operation."""

    def __init__(
        self,
        first_seconds: float,
        seconds_max: float,
        *,
        factor: float = 2.0,
        jitter: float = 0.0,
        chance: random.Random | None = None,
    ) -> None:
        assert 0 < first_seconds <= seconds_max
        assert factor >= 1.0
        self._first_seconds = first_seconds
        self._seconds_max = seconds_max
        self._factor = factor
        self._jitter = jitter
        self._chance = chance or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._next_seconds = first_seconds

    def next_seconds(self) -> float:
        """Return the delay before the next attempt; the following one is longer."""
        delay = self._next_seconds
        self._next_seconds = min(delay * self._factor, self._seconds_max)
        return delay * (1.0 + self._jitter * self._chance.random())

    def reset(self) -> None:
        """Record a success: the next delay is the first one again."""
        self._next_seconds = self._first_seconds

    def __repr__(self) -> str:
        return f"<Backoff next {self._next_seconds:g}s, at most {self._seconds_max:g}s>"
