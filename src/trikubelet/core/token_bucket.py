"""A token bucket: a burst, then a steady rate. Times are seconds of any clock of the caller's; a clock that is set back
neither adds nor removes tokens."""

from __future__ import annotations


class TokenBucket:
    """Owns the number of tokens; negative if some were taken in advance."""

    __slots__ = ("_at", "_burst", "_per_second", "_tokens")

    def __init__(self, burst: int, per_second: float, now_seconds: float) -> None:
        assert burst >= 1
        assert per_second > 0
        self._burst = burst
        self._per_second = per_second
        self._tokens = float(burst)
        self._at = now_seconds

    def take(self, now_seconds: float) -> bool:
        """Take a token. False if there is none."""
        self._refill(now_seconds)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def take_in_advance(self, now_seconds: float) -> float:
        """Take a token that may not be there yet, and return the seconds until it is."""
        self._refill(now_seconds)
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._per_second)

    def _refill(self, now_seconds: float) -> None:
        elapsed = max(0.0, now_seconds - self._at)
        self._tokens = min(float(self._burst), self._tokens + elapsed * self._per_second)
        self._at = now_seconds
