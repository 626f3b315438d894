"""Instants: timestamps that are never equal.

Comparing two timestamps decides if an observation was made after an action. Trio's clock may return the same time
twice: a coarse clock does, and a virtual clock stands still between sleeps. An observation that began just when a sync
ended could then count as older, or one that began just before as newer, and a container would be started twice. So
timestamps that are compared come from here: each is later than all earlier ones in the same run of Trio, by one step of
a float if necessary, and otherwise is the time.
"""

from __future__ import annotations

import math

import trio

_last: trio.lowlevel.RunVar[float] = trio.lowlevel.RunVar("instant", -math.inf)


def instant() -> float:
    """Return Trio's time in seconds, made later than every earlier instant of this run."""
    now = max(trio.current_time(), math.nextafter(_last.get(), math.inf))
    _last.set(now)
    return now
