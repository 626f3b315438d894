"""The system's wall clock."""

from __future__ import annotations

import time


class SystemClock:
    """Implements ``ports.Clock``."""

    def now_ns(self) -> int:
        """Return nanoseconds since the Unix epoch."""
        return time.time_ns()
