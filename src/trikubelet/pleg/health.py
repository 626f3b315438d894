"""Is PLEG well? It is while the node is listed, and while most pods can be seen.

    no list yet, or none for 3 min                  unhealthy, in upstream's words: the node becomes NotReady
    more than half of the pods out of sight 3 min   unhealthy: that is the runtime and no pod
    some pods out of sight                          healthy, with a remark that names them

Upstream inspects one pod after another, so a single one that hangs stops everything and the node is NotReady after
three minutes. Here it holds up no other pod, and driving every pod off the node would punish all for one. See
docs/decisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.pleg_pod import UninspectedPod
    from trikubelet.model.bounds import Bounds

NAMED_MAX: Final = 5
"""Pods named in one sentence; the rest is counted."""


def unlisted(now: float, listed_at: float | None, last_error: str, bounds: Bounds) -> str | None:
    """Why lists are missing, in upstream's words, or None."""
    if listed_at is None:
        return "pleg has yet to be successful" + (f": {last_error}" if last_error else "")
    age, threshold = now - listed_at, bounds.relist_stale_seconds_max
    if age <= threshold:
        return None
    return f"pleg was last seen active {age:.0f}s ago; threshold is {threshold:.0f}s: {last_error}"


def unseen(now: float, pods: int, uninspected_pods: Sequence[UninspectedPod], bounds: Bounds) -> str | None:
    """Why this is more than the problem of single pods, or None. ``pods``: how many there are."""
    threshold = bounds.relist_stale_seconds_max
    late = [one for one in uninspected_pods if now - one.since > threshold]
    if 2 * len(late) <= max(pods, len(late)):
        return None
    return f"{len(late)} of {pods} pods could not be inspected for {threshold:.0f}s: {named(now, late)}"


def named(now: float, uninspected_pods: Sequence[UninspectedPod]) -> str:
    """The first of them by name, how long, and why."""
    named = [f"{one.namespace}/{one.name} ({now - one.since:.0f}s: {one.why})" for one in uninspected_pods[:NAMED_MAX]]
    more = len(uninspected_pods) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")
