"""Listeners: synchronous callbacks for an event.

The owner of a fact notifies its listeners without knowing them; they are registered where the node's parts are
assembled. A listener records the event and returns; its own task does the work. So listeners never wait, and cannot
delay or interrupt the owner: an exception in one is logged with its name, and the others are called nevertheless.
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
    """Owns the listeners of one kind of event, in the order in which they were added."""

    def __init__(self, topic: str) -> None:
        """``topic``: the event, for the log."""
        self._listeners: list[tuple[str, Callable[[*Arguments], object]]] = []
        self._barriers = FaultBarriers(log, f"%s: a bug when notified of {topic}; the other listeners were notified")

    def add(self, listener: Callable[[*Arguments], object]) -> None:
        """Register a listener. It must not block, nor add others."""
        self._listeners.append((getattr(listener, "__qualname__", repr(listener)), listener))

    def notify(self, *arguments: *Arguments) -> None:
        """Call the listeners. Never blocks; raises nothing except InvariantBroken."""
        for name, listener in self._listeners:
            with self._barriers.of(name):
                listener(*arguments)

    def __repr__(self) -> str:
        return f"<Listeners: {', '.join(name for name, _ in self._listeners) or 'none'}>"
