"""The back-off for creating a thing again that vanishes: a pod's sandbox, or a container whose end is never observed.

Without it, a thing that is gone a moment after its creation would be created again and again, as fast as the runtime
answers: its death is an event, and events wake the pod's worker. The first two creations come without a pause, because
anything may die once; then each pause is twice the last. After a while without a creation, it begins anew. Upstream's
pace is that of its relist, once a second.
"""

from __future__ import annotations

from typing import Final

from trikubelet.model.frozen import Frozen

FIRST_SECONDS: Final = 1.0
SECONDS_MAX: Final = 10.0
"""The maximum, as for a failed sync."""
REMEMBERED_SECONDS: Final = 2 * SECONDS_MAX
"""A thing that lasted this long counts as a success, even if it vanished later."""


class Made(Frozen):
    """When the thing was last created, and the pause from then on; both in seconds."""

    at: float
    pause_seconds: float = 0.0


def is_forgotten(made: Made, now: float) -> bool:
    """True if the last creation was so long ago that it no longer counts."""
    return now - made.at > REMEMBERED_SECONDS


def may_be_made_at(made: Made | None, now: float) -> float | None:
    """Return when the next one may be created; None for now."""
    if made is None or is_forgotten(made, now):
        return None
    at = made.at + made.pause_seconds
    return at if at > now else None


def made_again(before: Made | None, now: float) -> Made:
    """Return the record after a creation now."""
    if before is None or is_forgotten(before, now):
        return Made(now)
    return Made(now, min(max(FIRST_SECONDS, 2 * before.pause_seconds), SECONDS_MAX))
