"""Periodic work that does not drift and does not pile up.

``async for now in Every(1.0)`` runs the body at once and then at each multiple of the period. After a body that took
longer than a period the next pass follows at once; missed passes are skipped. An iterator class rather than an async
generator, so that leaving the loop needs no finalizer.
"""

from __future__ import annotations

import trio


class Every:
    """Owns the time of the next pass of one loop."""

    def __init__(self, period_seconds: float) -> None:
        assert period_seconds > 0
        self._period_seconds = period_seconds
        self._due = trio.current_time()

    def __aiter__(self) -> Every:
        return self

    async def __anext__(self) -> float:
        """Wait until the next pass is due. Return Trio's time then. Always a checkpoint."""
        await trio.sleep_until(self._due)
        now = trio.current_time()
        missed = now >= self._due + self._period_seconds
        self._due = (now if missed else self._due) + self._period_seconds
        return now
