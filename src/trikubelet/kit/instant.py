"""Instants: moments of which no two are equal.

"Observed after I acted" is decided by comparing two times. Trio's clock may read the same twice: a coarse clock does,
and a virtual one stands still between sleeps. An observation begun at the very time a sync ended could then count as
older, or one begun just before it as newer, and a container be started twice. So a part that stamps something to be
compared asks here: each instant is later than every one before it in the same run of Trio, by one step of a float
if need be, and otherwise is the time.
"""

from __future__ import annotations

import math

import trio

_last: trio.lowlevel.RunVar[float] = trio.lowlevel.RunVar("instant", -math.inf)


def instant() -> float:
    """Trio's time in seconds, made later than every earlier instant of this run."""
    now = max(trio.current_time(), math.nextafter(_last.get(), math.inf))
    _last.set(now)
    return now
