"""Barriers for tasks that serve many objects: an error about one object is logged with its name, and the task goes on.

Such a task processes an object again and again, at each change and each comparison, and meets the same bug each time.
So an error is logged once, and then once an hour while it lasts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from trikubelet.kit.barrier import Barrier, message_of
from trikubelet.kit.failure_log import FailureLog

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

SILENCE_SECONDS: Final = 3600.0
REMEMBERED_MAX: Final = 1000
"""The number of objects whose faults are remembered; further ones are not logged (``kit.failure_log``)."""


class FaultBarriers:
    """Owns the faults of one task that were logged, and the number of all faults (``count``)."""

    def __init__(self, log: logging.Logger, said: str) -> None:
        """``said``: the log line, with ``%s`` for the object; it names the failed action and the consequence."""
        self._log = log
        self._said = said
        self._failure_log = FailureLog(SILENCE_SECONDS, REMEMBERED_MAX)
        self.count = 0

    def of(self, who: str, notify: Callable[[str], object] | None = None) -> Barrier:
        """Return a barrier for the work on one object. ``notify`` is called with one line whenever a fault is
        logged."""
        return Barrier(partial(self._met, who, notify))

    def _met(self, who: str, notify: Callable[[str], object] | None, fault: Exception) -> None:
        self.count += 1
        if self._failure_log.may_log(f"{who}: {type(fault).__name__}"):
            self._log.error(self._said, who, exc_info=fault)
            if notify is not None:
                notify(f"a bug in the node's agent: {type(fault).__name__}: {message_of(fault)}")

    def __repr__(self) -> str:
        return f"<FaultBarriers: {self.count} faults>"
