"""The state of containers that are being stopped, until they are known to have ended.

The next sync of a terminating pod goes on with the rest of the last one's grace. Only time that the container could use
is deducted: its hook, its turn and the calls under way, not the time that the runtime was away. It is deducted exactly:
a sync of less than a second uses grace, too.

The rest is not written to disk. So a new agent gives a pod that is being deleted a full grace again: too much grace
costs less than too little. A pod whose manifest is gone is an orphan for the new agent, with the one second of all
orphans (``Bounds.kill_orphan_grace_seconds``), however much was left, like upstream.

A sync begins with an observation that is newer than the end of the last one, so the runtime has answered between the
two. That distinguishes a container that cannot be stopped from a runtime that is away: only failures before the
runtime's next answer count against the container, and of a pause at most the length of a retry.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec
import trio

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTAINERS_REMEMBERED_MAX = 10_000
HOOK_TRIES_MAX = 6
"""How often a preStop hook is tried that the runtime does not begin, though it answers other calls."""
SILENCES_MIN = 3
"""The number of unanswered calls after which short ones count."""
REFUSALS_PAUSE_SECONDS_MAX = 600.0
"""A refusal this long after the last one counts as the first: the container was not being stopped meanwhile."""
PAUSE_SECONDS_MAX = 15.0
"""How much of the time between two syncs counts against the container; in a longer one the runtime was away."""

T = TypeVar("T")


class Away:
    """Owns the total time, in seconds, in which a task waited for a connection to the runtime, so that no call was
    possible."""

    def __init__(self) -> None:
        self._waiting = 0
        self._since = 0.0
        self._before = 0.0

    @property
    def seconds(self) -> float:
        """The seconds until now."""
        return self._before + (trio.current_time() - self._since if self._waiting else 0.0)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Measure a wait for the length of the block; concurrent waits count once."""
        if not self._waiting:
            self._since = trio.current_time()
        self._waiting += 1
        try:
            yield
        finally:
            self._before, self._since = self.seconds, trio.current_time()
            self._waiting -= 1


class Used(msgspec.Struct):
    """Owns how much of a container's grace one sync has used, in seconds, also if the sync is cancelled."""

    seconds: float = 0.0

    @contextmanager
    def counting(self, away: Away | None = None) -> Iterator[None]:
        """Count the time of the block, except while the runtime was ``away``."""
        began, away_before = trio.current_time(), away.seconds if away else 0.0
        try:
            yield
        finally:
            self.seconds += trio.current_time() - began - ((away.seconds if away else 0.0) - away_before)


class _Silence(Frozen):
    """How long calls about a container have been unanswered, in seconds. ``proven_seconds``: the runtime answered other
    calls afterwards; ``unproven_seconds``: the last call, since which the runtime has not answered yet; ``ended_at``:
    when that one was given up, on Trio's clock; ``calls``: the number of calls."""

    proven_seconds: float
    unproven_seconds: float
    ended_at: float
    calls: int


class UnfinishedStops:
    """Owns which preStop hooks were cut and which have ended, the remaining grace, and the failed stops, by container
    id, until the container is known to have ended. Above the limit the oldest are dropped; then a hook may run twice,
    or a grace start over."""

    def __init__(self) -> None:
        self._hooks_cut: dict[str, tuple[int, int]] = {}  # how often after it may have begun, and in all
        self._hooks_ended: dict[str, None] = {}
        self._grace_left: dict[str, float] = {}
        self._refused: dict[str, tuple[float, float]] = {}  # since when, and last, on Trio's clock
        self._silences: dict[str, _Silence] = {}

    def grace_left(self, container_id: str, grace_seconds: float) -> float:
        """Return the grace that an earlier sync left, or ``grace_seconds`` if that is less."""
        return min(grace_seconds, self._grace_left.get(container_id, grace_seconds))

    def carry_over(self, container_id: str, grace_seconds: float) -> None:
        """Keep this grace for the next sync. Only for terminating pods: others may live on, and end with a full
        grace."""
        _remember(self._grace_left, container_id, grace_seconds)

    def has_hook_ended(self, container_id: str) -> bool:
        """True if the container's preStop hook has ended, or used up its grace."""
        return container_id in self._hooks_ended

    def hook_cut(self, container_id: str, *, may_have_begun: bool) -> bool:
        """Record that the runtime did not let the container's preStop hook end; True if it must not be retried. That is
        after the second cut of a hook that may have begun, or after the last of some tries: the runtime has answered
        other calls between any two."""
        begun, tries = self._hooks_cut.get(container_id, (0, 0))
        begun, tries = begun + may_have_begun, tries + 1
        _remember(self._hooks_cut, container_id, (begun, tries))
        return begun > 1 or tries >= HOOK_TRIES_MAX

    def hook_ended(self, container_id: str) -> None:
        """Record that the hook must not run again."""
        _remember(self._hooks_ended, container_id, None)

    def refused_for(self, container_id: str, grace_seconds: float) -> float:
        """Record that a runtime that answers cannot stop the container; return for how many seconds that has been so. A
        call may use all of its ``grace_seconds``."""
        now = trio.current_time()
        since, last = self._refused.get(container_id, (now, now))
        if now - last > grace_seconds + REFUSALS_PAUSE_SECONDS_MAX:
            since = now
        _remember(self._refused, container_id, (since, now))
        return now - since

    def unanswered_for(self, container_id: str, sync_began_at: float, call_began_at: float) -> float:
        """Record that StopContainer got no answer; return for how many seconds that has been so, as far as the runtime
        has answered other calls since."""
        now, proven, calls = trio.current_time(), 0.0, 0
        if (held := self._silences.get(container_id)) is not None:
            pause = min(sync_began_at - held.ended_at, PAUSE_SECONDS_MAX)
            proven, calls = held.proven_seconds + held.unproven_seconds + pause, held.calls
        _remember(self._silences, container_id, _Silence(proven, now - call_began_at, now, calls + 1))
        # One long silence may have affected all calls, and the failure after it may be the runtime's restart.
        is_long = now - call_began_at >= PAUSE_SECONDS_MAX
        return proven if is_long or calls + 1 >= SILENCES_MIN else 0.0

    def is_down(self, container_id: str) -> None:
        """Forget the container, which has ended."""
        self._hooks_cut.pop(container_id, None)
        self._hooks_ended.pop(container_id, None)
        self._grace_left.pop(container_id, None)
        self._refused.pop(container_id, None)
        self._silences.pop(container_id, None)


def _remember(notes: dict[str, T], container_id: str, note: T) -> None:
    notes[container_id] = note
    if len(notes) > CONTAINERS_REMEMBERED_MAX:
        del notes[next(iter(notes))]
