"""How soon one thing may be made again: a pod's sandbox, or a container of which nobody ever sees an end.

What is made and is not there a moment later would else be made at once, for ever, as fast as the runtime answers: its
death is news, and news ends every wait of a pod worker. The first two come without a pause, for anything may die once;
after that each pause is twice as long as the one before. Who makes nothing for a while begins again. Upstream's pace is
that of its relist, once a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST_SECONDS: Final = 1.0
SECONDS_MAX: Final = 10.0
"""As a failed sync is repeated."""
REMEMBERED_SECONDS: Final = 2 * SECONDS_MAX
"""What lasted for so long is a success, whatever became of it then."""


@dataclass(frozen=True, slots=True)
class Made:
    """When something was last made, and how long the next one waits from then on; both in seconds."""

    at: float
    pause_seconds: float = 0.0


def is_forgotten(made: Made, now: float) -> bool:
    """Whether it was so long ago that it counts no more."""
    return now - made.at > REMEMBERED_SECONDS


def may_be_made_at(made: Made | None, now: float) -> float | None:
    """When the next one may be made; None: now."""
    if made is None or is_forgotten(made, now):
        return None
    at = made.at + made.pause_seconds
    return at if at > now else None


def made_again(before: Made | None, now: float) -> Made:
    """What is to be remembered once it is made now."""
    if before is None or is_forgotten(before, now):
        return Made(now)
    return Made(now, min(max(FIRST_SECONDS, 2 * before.pause_seconds), SECONDS_MAX))
