"""A rate limit that keeps what goes on for hours from filling the log: said at once, and then so often and no more.

A caller asks first, and logs if it may; nothing is kept for later, since an ongoing problem comes again. Each message
that is not to hide another has one of its own.
"""

from __future__ import annotations

import math
from typing import Final

import trio

MINUTE: Final = 60.0


class LogRateLimit:
    """Owns until when one thing is not said again."""

    def __init__(self, silence_seconds: float = MINUTE) -> None:
        """``silence_seconds``: so long it is not said after it was."""
        self._silence_seconds = silence_seconds
        self._silent_until = -math.inf

    def may_log(self) -> bool:
        """True if it may be logged now; then another silence begins."""
        now = trio.current_time()
        if now < self._silent_until:
            return False
        self._silent_until = now + self._silence_seconds
        return True
