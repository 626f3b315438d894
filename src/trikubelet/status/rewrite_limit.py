"""Rests between writes of what somebody else keeps undoing.

A write that is undone at once is made again at once, and where the other side is as quick as this one the two would
fill the API server. The first few writes of a name go out as fast as they are due, which is all that an edited manifest
or a mirror deleted by hand needs. From then on the name rests after each, ever longer, until it has been left alone for
a while.
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
"""Writes of a name in a row without a rest: three edits of a manifest, each a removal and a creation."""
FIRST_REST_SECONDS: Final = 1.0
REST_SECONDS_MAX: Final = 60.0
CALM_SECONDS: Final = 300.0
"""So long without a write and a name starts over: two sides that rest their longest, with jitter, still meet sooner."""

K = TypeVar("K", bound="Hashable")


@dataclass(slots=True)
class _Row:
    """Writes of one name without a calm between them, and when the last was (Trio's clock)."""

    backoff: Backoff
    writes: int = 0
    last: float = 0.0


class RewriteLimit(Generic[K]):
    """Owns how often each name was written lately. What was calm for a while is forgotten with the next write."""

    def __init__(self, chance: random.Random, *, at_once_max: int = AT_ONCE_MAX) -> None:
        """``at_once_max``: how many writes of a name go without a rest."""
        self._at_once_max = at_once_max
        self._chance = chance
        self._rows: dict[K, _Row] = {}

    def written(self, name: K) -> float:
        """The name was written once more: how many seconds it is to rest now, 0 for none."""
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
