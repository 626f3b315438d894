"""Says in the log that the API server does not know this node, and that it does again.

    known ─► 401: said at once, then once a minute ─► known again: said with how long it took

It has one cause, in a kubeconfig or on this node, whichever request meets it. So it is logged here, once for all, and
not by the callers; and it is no outage (``kit.outage``), because the server answers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from trikubelet.kit.log_rate_limit import LogRateLimit

if TYPE_CHECKING:
    from trikubelet.model.api_errors import Unauthorized

log = logging.getLogger(__name__)


class UnauthorizedLog:
    """Owns since when the API server does not know this node, and whether that was said."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._unauthorized_warning = LogRateLimit()
        self._said = False
        self._count = 0

    def rejected(self, error: Unauthorized, message: str) -> None:
        """It did not know us. ``message`` says what it was shown and what to do."""
        self._count += 1
        if self._since is None:
            self._since = trio.current_time()
        if self._unauthorized_warning.may_log():
            self._said = True
            log.warning("The API server answers, but does not know this node (%s). %s", error, message)

    def accepted(self) -> None:
        """The server has answered this node, knowing who it is."""
        if self._since is not None and self._said:
            lasted = trio.current_time() - self._since
            log.info("The API server knows this node again, after %.0f s and %d requests", lasted, self._count)
        self._since, self._said, self._count = None, False, 0
