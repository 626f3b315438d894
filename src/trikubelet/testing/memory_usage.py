"""The resource usage of a node in memory and its pods (``ports.NodeUsage``), as a test or a scenario sets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.eviction.thresholds import IMAGEFS, IMAGEFS_INODES, MEMORY, NODEFS, NODEFS_INODES, PIDS
from trikubelet.model.stats_snapshot import ContainerUsed, NodeUsed, PodUsed, StatsSnapshot, Used, VolumeUsed
from trikubelet.model.usage import FsUsage, NodeGauges, Usage
from trikubelet.testing.world import wall_ns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.usage import Depth

GIB: Final = 1 << 30
TOTAL: Final = {
    MEMORY: 8 * GIB,
    NODEFS: 100 * GIB,
    NODEFS_INODES: 1_000_000,
    IMAGEFS: 100 * GIB,
    IMAGEFS_INODES: 1_000_000,
    PIDS: 10_000,
}


class MemoryUsage:
    """Owns the available amount of each signal of the node, and the usage of pods, by UID. ``image_disk``: images are
    on a disk of their own; ``problem``: why nothing can be measured."""

    def __init__(self) -> None:
        self.available = {signal: total // 2 for signal, total in TOTAL.items()}
        self.pods: dict[str, PodUsed] = {}
        self.image_disk = False
        self.problem = ""

    async def node(self) -> NodeUsed:
        """The machine. Raises OSError where there is a problem."""
        await trio.lowlevel.checkpoint()
        if self.problem:
            raise OSError(self.problem)
        now, left = wall_ns(), self.available
        usage = Usage(now, working_set_bytes=TOTAL[MEMORY] - left[MEMORY], processes=TOTAL[PIDS] - left[PIDS])
        gauges = NodeGauges(usage, TOTAL[MEMORY], 0, 4, 0, TOTAL[PIDS])
        disk = _disk(now, left, NODEFS, NODEFS_INODES, 1)
        images = _disk(now, left, IMAGEFS, IMAGEFS_INODES, 2) if self.image_disk else disk
        return NodeUsed("n", gauges, disk=disk, images=images)

    async def snapshot(self, depth: Depth) -> StatsSnapshot:
        """The machine and its pods."""
        return StatsSnapshot(wall_ns(), await self.node(), tuple(self.pods.values()))

    async def disks_measured(self) -> None:
        """Return at once: they always are."""
        await trio.lowlevel.checkpoint()

    def uses(
        self,
        uid: str,
        *,
        memory: int = 0,
        processes: int = 0,
        layer: int = 0,
        logs: int = 0,
        volumes: Mapping[str, int] | None = None,
        container: str = "main",
    ) -> None:
        """Set the pod's usage: bytes of memory, and of the disk in one container's layer, its logs, and volumes."""
        one = ContainerUsed(
            name=container,
            id=f"{uid}-{container}",
            image="",
            started_ns=0,
            used=Used(Usage(wall_ns(), working_set_bytes=memory, processes=processes)),
            layer=FsUsage(wall_ns(), layer, 1),
            logs=FsUsage(wall_ns(), logs, 1),
        )
        measured = tuple(
            VolumeUsed(name, FsUsage(wall_ns(), size, 1), is_local=True) for name, size in (volumes or {}).items()
        )
        self.pods[uid] = PodUsed(uid, uid, "default", 0, containers=(one,), volumes=measured)


def _disk(now: int, left: Mapping[str, int], space: str, inodes: str, number: int) -> FsUsage:
    return FsUsage(
        now,
        TOTAL[space] - left[space],
        TOTAL[inodes] - left[inodes],
        left[space],
        TOTAL[space],
        left[inodes],
        TOTAL[inodes],
        number,
    )
