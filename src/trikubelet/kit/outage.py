"""Logs the beginning and the end of a server's outage, without filling the log meanwhile.

Several components may notice the same outage; they share one Outage and report every failure and success to it. The
first failure is logged at once, then one a minute, and the first success with the duration. A second outage within the
minute is logged when the minute has passed, because one component may succeed while another fails. A component that
waits before its next try can be woken when another has succeeded.

A server that was restored from a backup looks healthy, but may have no news for a long time for a client that has newer
data. A component that notices this reports it, too, and the listeners are notified.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from trikubelet.kit.answered_failure import AnsweredFailure
from trikubelet.kit.local_failure import LocalFailure
from trikubelet.kit.log_rate_limit import LogRateLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)


class Outage:
    """Owns the beginning of a server's outage, and what was logged of it."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._since: float | None = None
        self._outage_warning, self._local_warning, self._set_back_warning = (LogRateLimit() for _ in range(3))
        self._said = False
        self._failures = 0
        self._listeners: dict[object, Callable[[], None]] = {}
        self._set_back_listeners: dict[object, Callable[[], None]] = {}

    @contextmanager
    def listening(self, listener: Callable[[], None], set_back: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Within the block, call ``listener`` at each success after a failure, and ``set_back`` whenever a component
        noticed that the server was set back to an older state. Both must not block."""
        mine = object()
        self._listeners[mine], self._set_back_listeners[mine] = listener, set_back
        try:
            yield
        finally:
            del self._listeners[mine], self._set_back_listeners[mine]

    def failed(self, doing: str, error: BaseException) -> None:
        """Record that a request failed: the server did not answer, or answered with an error (AnsweredFailure). A
        LocalFailure is logged as such and is no outage."""
        if isinstance(error, LocalFailure):
            if self._local_warning.may_log():
                log.warning("Cannot reach %s because of a local failure: %s: %s", self._what, doing, error)
            return
        now = trio.current_time()
        self._failures += 1
        if self._since is None:
            self._since = now
        if not self._outage_warning.may_log():
            return
        self._said = True
        why = "no answer in time" if isinstance(error, trio.TooSlowError) else error  # TooSlowError has no message
        how = "answers with errors" if isinstance(error, AnsweredFailure) else "is unreachable"
        if self._failures == 1:
            log.warning("%s %s: %s: %s", self._what, how, doing, why)
        else:
            away = now - self._since
            log.warning(
                "%s %s for %.0f s, %d failures; the last: %s: %s",
                self._what,
                how,
                away,
                self._failures,
                doing,
                why,
            )

    def worked(self) -> None:
        """Record that the server answered."""
        if self._since is not None and self._said:
            away = trio.current_time() - self._since
            log.info("%s is back after %.0f s and %d failures", self._what, away, self._failures)
        was_away, self._since, self._said, self._failures = self._since is not None, None, False, 0
        if was_away:
            for listener in list(self._listeners.values()):
                listener()

    def set_back(self, evidence: str) -> None:
        """Record that the server was set back to an older state, for example from a backup."""
        if self._set_back_warning.may_log():
            log.warning("%s was set back to an older state: %s; reading all objects again", self._what, evidence)
        for listener in list(self._set_back_listeners.values()):
            listener()

    @property
    def since(self) -> float | None:
        """Return the beginning of the outage (Trio's clock, seconds), or None."""
        return self._since
