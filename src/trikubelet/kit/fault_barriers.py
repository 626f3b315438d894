"""Barriers for the tasks that serve many: an error about one object is logged with its name, and the others go on.

Such a task meets an object again and again, at each change and each comparison, and a bug that it provokes each time.
So that is said once, and then once an hour as long as it lasts.
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
"""Faults of further objects are not logged until there is room (``kit.failure_log``)."""


class FaultBarriers:
    """Owns which bugs were logged of one task, and how many were met (``count``)."""

    def __init__(self, log: logging.Logger, said: str) -> None:
        """``said``: the line for the log, with ``%s`` for the object: which action failed, and its consequence."""
        self._log = log
        self._said = said
        self._failure_log = FailureLog(SILENCE_SECONDS, REMEMBERED_MAX)
        self.count = 0

    def of(self, who: str, notify: Callable[[str], object] | None = None) -> Barrier:
        """A barrier round what is done about one object. ``notify`` is called as well, with one line, when it is
        logged."""
        return Barrier(partial(self._met, who, notify))

    def _met(self, who: str, notify: Callable[[str], object] | None, fault: Exception) -> None:
        self.count += 1
        if self._failure_log.may_log(f"{who}: {type(fault).__name__}"):
            self._log.error(self._said, who, exc_info=fault)
            if notify is not None:
                notify(f"a bug in the node's agent: {type(fault).__name__}: {message_of(fault)}")

    def __repr__(self) -> str:
        return f"<FaultBarriers: {self.count} bugs met>"
