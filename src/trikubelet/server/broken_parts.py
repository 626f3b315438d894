"""BrokenParts, what the agent's log says of rotated parts that cannot be read whole.

There may be thousands of them, for a container may have a hand in their directory. So all of them are one line for each
reader, and one a minute while he follows.
"""

from __future__ import annotations

import logging

from trikubelet.kit.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)


class BrokenParts:
    """Owns what is still to be told of the parts that one reader could not be shown whole."""

    def __init__(self) -> None:
        self._first = ""
        self._more = 0
        self._rate_limit = LogRateLimit()

    def note(self, what: str) -> None:
        """One more, and what is the matter with it."""
        if self._first:
            self._more += 1
        else:
            self._first = what

    def tell(self) -> None:
        """In one line: what is the matter with the first of them, and how many more there are. What may not be told yet
        is kept for the next time."""
        if not self._first or not self._rate_limit.may_log():
            return
        if self._more:
            log.warning("%s. Nor can %d more of the parts of this log be shown whole", self._first, self._more)
        else:
            log.warning("%s", self._first)
        self._first, self._more = "", 0

    def __repr__(self) -> str:
        return f"<BrokenParts: {self._more + bool(self._first)} to be told>"
