"""Metrics of calls to another component: number, duration and failures, by name."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from trikubelet.kit.distribution import Distributions

if TYPE_CHECKING:
    from collections.abc import Sequence


class CallFigures:
    """Owns the metrics of each name. The caller chooses from a fixed set of names, which bounds their number."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """``bounds``: upper bounds of the duration buckets, in seconds."""
        self.durations: Distributions[str] = Distributions(bounds)
        self.failures: Counter[str] = Counter()

    def note(self, name: str, seconds: float, *, failed: bool) -> None:
        """Record a call that has ended; a call that was abandoned counts as failed."""
        self.durations[name].add(seconds)
        if failed:
            self.failures[name] += 1

    def __repr__(self) -> str:
        return f"<CallFigures of {len(self.durations)} names, {self.failures.total()} failures>"
