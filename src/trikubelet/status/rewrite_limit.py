"""Delays between writes that another client keeps undoing.

A write that is undone at once is due at once, and with another client as fast as this one both would flood the API
server. The first few writes of a name are not delayed, which suffices for an edited manifest or a mirror pod deleted by
hand. From then on each write of the name is followed by a growing delay, until it has not been undone for a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import trio

from trikubelet.kit.backoff import Backoff

if TYPE_CHECKING:
    import random
    from collections.abc import Hashable

AT_ONCE_MAX: Final = 6
"""Consecutive writes of a name without a delay: three edits of a manifest, each a deletion and a creation."""
FIRST_REST_SECONDS: Final = 1.0
REST_SECONDS_MAX: Final = 60.0
CALM_SECONDS: Final = 300.0
"""Seconds without a write after which a name starts over: two clients with their longest delays and jitter still meet
sooner."""

K = TypeVar("K", bound="Hashable")


@dataclass(slots=True)
class _Row:
    """Consecutive writes of one name, and the time of the last one (Trio's clock)."""

    backoff: Backoff
    writes: int = 0
    last: float = 0.0


class RewriteLimit(Generic[K]):
    """Owns the recent number of writes of each name. Names that have been calm are forgotten with the next write."""

    def __init__(self, chance: random.Random, *, at_once_max: int = AT_ONCE_MAX) -> None:
        """``at_once_max``: number of writes of a name without a delay."""
        self._at_once_max = at_once_max
        self._chance = chance
        self._rows: dict[K, _Row] = {}

    def written(self, name: K) -> float:
        """Record another write of the name. Return its delay in seconds, 0 for none."""
        now = trio.current_time()
        self._rows = {other: row for other, row in self._rows.items() if now < row.last + CALM_SECONDS}
        row = self._rows.setdefault(
            name, _Row(Backoff(FIRST_REST_SECONDS, REST_SECONDS_MAX, jitter=0.5, chance=self._chance))
        )
        row.writes += 1
        row.last = now
        return row.backoff.next_seconds() if row.writes > self._at_once_max else 0.0

    def __repr__(self) -> str:
        return f"<RewriteLimit of {len(self._rows)}>"
