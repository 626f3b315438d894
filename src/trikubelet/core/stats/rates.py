"""Computes present CPU usage from two readings of the total CPU time.

Nothing is measured between two snapshots, so a rate is the mean since the last snapshot, which is a scraper's own
interval. The first rate is the mean since the start, if that is known. Two snapshots in quick succession show next to
nothing; the second gets the first one's rate.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from trikubelet.core.timestamps import SECOND_NS

WINDOW_NS_MIN: Final = SECOND_NS


class Rate(NamedTuple):
    """A reading, and the rate up to it: billionths of a CPU, None if there was nothing to compare with."""

    at_ns: int
    cpu_ns: int
    nanocores: int | None = None


def advanced(before: Rate | None, at_ns: int, cpu_ns: int, started_ns: int | None = None) -> Rate:
    """Return the next reading. One with a lower value or time begins anew: another cgroup of the same name, or a
    changed clock. ``started_ns``: when usage was zero, None if unknown."""
    if before is None or cpu_ns < before.cpu_ns or at_ns < before.at_ns:
        return Rate(at_ns, cpu_ns, None if started_ns is None else _nanocores(cpu_ns, at_ns - started_ns))
    passed = at_ns - before.at_ns
    return before if passed < WINDOW_NS_MIN else Rate(at_ns, cpu_ns, _nanocores(cpu_ns - before.cpu_ns, passed))


def _nanocores(cpu_ns: int, passed_ns: int) -> int | None:
    return None if passed_ns < WINDOW_NS_MIN else cpu_ns * SECOND_NS // passed_ns
