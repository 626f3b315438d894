"""Periodic work that does not drift and does not pile up.

``async for _ in every(1.0)`` passes at once and then at each multiple of the period since the start. A body that took
longer than a period is followed at once by the next pass, and the passes it missed are left out, not made up for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def every(period_seconds: float) -> AsyncIterator[float]:
    """Yield Trio's time at each pass, forever; the first pass is immediate. Always a checkpoint per pass."""
    assert period_seconds > 0
    due = trio.current_time()
    while True:
        await trio.sleep_until(due)
        now = trio.current_time()
        yield now
        due = max(due + period_seconds, trio.current_time())
