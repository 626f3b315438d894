"""Eviction thresholds of the configuration, and the signals they refer to.

A threshold is a quantity or a share of the capacity, hard (its grace period is 0) or soft. ``0%`` and ``100%`` disable
one. Thresholds of ``containerfs`` are accepted and ignored, like upstream: if containers' layers are on a disk apart
from images, they would be derived from the others.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from trikubelet.model import quantity
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MEMORY: Final = "memory.available"
ALLOCATABLE_MEMORY: Final = "allocatableMemory.available"
"""The memory of all pods together, if their cgroup is limited. Not configurable: it has the thresholds of
``memory.available``."""
NODEFS: Final = "nodefs.available"
NODEFS_INODES: Final = "nodefs.inodesFree"
IMAGEFS: Final = "imagefs.available"
IMAGEFS_INODES: Final = "imagefs.inodesFree"
PIDS: Final = "pid.available"

MEMORY_PRESSURE, DISK_PRESSURE, PID_PRESSURE = "MemoryPressure", "DiskPressure", "PIDPressure"

CONDITIONS: Final = {
    MEMORY: MEMORY_PRESSURE,
    ALLOCATABLE_MEMORY: MEMORY_PRESSURE,
    NODEFS: DISK_PRESSURE,
    NODEFS_INODES: DISK_PRESSURE,
    IMAGEFS: DISK_PRESSURE,
    IMAGEFS_INODES: DISK_PRESSURE,
    PIDS: PID_PRESSURE,
}
"""The node condition of a met threshold of the signal."""

RESOURCES: Final = {
    MEMORY: "memory",
    ALLOCATABLE_MEMORY: "memory",
    NODEFS: "ephemeral-storage",
    NODEFS_INODES: "inodes",
    IMAGEFS: "ephemeral-storage",
    IMAGEFS_INODES: "inodes",
    PIDS: "pids",
}
"""The resource that is short then."""

MEMORY_SIGNALS: Final = (MEMORY, ALLOCATABLE_MEMORY)
IMAGE_SIGNALS: Final = (IMAGEFS, IMAGEFS_INODES)
DISK_SIGNALS: Final = (NODEFS, NODEFS_INODES, *IMAGE_SIGNALS)
INODE_SIGNALS: Final = (NODEFS_INODES, IMAGEFS_INODES)


class Amount(Frozen):
    """A quantity (bytes, inodes or processes), or a share of the capacity if ``share`` is given."""

    quantity: int = 0
    share: Fraction | None = None

    def of(self, capacity: int) -> int:
        """Return the amount for this capacity."""
        return self.quantity if self.share is None else int(capacity * self.share)


class Threshold(Frozen):
    """Met while less than ``value`` of the signal is available. ``grace_seconds``: how long it must be met before a pod
    is evicted, 0 for a hard one; ``reclaim``: once met, how much more than ``value`` must be available before it
    counts as resolved."""

    signal: str
    value: Amount
    grace_seconds: float = 0.0
    reclaim: Amount = Amount()

    @property
    def is_hard(self) -> bool:
        """True if a pod is evicted at once, with the least grace."""
        return self.grace_seconds == 0.0

    @property
    def condition(self) -> str:
        """The node condition of the threshold."""
        return CONDITIONS[self.signal]


def parse_thresholds(
    hard: Mapping[str, str],
    soft: Mapping[str, str],
    soft_grace_seconds: Mapping[str, float],
    minimum_reclaim: Mapping[str, str],
    *,
    pods_limited: bool = False,
) -> tuple[Threshold, ...]:
    """Return all enabled thresholds, hard ones first, by signal. ``pods_limited``: the cgroup of all pods is limited to
    the allocatable amounts. The texts were checked with the configuration; raises ValueError for an unchecked one."""
    if pods_limited and MEMORY in hard:
        hard = {**hard, ALLOCATABLE_MEMORY: hard[MEMORY]}
        minimum_reclaim = {**minimum_reclaim, ALLOCATABLE_MEMORY: minimum_reclaim.get(MEMORY, "0")}

    def parsed(values: Mapping[str, str], graces: Mapping[str, float]) -> Iterator[Threshold]:
        for signal in CONDITIONS:
            value = parse_amount(values[signal]) if signal in values else None
            if value is not None:
                reclaim = parse_amount(minimum_reclaim.get(signal, "0")) or Amount()
                yield Threshold(signal, value, graces.get(signal, 0.0), reclaim)

    return (*parsed(hard, {}), *parsed(soft, soft_grace_seconds))


def parse_amount(text: str) -> Amount | None:
    """Return a quantity, or a share written with a percent sign; None for 0% and 100%, which disable a threshold.
    Raises ValueError."""
    if not text.endswith("%"):
        return Amount(quantity.whole(text))
    share = Fraction(text.removesuffix("%")) / 100
    return Amount(share=share) if 0 < share < 1 else None
