"""How much of a processor something uses now, out of two readings of the time it has used in all.

Nobody measures between two snapshots, so a rate is that since the snapshot before: the mean over a scraper's own
interval. Two snapshots in quick succession say next to nothing; the second gets the first one's rate.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from trikubelet.core.timestamps import SECOND_NS

WINDOW_NS_MIN: Final = SECOND_NS


class Rate(NamedTuple):
    """A reading, and the rate up to it: billionths of a processor, None where there was nothing to compare with."""

    at_ns: int
    cpu_ns: int
    nanocores: int | None = None


def advanced(before: Rate | None, at_ns: int, cpu_ns: int) -> Rate:
    """The next reading. One that is lower, or from before, is a new beginning: another cgroup of the same name, or a
    clock that was set."""
    if before is None or cpu_ns < before.cpu_ns or at_ns < before.at_ns:
        return Rate(at_ns, cpu_ns)
    passed = at_ns - before.at_ns
    if passed < WINDOW_NS_MIN:
        return before
    return Rate(at_ns, cpu_ns, (cpu_ns - before.cpu_ns) * SECOND_NS // passed)
