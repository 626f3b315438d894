"""Distribution: how values are spread, in a fixed amount of memory.

Counts how many values fell into each of some buckets, as a Prometheus histogram wants it, without knowing Prometheus:
the part that measures keeps one, and the part that answers a scrape spells it out. ``Distributions`` is one for each of
some names.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

K = TypeVar("K")

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds for durations, upstream's."""


class Distribution:
    """Owns the number of the values added, their sum, and how many were at most each of the bounds."""

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Take a value in."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def buckets(self) -> list[tuple[float, int]]:
        """Each bound, ascending and at last infinity, with how many values were at most that."""
        return list(zip((*self._bounds, float("inf")), accumulate(self._counts), strict=True))

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self._counts)

    def __repr__(self) -> str:
        return f"<Distribution of {self.count} values, sum {self.sum:g}>"


class Distributions(dict[K, Distribution]):
    """Owns the distribution of each key, which begins with its first value: ``spreads[key].add(value)``. Keys are the
    caller's own, which sees to it that there are only so many."""

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        super().__init__()
        self._bounds = bounds

    def __missing__(self, key: K) -> Distribution:
        spread = self[key] = Distribution(self._bounds)
        return spread
