"""Listeners: called in the same step when something happened.

The owner of a fact tells it and does not know whom: that is settled where the node's parts are joined. A listener marks
what it has heard and returns; what is to be done about it, a task of its own does. So none of them waits, and none can
hold up or break off what the owner was about: a bug in one is logged by its name, and the others are called all the
same.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Generic, TypeVarTuple

from trikubelet.kit.bugs import Bugs

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

Told = TypeVarTuple("Told")


class Listeners(Generic[*Told]):
    """Owns who is notified of one kind of news, in the order in which they were added."""

    def __init__(self, news: str) -> None:
        """``news``: of what, for the log."""
        self._listeners: list[tuple[str, Callable[[*Told], object]]] = []
        self._bugs = Bugs(log, f"%s: a bug when notified of {news}; the other listeners were notified")

    def add(self, listener: Callable[[*Told], object]) -> None:
        """It is called from now on. It must not block, nor add others."""
        self._listeners.append((getattr(listener, "__qualname__", repr(listener)), listener))

    def tell(self, *told: *Told) -> None:
        """Tell them. Never blocks; raises nothing but a broken invariant."""
        for name, listener in self._listeners:
            with self._bugs.of(name):
                listener(*told)

    def __repr__(self) -> str:
        return f"<Listeners: {', '.join(name for name, _ in self._listeners) or 'none'}>"
