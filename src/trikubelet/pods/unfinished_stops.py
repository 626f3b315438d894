"""What is remembered of containers that were asked to stop, until they are known to be down.

The next sync of a pod that terminates goes on with the grace that the one before it left. Only what a container can
have known of is counted: its hook, its turn and the calls under way, not how long the runtime was away. It is counted
exactly: a sync that takes less than a second uses grace, too.

What was left is not written down. So a new agent gives a pod that it is told of, as one that is being deleted, a full
grace again: too much costs less than too little. Of a pod whose manifest is gone it is told nothing, and finds an
orphan: that has the second of all orphans (``Bounds.kill_orphan_grace_seconds``), however much was left, as upstream.

A sync begins with an observation that is newer than the end of the one before, so the runtime has answered between
the two. That is how a container that cannot be stopped is told from a runtime that is away: only what was failing
before the runtime answered again counts against the container, and of a pause a retry's length at most.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTAINERS_REMEMBERED_MAX = 10_000
HOOK_TRIES_MAX = 6
"""So often a preStop hook is tried that the runtime does not begin, though it answers others."""
SILENCES_MIN = 3
"""So many calls come to no answer before short ones count."""
REFUSALS_PAUSE_SECONDS_MAX = 600.0
"""A refusal so long after the last one is the first again: the container was not to be stopped any more meanwhile."""
PAUSE_SECONDS_MAX = 15.0
"""How much of the time between two syncs counts as the container's; in a longer one the runtime was away."""

T = TypeVar("T")


class Away:
    """Owns for how long in all somebody waited for a connection to the runtime, in seconds: for so long nothing could
    be asked of it."""

    def __init__(self) -> None:
        self._waiting = 0
        self._since = 0.0
        self._before = 0.0

    @property
    def seconds(self) -> float:
        """Until now."""
        return self._before + (trio.current_time() - self._since if self._waiting else 0.0)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Somebody waits for the length of the block; what several wait at once is one time."""
        if not self._waiting:
            self._since = trio.current_time()
        self._waiting += 1
        try:
            yield
        finally:
            self._before, self._since = self.seconds, trio.current_time()
            self._waiting -= 1


@dataclass(slots=True)
class Used:
    """How much of a container's grace one sync has used, in seconds, also when the sync is given up."""

    seconds: float = 0.0

    @contextmanager
    def counting(self, away: Away | None = None) -> Iterator[None]:
        """The time of the block counts, but for what of it the runtime was ``away``."""
        began, away_before = trio.current_time(), away.seconds if away else 0.0
        try:
            yield
        finally:
            self.seconds += trio.current_time() - began - ((away.seconds if away else 0.0) - away_before)


@dataclass(frozen=True, slots=True)
class _Silence:
    """For how long nothing that was asked of a container came to an answer, in seconds. ``proven_seconds``: the runtime
    answered others afterwards; ``unproven_seconds``: the last call, after which it has not been heard of yet;
    ``ended_at``: when that was given up, on Trio's clock; ``calls``: how many they were."""

    proven_seconds: float
    unproven_seconds: float
    ended_at: float
    calls: int


class UnfinishedStops:
    """Owns which preStop hooks were cut and which have ended, how much grace is left and who could not be stopped, by
    container id, until the container is known to be down. Of too many the oldest are forgotten, which costs a hook that
    runs twice, or a grace that starts over."""

    def __init__(self) -> None:
        self._hooks_cut: dict[str, tuple[int, int]] = {}  # how often once it may have begun, and in all
        self._hooks_ended: dict[str, None] = {}
        self._grace_left: dict[str, float] = {}
        self._refused: dict[str, tuple[float, float]] = {}  # since when, and last, on Trio's clock
        self._silences: dict[str, _Silence] = {}

    def grace_left(self, container_id: str, grace_seconds: float) -> float:
        """What an earlier sync carried over, or ``grace_seconds`` where that is less."""
        return min(grace_seconds, self._grace_left.get(container_id, grace_seconds))

    def carry_over(self, container_id: str, grace_seconds: float) -> None:
        """The next sync has so much. Only for pods that terminate: others may live on, and end with a full grace."""
        _remember(self._grace_left, container_id, grace_seconds)

    def has_hook_ended(self, container_id: str) -> bool:
        """Whether the container's preStop hook came to its end, or took all its grace."""
        return container_id in self._hooks_ended

    def hook_cut(self, container_id: str, *, may_have_begun: bool) -> bool:
        """The runtime did not let the container's preStop hook come to its end; whether that is enough. It is at the
        second time that the hook may have begun, or at the last of some tries: the runtime has answered others between
        any two."""
        begun, tries = self._hooks_cut.get(container_id, (0, 0))
        begun, tries = begun + may_have_begun, tries + 1
        _remember(self._hooks_cut, container_id, (begun, tries))
        return begun > 1 or tries >= HOOK_TRIES_MAX

    def hook_ended(self, container_id: str) -> None:
        """It does not run again."""
        _remember(self._hooks_ended, container_id, None)

    def refused_for(self, container_id: str, grace_seconds: float) -> float:
        """A runtime that answers says now that it cannot stop the container; for how many seconds it has. A call may
        take all of its ``grace_seconds``."""
        now = trio.current_time()
        since, last = self._refused.get(container_id, (now, now))
        if now - last > grace_seconds + REFUSALS_PAUSE_SECONDS_MAX:
            since = now
        _remember(self._refused, container_id, (since, now))
        return now - since

    def unanswered_for(self, container_id: str, sync_began_at: float, call_began_at: float) -> float:
        """StopContainer came to no answer now; for how many seconds it has not, as far as the runtime has answered
        others since."""
        now, proven, calls = trio.current_time(), 0.0, 0
        if (held := self._silences.get(container_id)) is not None:
            pause = min(sync_began_at - held.ended_at, PAUSE_SECONDS_MAX)
            proven, calls = held.proven_seconds + held.unproven_seconds + pause, held.calls
        _remember(self._silences, container_id, _Silence(proven, now - call_began_at, now, calls + 1))
        # One long silence may have been everybody's, and the failure after it the runtime's restart.
        is_long = now - call_began_at >= PAUSE_SECONDS_MAX
        return proven if is_long or calls + 1 >= SILENCES_MIN else 0.0

    def is_down(self, container_id: str) -> None:
        """Nothing need be known of it any more."""
        self._hooks_cut.pop(container_id, None)
        self._hooks_ended.pop(container_id, None)
        self._grace_left.pop(container_id, None)
        self._refused.pop(container_id, None)
        self._silences.pop(container_id, None)


def _remember(notes: dict[str, T], container_id: str, note: T) -> None:
    notes[container_id] = note
    if len(notes) > CONTAINERS_REMEMBERED_MAX:
        del notes[next(iter(notes))]
