"""A rate limit for log messages, so that a problem that lasts for hours does not fill the log.

A caller logs only if ``may_log`` is true; dropped messages are not kept, since an ongoing problem occurs again. Each
message has its own limit, so that none hides another.
"""

from __future__ import annotations

import math
from typing import Final

import trio

MINUTE: Final = 60.0


class LogRateLimit:
    """Owns the time until which one message is not logged again."""

    def __init__(self, silence_seconds: float = MINUTE) -> None:
        """``silence_seconds``: the minimum time between two logged messages."""
        self._silence_seconds = silence_seconds
        self._silent_until = -math.inf

    def may_log(self) -> bool:
        """True if the message may be logged now; that begins the next silence."""
        now = trio.current_time()
        if now < self._silent_until:
            return False
        self._silent_until = now + self._silence_seconds
        return True
