"""PLEG's health: it is healthy while full lists succeed and most pods can be inspected.

    no list yet, or none for 3 min                            unhealthy, in upstream's words: the node becomes NotReady
    more than half of the pods cannot be inspected for 3 min  unhealthy: the runtime fails, not a pod
    some pods cannot be inspected                             healthy, with a remark that names them

Upstream inspects one pod after another, so a single pod that hangs stops all others, and the node is NotReady after
three minutes. Here it delays no other pod, and evicting all pods because of one would be wrong. (docs/decisions/0006)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.pleg_pod import UninspectedPod
    from trikubelet.model.bounds import Bounds

NAMED_MAX: Final = 5
"""Pods named in one message; the others are counted."""


def unlisted(now: float, listed_at: float | None, last_error: str, bounds: Bounds) -> str | None:
    """Return why lists are missing, in upstream's words; None if they are not."""
    if listed_at is None:
        return "pleg has yet to be successful" + (f": {last_error}" if last_error else "")
    age, threshold = now - listed_at, bounds.relist_stale_seconds_max
    if age <= threshold:
        return None
    return f"pleg was last seen active {age:.0f}s ago; threshold is {threshold:.0f}s: {last_error}"


def unseen(now: float, pods: int, uninspected_pods: Sequence[UninspectedPod], bounds: Bounds) -> str | None:
    """Return why the runtime fails rather than single pods, or None. ``pods``: the number of all pods."""
    threshold = bounds.relist_stale_seconds_max
    late = [one for one in uninspected_pods if now - one.since > threshold]
    if 2 * len(late) <= max(pods, len(late)):
        return None
    return f"{len(late)} of {pods} pods could not be inspected for {threshold:.0f}s: {named(now, late)}"


def named(now: float, uninspected_pods: Sequence[UninspectedPod]) -> str:
    """Return the names of the first pods, each with the duration and the reason."""
    named = [f"{one.namespace}/{one.name} ({now - one.since:.0f}s: {one.why})" for one in uninspected_pods[:NAMED_MAX]]
    more = len(uninspected_pods) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")
