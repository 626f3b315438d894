"""Computes the signals of a node from measurements: how much of each is available.

If the runtime does not report its image store there are no imagefs signals, and its disk counts as the node's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.eviction.pressure import Observed
from trikubelet.core.eviction.thresholds import (
    ALLOCATABLE_MEMORY,
    IMAGEFS,
    IMAGEFS_INODES,
    MEMORY,
    NODEFS,
    NODEFS_INODES,
    PIDS,
)

if TYPE_CHECKING:
    from trikubelet.model.stats_snapshot import NodeUsed


PODS: Final = "pods"
"""Upstream's name for all pods together among the node's parts."""


def observe(node: NodeUsed) -> dict[str, Observed]:
    """Return every signal that could be measured. All memory except the working set is available: memory that can be
    reclaimed without swapping counts as available."""
    found: dict[str, Observed] = {}
    gauges = node.gauges
    usage, total = gauges.usage, gauges.memory_total_bytes
    if usage.working_set_bytes is not None and total:
        found[MEMORY] = Observed(max(0, total - usage.working_set_bytes), total, usage.at_ns)
    pods = (node.parts or {}).get(PODS)
    if pods is not None and pods.usage.limit_bytes and pods.usage.working_set_bytes is not None:
        limit = min(pods.usage.limit_bytes, total or pods.usage.limit_bytes)
        found[ALLOCATABLE_MEMORY] = Observed(max(0, limit - pods.usage.working_set_bytes), limit, pods.usage.at_ns)
    if usage.processes is not None and gauges.processes_max:
        found[PIDS] = Observed(max(0, gauges.processes_max - usage.processes), gauges.processes_max, usage.at_ns)
    for disk, space, inodes in ((node.disk, NODEFS, NODEFS_INODES), (node.images, IMAGEFS, IMAGEFS_INODES)):
        if disk is None:
            continue
        if disk.available_bytes is not None and disk.capacity_bytes:
            found[space] = Observed(disk.available_bytes, disk.capacity_bytes, disk.at_ns)
        if disk.inodes_free is not None and disk.inodes:  # a file system without a fixed number of inodes reports 0
            found[inodes] = Observed(disk.inodes_free, disk.inodes, disk.at_ns)
    return found


def has_image_disk(node: NodeUsed) -> bool | None:
    """True if images are on a separate file system; None if this was not measured."""
    numbers = [one.file_system for one in (node.disk, node.images) if one is not None]
    return None if None in numbers or len(numbers) < 2 else numbers[0] != numbers[1]
