"""The pace of full lists: when the next one is due, and when it may be skipped.

A list begins every ``relist_period_seconds`` (upstream: 1 s), but lists never take more than half of the time: after a
long list, successful or not, there is a pause of the same length. The pause is bounded, because a single list that hung
for its two minutes must not delay the next one past the third, after which the node would be NotReady.

A list that is due may be skipped until the last one is ``relist_quiet_period_seconds`` old:

- while events are reliable and nothing happens. A lost event is then found that much later, so any activity ends the
  quiet period at once;
- while far more pods wait for their inspection than can run concurrently, as at the start on a large node. A list would
  only delay those inspections, and requested pods come first anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from trikubelet.model.bounds import Bounds

BACKLOG_ROUNDS: Final = 10
"""The backlog that allows skipping a list, in multiples of the concurrent inspections."""


class Situation(NamedTuple):
    """The facts that decide whether a list may be skipped; times are Trio's, in seconds.

    ``changed_at``: when a pod was last requested or found changed, or a list failed. ``events_since``: the time since
    which events are reliable, None if they are not. ``is_awaited``: a pod worker waits for an observation.
    ``has_uninspected``: a pod is being inspected, or its last inspection failed. ``backlog``: pods that wait for their
    inspection.
    """

    listed_at: float | None
    changed_at: float
    events_since: float | None
    is_awaited: bool
    has_uninspected: bool
    backlog: int


def due_at(began: float, ended: float, bounds: Bounds) -> float:
    """Return the time at which the next list is due."""
    return max(began + bounds.relist_period_seconds, ended + min(ended - began, bounds.relist_pause_seconds_max))


def may_skip_list(now: float, situation: Situation, bounds: Bounds) -> bool:
    """True if a list that is due may be skipped."""
    listed_at = situation.listed_at
    # Checked once a period, at times that drift by a list's length. Half a period selects the nearest check.
    if listed_at is None or now - listed_at + bounds.relist_period_seconds / 2 >= bounds.relist_quiet_period_seconds:
        return False
    return situation.backlog > BACKLOG_ROUNDS * bounds.inspections_max or _is_quiet(now, listed_at, situation, bounds)


def _is_quiet(now: float, listed_at: float, situation: Situation, bounds: Bounds) -> bool:
    """True if a list began after events became reliable, nothing has happened for a while, all pods are inspected, and
    no worker waits."""
    if situation.events_since is None or situation.is_awaited or situation.has_uninspected:
        return False
    return listed_at > situation.events_since and now - situation.changed_at > bounds.relist_quiet_after_seconds
