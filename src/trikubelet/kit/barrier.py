"""The fault barrier: contains an unexpected error to the pod, probe, volume or connection that caused it.

    error raised in the block ─┬─ a broken invariant, alone or in a group ─► propagates, with the whole group
                               ├─ together with a cancellation ──► reported; only the cancellation propagates
                               └─ any other ─► reported, kept in ``fault``; the block ends

A nursery that is cancelled while one of its tasks fails raises both as a group, which ``except Exception`` does not
match. The group reaches the next cancel scope, which absorbs the cancellation and lets the error propagate, past the
handler that was meant to catch it. Therefore a barrier is more than an ``except``, and all tasks share this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self


class InvariantBroken(Exception):
    """A state that must never occur. It is never caught: the process ends, and a new one rebuilds the state."""


def is_invariant(error: BaseException) -> bool:
    """True if an invariant was broken, alone or in a group of errors. Error handlers must let it propagate."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(InvariantBroken) is not None
    return isinstance(error, InvariantBroken)


class Barrier:
    """Catches the exceptions of its block. ``fault``: the exception that was raised, as passed to ``say``; None without
    one. For one ``with`` statement."""

    def __init__(self, say: Callable[[Exception], object]) -> None:
        """``say`` is called with the fault at once, also if a cancellation propagates after it. It must not block or
        raise."""
        self._say = say
        self.fault: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or is_invariant(error):
            return False
        fault, rest = _parted(error)
        if fault is None:
            return False
        self.fault = fault
        self._say(fault)
        if rest is not None:
            raise rest from None  # the fault was reported; as its context it would be reported once more
        return True


def message_of(fault: Exception | None) -> str:
    """Return the fault in one line: its message, or its type if it has none; "" without a fault."""
    return "" if fault is None else str(fault) or type(fault).__name__


def _parted(error: BaseException) -> tuple[Exception | None, BaseException | None]:
    """Split an error into faults and the rest: a cancellation, or a request that the process ends."""
    if not isinstance(error, BaseExceptionGroup):
        return (error, None) if isinstance(error, Exception) else (None, error)
    faults, rest = error.split(Exception)
    alone: Exception | None = faults
    while isinstance(alone, ExceptionGroup) and len(alone.exceptions) == 1:
        alone = alone.exceptions[0]  # the message of a group of one hides that of its only exception
    return alone, rest
