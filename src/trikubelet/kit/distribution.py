"""The distribution of values, in a fixed amount of memory.

Counts the values in each bucket like a Prometheus histogram, without depending on Prometheus: the component that
measures keeps a Distribution, and the server writes it for each scrape. ``Distributions`` has one for each key.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

K = TypeVar("K")

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds for durations, like upstream's."""


class Distribution:
    """Owns the number of added values, their sum, and the count of each bucket."""

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def buckets(self) -> list[tuple[float, int]]:
        """Return each upper bound in ascending order, the last one infinite, with the cumulative count of values."""
        return list(zip((*self._bounds, float("inf")), accumulate(self._counts), strict=True))

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self._counts)

    def __repr__(self) -> str:
        return f"<Distribution of {self.count} values, sum {self.sum:g}>"


class Distributions(dict[K, Distribution]):
    """Owns the distribution of each key, created at its first value: ``spreads[key].add(value)``. The caller bounds the
    number of keys."""

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        super().__init__()
        self._bounds = bounds

    def __missing__(self, key: K) -> Distribution:
        spread = self[key] = Distribution(self._bounds)
        return spread
