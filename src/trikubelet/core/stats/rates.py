"""How much of a processor something uses now, out of two readings of the time it has used in all.

Nothing is measured between two snapshots, so a rate is that since the snapshot before: the mean over a scraper's own
interval. The first rate is the mean since the start, where that is known. Two snapshots in quick succession show next
to nothing; the second gets the first one's rate.
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


def advanced(before: Rate | None, at_ns: int, cpu_ns: int, started_ns: int | None = None) -> Rate:
    """The next reading. One that is lower, or from before, is a new beginning: another cgroup of the same name, or a
    clock that was set. ``started_ns``: when nothing had been used yet, None where that is unknown."""
    if before is None or cpu_ns < before.cpu_ns or at_ns < before.at_ns:
        return Rate(at_ns, cpu_ns, None if started_ns is None else _nanocores(cpu_ns, at_ns - started_ns))
    passed = at_ns - before.at_ns
    return before if passed < WINDOW_NS_MIN else Rate(at_ns, cpu_ns, _nanocores(cpu_ns - before.cpu_ns, passed))


def _nanocores(cpu_ns: int, passed_ns: int) -> int | None:
    return None if passed_ns < WINDOW_NS_MIN else cpu_ns * SECOND_NS // passed_ns
