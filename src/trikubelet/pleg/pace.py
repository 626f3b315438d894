"""The pace of full lists: when the next one is due, and when a quiet node may be listed less often.

Every ``relist_period_seconds`` from beginning to beginning (upstream: 1 s), but never more than half of the time: a
list that takes long, whether it succeeds or fails, is not followed by the next at once. The pause is bounded, though: a
single list that hung for all of its two minutes must not cost the node the third, after which it would be NotReady.

A list that is due may be left out for as long as the last one is younger than ``relist_quiet_period_seconds``:

- while events are reliable and nothing at all goes on. An event the runtime has lost is then found that much later, so
  anything that makes a node less than quiet ends it at once;
  - while far more pods wait for their inspection than are inspected at a time, as on the first look at a large node. A
  list would only take time from their inspections, and a pod that is asked for comes first anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from trikubelet.model.bounds import Bounds

BACKLOG_ROUNDS: Final = 10
"""A backlog of more pods than so many times those inspected at once is far more."""


class Situation(NamedTuple):
    """The facts that decide whether a list may be left out; times are Trio's, in seconds.

    ``changed_at``: when a pod was last asked for or found changed, or a list failed.
    ``events_since``: from when on events are reliable, None when they are not. ``is_awaited``: a pod worker waits for
    an observation. ``has_uninspected``: a pod is out of sight, under inspection or since an inspection has failed.
    ``backlog``: pods that wait for their inspection.
    """

    listed_at: float | None
    changed_at: float
    events_since: float | None
    is_awaited: bool
    has_uninspected: bool
    backlog: int


def due_at(began: float, ended: float, bounds: Bounds) -> float:
    """When the list after that one is due."""
    return max(began + bounds.relist_period_seconds, ended + min(ended - began, bounds.relist_pause_seconds_max))


def may_skip_list(now: float, situation: Situation, bounds: Bounds) -> bool:
    """True if a list that is due may be left out."""
    listed_at = situation.listed_at
    # Asked once a period, at times that drift by a list's length: the turn nearest to the quiet period is the one.
    if listed_at is None or now - listed_at + bounds.relist_period_seconds / 2 >= bounds.relist_quiet_period_seconds:
        return False
    return situation.backlog > BACKLOG_ROUNDS * bounds.inspections_max or _is_quiet(now, listed_at, situation, bounds)


def _is_quiet(now: float, listed_at: float, situation: Situation, bounds: Bounds) -> bool:
    """True if all that happened before events became reliable is listed, nothing has happened for a while, all pods are
    in sight, and no worker waits."""
    if situation.events_since is None or situation.is_awaited or situation.has_uninspected:
        return False
    return listed_at > situation.events_since and now - situation.changed_at > bounds.relist_quiet_after_seconds
