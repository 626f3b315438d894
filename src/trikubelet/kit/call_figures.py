"""Figures of calls to another component: by name, their number, their duration, and how many failed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from trikubelet.kit.distribution import Distributions

if TYPE_CHECKING:
    from collections.abc import Sequence


class CallFigures:
    """Owns the figures of each name. Names are the caller's own, so there are only so many."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """``bounds``: upper ones of the durations' buckets, in seconds."""
        self.durations: Distributions[str] = Distributions(bounds)
        self.failures: Counter[str] = Counter()

    def note(self, name: str, seconds: float, *, failed: bool) -> None:
        """A call is over; one that was given up has failed."""
        self.durations[name].add(seconds)
        if failed:
            self.failures[name] += 1

    def __repr__(self) -> str:
        return f"<CallFigures of {len(self.durations)} names, {self.failures.total()} failures>"
