"""BrokenParts, which limits the log lines about rotated log files that cannot be read whole.

There may be thousands of them, because a container may write to their directory. So each reader logs one line for all
of them, and one a minute while it follows.
"""

from __future__ import annotations

import logging

from trikubelet.kit.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)


class BrokenParts:
    """Owns the broken parts of one reader that are not yet logged."""

    def __init__(self) -> None:
        self._first = ""
        self._more = 0
        self._rate_limit = LogRateLimit()

    def note(self, what: str) -> None:
        """Record a broken part and its error."""
        if self._first:
            self._more += 1
        else:
            self._first = what

    def tell(self) -> None:
        """Log one line: the first error and the number of the others. Within a minute of the last line they are kept
        for the next."""
        if not self._first or not self._rate_limit.may_log():
            return
        if self._more:
            log.warning("%s. Nor can %d more of the parts of this log be shown whole", self._first, self._more)
        else:
            log.warning("%s", self._first)
        self._first, self._more = "", 0

    def __repr__(self) -> str:
        return f"<BrokenParts: {self._more + bool(self._first)} to be told>"
