"""What takes long to measure: how full volumes and logs are. Looked at when somebody asks, and believed for a while, by
default a minute.

    measure(pods) ─► those never measured, or too long ago ─► threads ─► known
                     └ waited for at most two seconds; what takes longer is there for the next who asks

A pod's directories on the node's disk and in memory are one piece of work: a container can make its own take long, and
then its pod gives its place up to the next, and goes on beside it. Each volume of a server is a piece by itself, since
it may hang for ever: then nothing is reported of it, and its thread is the only one it gets. Of a volume whose driver
reports how full it is the driver is asked. Nothing runs while nobody asks. (upstream-behaviour.md §1.23: every minute,
and not all pods at once)
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

import trio

from trikubelet.core.claims import claim_of
from trikubelet.core.names import all_containers, log_directory_name
from trikubelet.core.stats.assembly import Disk
from trikubelet.kit.background import BackgroundTasks
from trikubelet.kit.barrier import Barrier
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.keyed_tasks import KeyedTasks
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.csi import DriverFailed
from trikubelet.model.stats_snapshot import VolumeUsed
from trikubelet.model.usage import FsUsage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trikubelet.model import k8s
    from trikubelet.model.csi import VolumeStats
    from trikubelet.model.usage import ImageStore
    from trikubelet.ports import Clock, Gauges, Volumes

log = logging.getLogger(__name__)

SPREAD: Final = 0.5
"""By up to so much of that time a pod's first measurement counts as older than it is, so that they are not all due at
once."""
LOGS_BELIEVED_SECONDS: Final = 60.0
"""Where volumes are never measured."""
WAIT_SECONDS_MAX: Final = 2.0
PODS_AT_ONCE: Final = 2
SLOW_SECONDS: Final = 0.5
"""A pod whose own directories take longer gives its place up."""
LOCAL_THREADS_MAX: Final = 16
"""With those of slow pods. When all have one, the next waits until the first of them is counted, as far as it goes."""
STATVFS_THREADS_MAX: Final = 2
REMOTE_THREADS_MAX: Final = 8
LOGS, VOLUMES = "logs/", "volumes/"


class _Piece(NamedTuple):
    """What is measured in one go: directories by what they are, ``logs/CONTAINER`` or ``volumes/NAME``."""

    key: str
    paths: Mapping[str, str]
    is_remote: bool


class _Known(NamedTuple):
    """What a piece came to, None where measuring it met a bug or found no thread, and since when that counts (Trio's
    clock). ``is_abnormal``: what a driver says of its volume."""

    at: float
    found: Mapping[str, FsUsage] | None
    is_abnormal: bool | None = None


class Disks:
    """Owns how full the pods' volumes and logs were found to be. What is not asked for any more is forgotten."""

    def __init__(
        self, gauges: Gauges, volumes: Volumes, root: Path, pod_logs: Path, clock: Clock, believed_seconds: float
    ) -> None:
        """``believed_seconds``: how long a measurement is believed; negative where volumes are never to be measured,
        which is upstream's way to say that."""
        self._clock = clock
        self._with_volumes = believed_seconds >= 0
        self._believed_seconds = believed_seconds if self._with_volumes else LOGS_BELIEVED_SECONDS
        self._gauges = gauges
        self._volumes = volumes
        self._root = root
        self._pod_logs = pod_logs
        self._local = ThreadPool("disks", LOCAL_THREADS_MAX)
        self._local_tasks = KeyedTasks(PODS_AT_ONCE, SLOW_SECONDS)
        self._statvfs = ThreadPool("file systems", STATVFS_THREADS_MAX)
        self._remote = ThreadPool("disks of servers", REMOTE_THREADS_MAX)
        self._known: dict[str, _Known] = {}
        self._pods: dict[str, k8s.Pod] = {}
        self._busy: set[str] = set()
        self._begun: dict[str, float] = {}  # of those that are busy the local ones, since when
        self._news = trio.lowlevel.ParkingLot()
        self._tasks = BackgroundTasks()
        self._barriers = FaultBarriers(log, "%s: a bug in measuring its usage; none is reported")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the measurements under way, until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._local_tasks.run)
            await nursery.start(self._tasks.run)
            task_status.started()

    async def measure(self, pods: Sequence[k8s.Pod]) -> None:
        """Bring what is known of these pods up to date, as far as that is quickly done. Others are forgotten."""
        now = trio.current_time()
        self._pods = {pod.metadata.uid: pod for pod in pods}
        pieces = {piece.key: piece for pod in pods for piece in self._pieces(pod)}
        self._known = {key: known for key, known in self._known.items() if key in pieces}
        new = pieces.keys() - self._known.keys() - self._busy
        due = [piece for key, piece in pieces.items() if self._is_due(key, now)]
        self._busy |= {piece.key for piece in due}
        for piece in due:
            if piece.is_remote:
                self._tasks.start_soon(self._ask, piece)
            else:
                self._local_tasks.begin(piece.key, partial(self._measure_local, piece))
        with trio.move_on_after(WAIT_SECONDS_MAX):
            while new & self._busy:
                await self._news.park()

    def _is_due(self, key: str, now: float) -> bool:
        known = self._known.get(key)
        return key not in self._busy and (known is None or now - known.at > self._believed_seconds)

    def _pieces(self, pod: k8s.Pod) -> Iterator[_Piece]:
        meta = pod.metadata
        logs = self._pod_logs / log_directory_name(meta.namespace, meta.name, meta.uid)
        local = {LOGS + one.name: str(logs / one.name) for one in all_containers(pod)}
        places = self._volumes.places(meta.uid) if self._with_volumes else {}
        for volume in pod.spec.volumes:
            if volume.name not in places:
                continue
            path = {VOLUMES + volume.name: places[volume.name]}
            if _is_foreign(volume):
                yield _Piece(f"{meta.uid}/{volume.name}", path, is_remote=True)
            else:
                local |= path
        yield _Piece(meta.uid, local, is_remote=False)

    async def _ask(self, piece: _Piece) -> None:
        """Somebody else's volume: its driver reports it, or a thread measures it, as long as that may take."""
        [(name, path)] = piece.paths.items()
        with self._barriers.of(f"Volume {piece.key}") as barrier:
            try:
                volume_stats = await self._volumes.volume_stats(piece.key.partition("/")[0], path)
            except DriverFailed as error:
                log.debug("The driver of %s does not report how full it is: %s", path, error)
                self._know(piece, {})
                return
        if barrier.fault is not None:
            self._know(piece, None)
            return
        if volume_stats is None:
            await self._measure(self._remote, piece)
        else:
            self._know(
                piece, {name: _of_driver(volume_stats, self._clock.now_ns())}, is_abnormal=volume_stats.is_abnormal
            )

    async def _measure_local(self, piece: _Piece) -> None:
        self._begun[piece.key] = trio.current_time()
        await self._measure(self._local, piece)
        del self._begun[piece.key]

    async def _measure(self, threads: ThreadPool, piece: _Piece) -> None:
        found: Mapping[str, FsUsage] | Exception | None = None
        with self._barriers.of(f"Pod {piece.key}"):
            with suppress(OSError):  # there was no thread for it; there may be one when it is due again
                found = await threads.run(partial(_size, self._gauges, piece.paths))
            if isinstance(found, Exception):
                raise found
        self._know(piece, None if isinstance(found, Exception) else found)

    def _know(self, piece: _Piece, found: Mapping[str, FsUsage] | None, *, is_abnormal: bool | None = None) -> None:
        share = 0.0 if piece.key in self._known else SPREAD * crc32(piece.key.encode()) / 2**32
        spread = share * self._believed_seconds
        self._known[piece.key] = _Known(trio.current_time() - spread, found, is_abnormal)
        self._busy.discard(piece.key)
        self._news.unpark_all()

    def of(self, uid: str) -> Disk:
        """What is known of a pod's directories."""
        pod, known = self._pods.get(uid), self._known.get(uid)
        found = known.found.items() if known is not None and known.found is not None else ()
        logs = {name.removeprefix(LOGS): usage for name, usage in found if name.startswith(LOGS)}
        return Disk(logs, tuple(self._volumes_of(pod)) if pod is not None else (), is_measured=self._is_measured(uid))

    def _is_measured(self, uid: str) -> bool:
        """Not while a pod takes too long at its first time; one that only waits for its turn has done nothing."""
        if (known := self._known.get(uid)) is not None:
            return known.found is not None
        now = trio.current_time()
        return now - self._begun.get(uid, now) < SLOW_SECONDS

    def claimed(self) -> Iterator[tuple[str, VolumeUsed]]:
        """Of all pods the volumes behind claims, with the namespace the claim is in."""
        for pod in self._pods.values():
            for volume in self._volumes_of(pod):
                if volume.claim:
                    yield pod.metadata.namespace, volume

    def _volumes_of(self, pod: k8s.Pod) -> Iterator[VolumeUsed]:
        uid = pod.metadata.uid
        for volume in pod.spec.volumes:
            key = f"{uid}/{volume.name}" if _is_foreign(volume) else uid
            known = self._known.get(key)
            if known is None or known.found is None:
                continue
            if (usage := known.found.get(VOLUMES + volume.name)) is not None:
                claim, is_local = claim_of(pod, volume), _is_ephemeral(volume)
                yield VolumeUsed(volume.name, usage, claim.name if claim else "", is_local, known.is_abnormal)

    async def root(self) -> FsUsage | None:
        """The disk of the root directory."""
        return await self._disk(str(self._root))

    async def device(self) -> str:
        """What that is called; empty where that cannot be found."""
        try:
            with trio.fail_after(WAIT_SECONDS_MAX):
                return await self._statvfs.run(partial(self._gauges.device, str(self._root)))
        except (OSError, trio.TooSlowError) as error:
            log.debug("What the disk of %s is called cannot be found out: %r", self._root, error)
            return ""

    async def store(self, stores: Sequence[ImageStore]) -> FsUsage | None:
        """What the first of a runtime's stores takes, and its disk."""
        if not stores:
            return None
        used, disk = stores[0].usage, await self._disk(stores[0].mount_point)
        if disk is None:
            return used
        return FsUsage(
            max(used.at_ns, disk.at_ns),
            used.used_bytes,
            used.inodes_used,
            disk.available_bytes,
            disk.capacity_bytes,
            disk.inodes_free,
            disk.inodes,
            disk.file_system,
        )

    async def _disk(self, path: str) -> FsUsage | None:
        try:
            with trio.fail_after(WAIT_SECONDS_MAX):
                return await self._statvfs.run(partial(self._gauges.disk, path))
        except (OSError, trio.TooSlowError) as error:
            log.debug("The disk of %s cannot be measured: %r", path, error)
            return None

    def __repr__(self) -> str:
        return f"<Disks: {len(self._known)} known, {len(self._busy)} being measured>"


def _size(gauges: Gauges, paths: Mapping[str, str]) -> Mapping[str, FsUsage] | Exception:
    """Every directory that is there, or the bug that they provoked."""
    found: dict[str, FsUsage] = {}
    with Barrier(lambda _: None) as barrier:  # said where it is no thread
        found.update(_found(gauges, paths))
    return found if barrier.fault is None else barrier.fault


def _found(gauges: Gauges, paths: Mapping[str, str]) -> Iterator[tuple[str, FsUsage]]:
    for name, path in paths.items():
        with suppress(OSError):  # a container without logs, a volume that has just gone
            yield name, gauges.directory(path)


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
    """Whether somebody else's disk may be behind it."""
    return bool(volume.nfs or volume.persistent_volume_claim or volume.ephemeral or volume.csi)


def _is_ephemeral(volume: k8s.Volume) -> bool:
    """Whether its files count as the pod's ephemeral storage; those of secrets and tokens are in memory."""
    on_disk = volume.empty_dir is not None and volume.empty_dir.medium == ""
    return bool(on_disk or volume.config_map or volume.downward_api)
