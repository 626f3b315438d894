"""The fault barrier: an error in one pod, probe, volume or connection is logged, and stays its own.

    error raised in the block ─┬─ a broken invariant, alone or among others ─► goes on, with all that came with it
                               ├─ with a cancellation ──► said; the cancellation alone goes on
                               └─ any other ─► said, kept in ``fault``; the block is over

A nursery that is cancelled while one of its tasks fails raises both together, which ``except Exception`` does not
match: the group leaves by the next cancel scope, which keeps the cancellation to itself and lets the error go on, past
the handler that was meant to catch it. That is why a barrier is more than an ``except``, and why there is one for all
of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self


class InvariantBroken(Exception):
    """A state that must never occur. It is never caught: the process ends and starts again from the facts."""


def is_invariant(error: BaseException) -> bool:
    """True if an invariant was broken, alone or among other errors: a handler of errors lets it through."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(InvariantBroken) is not None
    return isinstance(error, InvariantBroken)


class Barrier:
    """Keeps the exceptions of its block from its surroundings. ``fault``: the one that was raised, as passed to
    ``say``; None without any. Used once, with ``with``."""

    def __init__(self, say: Callable[[Exception], object]) -> None:
        """``say`` is called with the fault at once, also where a cancellation goes on after it. It must not block or
        fail."""
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
            raise rest from None
        return True


def message_of(fault: Exception | None) -> str:
    """Return the fault in one line: its message, or its kind if it has none. Empty without a fault."""
    return "" if fault is None else str(fault) or type(fault).__name__


def _parted(error: BaseException) -> tuple[Exception | None, BaseException | None]:
    """Split it into faults and the rest: a cancellation, or an order to the process to end."""
    if not isinstance(error, BaseExceptionGroup):
        return (error, None) if isinstance(error, Exception) else (None, error)
    faults, rest = error.split(Exception)
    alone: Exception | None = faults
    while isinstance(alone, ExceptionGroup) and len(alone.exceptions) == 1:
        alone = alone.exceptions[0]  # a group of one would say no more than that there is one
    return alone, rest
