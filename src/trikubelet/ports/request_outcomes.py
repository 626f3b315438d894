"""The classification of failed requests to an API server: one rule for all callers.

no answer, or a server error ───► the outage that all share (``kube.outage``), which keeps local failures apart, and
                                 answers of a failing server
a rejection ────────────────────► no outage: an operator has to correct a right or a rule. Logged once a minute
a conflict ─────────────────────► no outage, and not logged the first time in a row: the retry reads the new state
unauthorized ───────────────────► no outage, and not logged here: the owner of the credentials logs it, once for all
                                 callers (``kube.unauthorized_log``)
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
    """Owns the number of consecutive conflicts of one caller, whose purpose is ``doing``."""

    def __init__(self, doing: str, outage: Outage) -> None:
        self._doing = doing
        self._outage = outage
        self._refusal_warning = LogRateLimit()
        self._overtaken = 0

    def worked(self) -> None:
        """Record a successful request."""
        self._overtaken = 0
        self._outage.worked()

    def failed(self, error: ApiError | trio.TooSlowError) -> bool:
        """Record a failed request. Return true if a retry may succeed without an operator's correction."""
        self._overtaken = self._overtaken + 1 if isinstance(error, OVERTAKEN) else 0
        if isinstance(error, (*PASSING, NothingToShow, trio.TooSlowError)):
            self._outage.failed(self._doing, error)
            return True
        self._outage.worked()  # the server answers
        if self._overtaken == 1 or isinstance(error, Unauthorized):
            return False
        if self._refusal_warning.may_log():
            log.warning("The API server refuses %s: %s; retrying until it accepts", self._doing, error)
        return False
