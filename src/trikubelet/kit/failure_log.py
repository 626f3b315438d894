"""FailureLog, rate-limited warnings: a failure that goes on is logged once for each object, and once an hour.

A caller asks first, by the name of what it tries to do and not by the error's message: these carry numbers and times
that differ at each try. Success is noted here too, so that the next failure is logged at once. A failure that no longer
occurs is forgotten when its hour has passed, and not before: of more failures than are remembered one line reports that
there are others. A caller that goes through all of them in turn would otherwise find each just forgotten, and complain
of every one at every look.
"""

from __future__ import annotations

import logging
from typing import Final

import trio

from trikubelet.kit.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)

HOUR: Final = 3600.0
KEPT_MAX: Final = 1000


class FailureLog:
    """Owns what was complained of within the hour, oldest first, at most ``kept_max``: of others nothing is said until
    there is room, but for one line an hour, which this logs."""

    def __init__(self, silence_seconds: float = HOUR, kept_max: int = KEPT_MAX) -> None:
        """``silence_seconds``: so long a complaint is not made again."""
        self._silence_seconds = silence_seconds
        self._kept_max = kept_max
        self._silent_until: dict[str, float] = {}
        self._others = LogRateLimit(silence_seconds)

    def may_log(self, what: str) -> bool:
        """True if this may be logged now; then its silence begins."""
        now = trio.current_time()
        while self._silent_until and next(iter(self._silent_until.values())) <= now:
            self._forget_oldest()
        if what in self._silent_until:
            return False
        if len(self._silent_until) >= self._kept_max:
            if self._others.may_log():
                line = "More than %d things fail of which each is said once an hour; %s and others are not said for now"
                log.warning(line, self._kept_max, what)
            return False
        self._silent_until[what] = now + self._silence_seconds
        return True

    def works_again(self, what: str) -> None:
        """It works."""
        self._silent_until.pop(what, None)

    def _forget_oldest(self) -> None:
        del self._silent_until[next(iter(self._silent_until))]

    def __len__(self) -> int:
        return len(self._silent_until)

    def __repr__(self) -> str:
        return f"<FailureLog: {len(self)} within the last {self._silence_seconds:g} s>"
