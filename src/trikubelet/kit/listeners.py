"""Listeners: called in the same step when something happened.

The owner of a fact notifies of it and does not know its listeners: those are settled where the node's parts are joined.
A listener marks what it has heard and returns; what is to be done about it, a task of its own does. So none of them
waits, and none can hold up or break off what the owner was about: a bug in one is logged by its name, and the others
are called all the same.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Generic, TypeVarTuple

from trikubelet.kit.fault_barriers import FaultBarriers

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

Arguments = TypeVarTuple("Arguments")


class Listeners(Generic[*Arguments]):
    """Owns who is notified of one kind of event, in the order in which they were added."""

    def __init__(self, topic: str) -> None:
        """``topic``: of what, for the log."""
        self._listeners: list[tuple[str, Callable[[*Arguments], object]]] = []
        self._barriers = FaultBarriers(log, f"%s: a bug when notified of {topic}; the other listeners were notified")

    def add(self, listener: Callable[[*Arguments], object]) -> None:
        """It is called from now on. It must not block, nor add others."""
        self._listeners.append((getattr(listener, "__qualname__", repr(listener)), listener))

    def notify(self, *arguments: *Arguments) -> None:
        """Notify them. Never blocks; raises nothing but a broken invariant."""
        for name, listener in self._listeners:
            with self._barriers.of(name):
                listener(*arguments)

    def __repr__(self) -> str:
        return f"<Listeners: {', '.join(name for name, _ in self._listeners) or 'none'}>"
