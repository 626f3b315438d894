"""FailureLog, rate-limited warnings: an ongoing failure is logged once for each object, and then once an hour.

Failures are identified by the name of the operation and not by the error's message, because messages contain numbers
and times that differ at each try. Successes are recorded too, so that the next failure is logged at once. Entries are
dropped only when their hour has passed. If there are more failures than entries, one line reports that there are
others: dropping the oldest entry instead would log every failure at each pass over all of them.
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
    """Owns the failures logged within the last hour, oldest first, at most ``kept_max``. Further ones are not logged
    until there is room, except for one summary line an hour, which this class logs."""

    def __init__(self, silence_seconds: float = HOUR, kept_max: int = KEPT_MAX) -> None:
        """``silence_seconds``: the time for which a failure is not logged again."""
        self._silence_seconds = silence_seconds
        self._kept_max = kept_max
        self._silent_until: dict[str, float] = {}
        self._others = LogRateLimit(silence_seconds)

    def may_log(self, what: str) -> bool:
        """True if this failure may be logged now; that begins its silence."""
        now = trio.current_time()
        while self._silent_until and next(iter(self._silent_until.values())) <= now:
            self._forget_oldest()
        if what in self._silent_until:
            return False
        if len(self._silent_until) >= self._kept_max:
            if self._others.may_log():
                line = "More than %d operations fail, each logged once an hour; %s and others are not logged for now"
                log.warning(line, self._kept_max, what)
            return False
        self._silent_until[what] = now + self._silence_seconds
        return True

    def works_again(self, what: str) -> None:
        """Record a success."""
        self._silent_until.pop(what, None)

    def _forget_oldest(self) -> None:
        del self._silent_until[next(iter(self._silent_until))]

    def __len__(self) -> int:
        return len(self._silent_until)

    def __repr__(self) -> str:
        return f"<FailureLog: {len(self)} failures within the last {self._silence_seconds:g} s>"
