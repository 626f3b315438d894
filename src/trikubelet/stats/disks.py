"""Slow measurements: how full volumes and logs are. They are made on request and cached, by default for a minute.

    measure(pods) ─► those never measured, or too long ago ─► threads ─► results
                     └ waits two seconds at most; slower ones are available to the next caller

A pod's directories on the node's disk and in memory are one piece. A container can make its own slow; then its pod
gives its place to the next, and continues in turns with other slow ones. Eviction sees the count so far. Each remote
volume is a piece of its own, because it may hang for ever: then no usage is reported for it, and it gets no second
thread. If a volume's driver reports how full it is, the driver is called instead. The files of a pod's own directory
are measured separately (``own_files``), at every request. Nothing runs without requests. (upstream-behaviour.md §1.23:
every minute, and not all pods at once)
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Final
from zlib import crc32

import trio

from trikubelet.core.claims import claim_of
from trikubelet.core.names import log_directory_name, with_ephemeral
from trikubelet.core.stats.assembly import Disk
from trikubelet.kit.background import BackgroundTasks
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.keyed_tasks import KeyedTasks
from trikubelet.kit.thread_turns import ThreadTurns
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.plugins import PluginFailed
from trikubelet.model.stats_snapshot import VolumeUsed
from trikubelet.model.usage import FsUsage
from trikubelet.stats.disk_pieces import Count, Piece, Record, size
from trikubelet.stats.own_files import OwnFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from trikubelet.model import k8s
    from trikubelet.model.csi import VolumeStats
    from trikubelet.ports import Clock, Gauges, Volumes

log = logging.getLogger(__name__)

SPREAD: Final = 0.5
"""Up to that fraction of the cache time a pod's first measurement counts as older than it is, so that they do not all
expire at once."""
LOGS_BELIEVED_SECONDS: Final = 60.0
"""Cache time in seconds where volumes are never measured."""
WAIT_SECONDS_MAX: Final = 2.0
PODS_AT_ONCE: Final = 2
SLOW_SECONDS: Final = 0.5
"""Seconds after which a pod gives its place to the next."""
LOCAL_THREADS_MAX: Final = 16
"""Threads, those of slow pods included. When all are used, the next pod waits until the first of them is counted, as
far as it goes."""
TURNS_AT_ONCE: Final = 2
"""Slow pods that count at the same time, because each computing thread delays the event loop."""
REMOTE_THREADS_MAX: Final = 8
LOGS, VOLUMES = "logs/", "volumes/"


class Disks:
    """Owns the measured sizes of the pods' volumes and logs. Those that are no longer requested are forgotten."""

    def __init__(
        self,
        *,
        gauges: Gauges,
        volumes: Volumes,
        pods: Path,
        pod_logs: Path,
        clock: Clock,
        believed_seconds: float,
    ) -> None:
        """``pods``: the directory of the pods' directories; ``pod_logs``: of their log directories.
        ``believed_seconds``: the cache time; negative to never measure volumes, as upstream configures it."""
        self._clock = clock
        self._with_volumes = believed_seconds >= 0
        self._believed_seconds = believed_seconds if self._with_volumes else LOGS_BELIEVED_SECONDS
        self._gauges = gauges
        self._volumes = volumes
        self._pod_logs = pod_logs
        self._own_files = OwnFiles(gauges, pods)
        self._local = ThreadPool("disks", LOCAL_THREADS_MAX)
        self._turns = ThreadTurns(TURNS_AT_ONCE)
        self._local_tasks = KeyedTasks(PODS_AT_ONCE, SLOW_SECONDS)
        self._remote = ThreadPool("disks of servers", REMOTE_THREADS_MAX)
        self._records: dict[str, Record] = {}
        self._pods: dict[str, k8s.Pod] = {}
        self._news = trio.lowlevel.ParkingLot()
        self._tasks = BackgroundTasks()
        self._barriers = FaultBarriers(log, "%s: a bug in measuring its usage; none is reported")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run measurements until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._local_tasks.run)
            await nursery.start(self._tasks.run)
            task_status.started()

    async def measure(self, pods: Sequence[k8s.Pod]) -> None:
        """Update the results for these pods, as far as that is fast. Others are forgotten."""
        new = self._begin(pods)
        with trio.move_on_after(WAIT_SECONDS_MAX):
            await self._own_files.measure(pods)
            while any(one.is_busy for one in new):
                await self._news.park()

    async def counted(self, pods: Sequence[k8s.Pod]) -> None:
        """Do the same and wait until no first or expired count of these pods' directories on the node's own disk is in
        progress."""
        await trio.lowlevel.checkpoint()
        self._begin(pods)
        while any((record := self._records.get(uid)) is not None and record.is_busy for uid in self._pods):
            await self._news.park()

    def _begin(self, pods: Sequence[k8s.Pod]) -> Sequence[Record]:
        """Start missing and expired measurements; return those never completed."""
        now = trio.current_time()
        self._pods = {pod.metadata.uid: pod for pod in pods}
        pieces = {piece.key: piece for pod in pods for piece in self._pieces(pod)}
        # A piece that is being measured is kept: otherwise it would be measured twice if its pod were requested again.
        self._records = {key: one for key, one in self._records.items() if key in pieces or one.is_busy}
        new: list[Record] = []
        for piece in pieces.values():
            record = self._records.setdefault(piece.key, Record())
            if record.is_busy or now - record.at <= self._believed_seconds:
                continue
            if record.found is None:
                new.append(record)
            record.is_busy = True
            if piece.is_remote:
                self._tasks.start_soon(self._ask, piece, record)
            else:
                self._local_tasks.begin(piece.key, partial(self._count, piece, record))
        return new

    def _pieces(self, pod: k8s.Pod) -> Iterator[Piece]:
        meta = pod.metadata
        logs = self._pod_logs / log_directory_name(meta.namespace, meta.name, meta.uid)
        local = {LOGS + one.name: str(logs / one.name) for one in with_ephemeral(pod)}
        places = self._volumes.places(meta.uid) if self._with_volumes else {}
        for volume in pod.spec.volumes:
            if volume.name not in places:
                continue
            path = {VOLUMES + volume.name: places[volume.name]}
            if _is_foreign(volume):
                yield Piece(f"{meta.uid}/{volume.name}", path, is_remote=True)
            else:
                local |= path
        yield Piece(meta.uid, local, is_remote=False)

    async def _ask(self, piece: Piece, record: Record) -> None:
        """Measure a remote volume: its driver reports it, or a thread measures it, however long that takes."""
        [(name, path)] = piece.paths.items()
        volume_stats: VolumeStats | None = None
        with self._barriers.of(f"Volume {piece.key}") as barrier:
            try:
                volume_stats = await self._volumes.volume_stats(piece.key.partition("/")[0], path)
            except PluginFailed as error:
                log.debug("The driver of %s does not report how full it is: %s", path, error)
                self._know(piece, record, {})
                return
        if barrier.fault is not None:
            self._know(piece, record, None)
        elif volume_stats is None:
            await self._measure(self._remote, piece, record, partial(size, self._gauges, piece.paths))
        else:
            record.is_abnormal = volume_stats.is_abnormal
            self._know(piece, record, {name: _of_driver(volume_stats, self._clock.now_ns())})

    async def _count(self, piece: Piece, record: Record) -> None:
        count = Count(record, self._turns)
        await self._measure(self._local, piece, record, partial(count.run, self._gauges, piece.paths))

    async def _measure(
        self,
        threads: ThreadPool,
        piece: Piece,
        record: Record,
        work: Callable[[], Mapping[str, FsUsage] | Exception],
    ) -> None:
        found: Mapping[str, FsUsage] | None = None
        with self._barriers.of(f"Pod {piece.key}"):
            try:
                counted = await threads.run(work)
            except OSError:  # no thread was available: the old result stays, and the next request starts it again
                record.is_busy = False
                self._news.unpark_all()
                return
            if isinstance(counted, Exception):
                raise counted
            found = counted
        self._know(piece, record, found)

    def _know(self, piece: Piece, record: Record, found: Mapping[str, FsUsage] | None) -> None:
        """Store a result. ``found``: None if measuring met a bug."""
        is_first = record.at == -math.inf
        share = SPREAD * crc32(piece.key.encode()) / 2**32 if is_first else 0.0
        record.at = trio.current_time() - share * self._believed_seconds
        record.found, record.has_fault, record.so_far = found, found is None, {}
        record.is_busy = False
        self._news.unpark_all()

    def of(self, uid: str) -> Disk:
        """Return the results for a pod's directories."""
        pod, record, files = self._pods.get(uid), self._records.get(uid), self._own_files.of(uid)
        if pod is None or record is None:
            return Disk({}, (), hosts=files.hosts, messages=files.messages)
        found = (record.found or {}).items()
        logs = {name.removeprefix(LOGS): usage for name, usage in found if name.startswith(LOGS)}
        is_measured = record.found is not None
        so_far = None if is_measured or record.has_fault else self._so_far(pod, record)
        volumes = tuple(self._volumes_of(pod))
        return Disk(logs, volumes, is_measured, so_far, hosts=files.hosts, messages=files.messages)

    def _so_far(self, pod: k8s.Pod, record: Record) -> FsUsage:
        """Return the count so far of the pod's logs and of its volumes on the node's own disk."""
        own = {VOLUMES + volume.name for volume in pod.spec.volumes if _is_ephemeral(volume)}
        counts = [count for name, count in record.so_far.items() if name.startswith(LOGS) or name in own]
        return FsUsage(self._clock.now_ns(), sum(used for used, _ in counts), sum(inodes for _, inodes in counts))

    def claimed(self) -> Iterator[tuple[str, VolumeUsed]]:
        """Yield the volumes behind claims of all pods, with the claim's namespace."""
        for pod in self._pods.values():
            for volume in self._volumes_of(pod):
                if volume.claim:
                    yield pod.metadata.namespace, volume

    def _volumes_of(self, pod: k8s.Pod) -> Iterator[VolumeUsed]:
        uid = pod.metadata.uid
        for volume in pod.spec.volumes:
            key = f"{uid}/{volume.name}" if _is_foreign(volume) else uid
            record = self._records.get(key)
            if record is None or record.found is None:
                continue
            if (usage := record.found.get(VOLUMES + volume.name)) is not None:
                claim, is_local = claim_of(pod, volume), _is_ephemeral(volume)
                yield VolumeUsed(volume.name, usage, claim.name if claim else "", is_local, record.is_abnormal)

    def __repr__(self) -> str:
        busy = sum(one.is_busy for one in self._records.values())
        return f"<Disks: {len(self._records)} known, {busy} being measured>"


def _of_driver(volume_stats: VolumeStats, at_ns: int) -> FsUsage:
    return FsUsage(
        at_ns,
        volume_stats.used_bytes,
        volume_stats.inodes_used,
        volume_stats.available_bytes,
        volume_stats.capacity_bytes,
        volume_stats.inodes_free,
        volume_stats.inodes,
    )


def _is_foreign(volume: k8s.Volume) -> bool:
    """True if the volume may be on another machine's disk."""
    return bool(volume.nfs or volume.persistent_volume_claim or volume.ephemeral or volume.csi)


def _is_ephemeral(volume: k8s.Volume) -> bool:
    """True if its files count as the pod's ephemeral storage; those of secrets and tokens are in memory."""
    on_disk = volume.empty_dir is not None and volume.empty_dir.medium == ""
    return bool(on_disk or volume.config_map or volume.downward_api)
