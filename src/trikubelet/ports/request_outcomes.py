"""What to make of an API server that did not do what it was asked: one rule for everybody who asks.

it was away, or failed ────────► the outage that all share (``kit.outage``), which keeps local failures apart, and
                                 answers of a server that fails
it answered with a no ─────────► no outage: somebody has to correct a right or a rule. Said once a minute
somebody else was faster ──────► no outage, and not said the first time in a row: the next try reads what is there now
it does not know who asks ─────► no outage, and not said here: whoever holds the credentials does, once for all who
                                 ask (``kube.unauthorized_log``)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from trikubelet.kit.log_rate_limit import LogRateLimit
from trikubelet.model.api_errors import OVERTAKEN, PASSING, NothingToShow, Unauthorized

if TYPE_CHECKING:
    from trikubelet.kit.outage import Outage
    from trikubelet.model.api_errors import ApiError

log = logging.getLogger(__name__)


class RequestOutcomes:
    """Owns how often in a row somebody else was faster than who asks for one thing, which is what ``doing`` says."""

    def __init__(self, doing: str, outage: Outage) -> None:
        self._doing = doing
        self._outage = outage
        self._refusal_warning = LogRateLimit()
        self._overtaken = 0

    def worked(self) -> None:
        """It was asked, and did it."""
        self._overtaken = 0
        self._outage.worked()

    def failed(self, error: ApiError | trio.TooSlowError) -> bool:
        """It was asked, and this came of it. Whether that may pass by itself; anything else somebody has to correct."""
        self._overtaken = self._overtaken + 1 if isinstance(error, OVERTAKEN) else 0
        if isinstance(error, (*PASSING, NothingToShow, trio.TooSlowError)):
            self._outage.failed(self._doing, error)
            return True
        self._outage.worked()  # it is there
        if self._overtaken == 1 or isinstance(error, Unauthorized):
            return False
        if self._refusal_warning.may_log():
            log.warning("The API server refuses %s: %s; asking again until it does not", self._doing, error)
        return False
