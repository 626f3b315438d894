"""Volumes of CSI drivers: from the API server's objects to the calls of the driver, and back.

    CSIDriver object ─► attached, if a controller has to ─► driver registered ─► its turn at the volume:
        recorded for the pod ─► staged once on the node ─► published to the pod ─► its files' group changed (fsGroup)
    pod gone ─► unpublished ─► no pod uses it any more ─► unstaged

Setting up and unpublishing run in the pod's own task, so a driver that hangs delays only the pods that use it.
Unstaging has tasks here, and nothing waits for it. Each operation is recorded on disk before the driver is called
(``volumes.csi_records``), so that a later process of the agent finishes it, and a driver is asked to undo only what it
may have done. Every call to a driver has a deadline; a caller that gives up retries later, as the CSI specification
requires.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core import csi
from trikubelet.core.names import object_ref
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.slot import Slot
from trikubelet.kit.threads import StillRunning
from trikubelet.model.csi import Capability, Publish, Stage
from trikubelet.model.errors import ObjectUnavailable, VolumeFailed
from trikubelet.model.plugins import PluginFailed
from trikubelet.plugins.asking import within
from trikubelet.volumes import ownership
from trikubelet.volumes.csi_expansion import NodeExpansion
from trikubelet.volumes.csi_registration import CALL_SECONDS_MAX
from trikubelet.volumes.mounter import is_mounted
from trikubelet.volumes.ownership_progress import change_ownership_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping
    from pathlib import Path

    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.csi import DriverInfo, VolumeStats
    from trikubelet.model.k8s import CSIDriver, Pod
    from trikubelet.model.objects import ObjectRef
    from trikubelet.volumes.csi_attachments import CsiAttachments
    from trikubelet.volumes.csi_records import CsiRecords, Published, Staged
    from trikubelet.volumes.csi_registration import Registered, RegisteredDrivers
    from trikubelet.volumes.mounter import Mounter

log = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 30.0
"""Pause before unstaging is retried."""
MODE: Final = 0o750
_PROBLEMS: Final = (PluginFailed, ObjectUnavailable, OSError, StillRunning, ValueError)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A volume that this process of the agent set up for a pod, and the last publish request to its driver. ``name``:
    its name in the pod."""

    pod: ObjectRef
    name: str
    volume: csi.Volume
    object: CSIDriver | None
    request: Publish

    @property
    def path(self) -> str:
        """The host path at which it is published to the pod."""
        return self.request.target_path


@dataclass(slots=True)
class _Turns:
    """The lock of one volume and its users."""

    lock: trio.Lock = field(default_factory=trio.Lock)
    users: int = 0


class CsiVolumes:
    """Owns the volumes that this process of the agent published and staged, and the lock of each volume in use."""

    def __init__(
        self,
        node_name: str,
        registration: RegisteredDrivers,
        attachments: CsiAttachments,
        records: CsiRecords,
        mounter: Mounter,
        threads: ThreadPool,
    ) -> None:
        self.attachments = attachments
        self._node_name = node_name
        self._registration = registration
        self._records = records
        self._mounter = mounter
        self._threads = threads
        self._ready: dict[tuple[str, str], _Ready] = {}
        self._staged: set[Path] = set()
        self._turns: dict[tuple[str, str], _Turns] = {}
        self._unstaging: set[Path] = set()
        self._failure_log: dict[Path, str] = {}
        self._barriers = FaultBarriers(log, "%s: a bug in unstaging it; retrying later")
        self._sweeps: Slot[None] = Slot()
        self._expansion = NodeExpansion(
            node_name, registration, attachments, self._turn, lambda key: key in self._ready
        )
        registration.changed.add(self._drivers_changed)

    def in_use(self) -> Collection[str]:
        """Return the unique names of the volumes that must be attached to this node, or stay attached."""
        return {*self.attachments.needed, *self._records.attached()}

    def drivers(self) -> Mapping[str, DriverInfo]:
        """Return the registered drivers, by name."""
        return {name: one.info for name, one in self._registration.drivers.items()}

    def _drivers_changed(self) -> None:
        self._sweeps.put(None)
        self.attachments.changed()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Expand volumes, and unstage those that no pod uses any more, until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._expansion.run)
            task_status.started()
            while True:
                for staged in list(self._records.staged.values()):
                    if staged.path not in self._unstaging and not self._records.is_used(staged.data.identity):
                        self._unstaging.add(staged.path)
                        nursery.start_soon(self._unstage_guarded, staged)
                with trio.move_on_after(SWEEP_SECONDS):
                    await self._sweeps.take()

    # ---- up ----

    async def set_up(self, pod: Pod, name: str, volume: csi.Volume) -> str:
        """Set up the volume that the pod calls ``name``. Return its host path; for a block volume, the device's. If it
        is set up already, publish it again where its driver requires that; a failure leaves it in place. Raises
        VolumeFailed."""
        key = (pod.metadata.uid, volume.name)
        ready = self._ready.get(key)
        if ready is None:
            made = self._ready[key] = await self._set_up(pod, name, volume)
            self._expansion.look(pod, volume, made.request)
            return made.path
        self._expansion.look(pod, volume, ready.request)
        if ready.object is not None and ready.object.spec.requires_republish:
            await self._republish(pod, volume, ready)
        return ready.path

    async def volume_stats(self, uid: str, path: str) -> VolumeStats | None:
        """Return the driver's stats of the pod's volume at this host path; None if no driver reports any. Waits for its
        turn. Raises PluginFailed."""
        ready = next((one for (owner, _), one in self._ready.items() if (owner, one.path) == (uid, path)), None)
        registered = self._registration.drivers.get(ready.volume.driver) if ready is not None else None
        if ready is None or registered is None or Capability.GET_VOLUME_STATS not in registered.capabilities:
            return None
        async with registered.stats_limiter:
            with within(CALL_SECONDS_MAX):
                stats = await registered.driver.volume_stats(ready.volume.handle, path)
        if stats.is_abnormal:
            said = f"Volume {ready.name}: {stats.condition}"
            self.attachments.record([ready.pod], "Warning", "VolumeConditionAbnormal", said)
        return stats

    async def _set_up(self, pod: Pod, name: str, volume: csi.Volume) -> _Ready:
        kind = "MapVolume" if volume.is_block else "MountVolume"
        request = Publish(volume.handle, "", csi.use_of(volume, frozenset(), None), read_only=volume.read_only)
        with _failing_mount(f"{kind}.SetUp", volume):
            driver = await self.attachments.driver(volume)
        if is_attached := csi.is_attached_first(volume, driver):
            with _failing_mount(f"{kind}.WaitForAttach", volume):
                request = replace(request, attached=await self.attachments.attached(pod, volume))
        data = csi.volume_data(volume, self._node_name, is_attached=is_attached)
        with _failing_mount(f"{kind}.SetUp", volume):
            registered = await self._registration.driver(volume.driver)
            group = ownership.group_of(pod, read_only=volume.read_only)
            use = csi.use_of(volume, registered.capabilities, group.id if group is not None else None)
            async with self._turn(volume.identity):
                is_used = self._records.is_used(volume.identity)
                async with self._noted(pod, volume, data) as published:
                    request = replace(request, use=use, target_path=str(published.target))
                    request = replace(request, staging_path=await self._stage(registered, volume, data, request))
                    if volume.needs_expansion and request.staging_path and not (is_used or volume.is_block):
                        await self._expansion.before_use(pod, volume, request)
                    request = await self._publish(registered, pod, volume, driver, request)
            if group is not None and csi.applies_fs_group(volume, driver, registered.capabilities):
                await change_ownership_in_thread(
                    pod, name, self._threads, partial(_apply_fs_group, request.target_path, group)
                )
        return _Ready(object_ref(pod), name, volume, driver, request)

    @contextlib.asynccontextmanager
    async def _noted(self, pod: Pod, volume: csi.Volume, data: csi.VolumeData) -> AsyncGenerator[Published, None]:
        """Record that the volume is about to be published to the pod; drop the record if the driver's error is
        final."""
        # A record from before stays: the volume was published by an earlier call, and has to be unpublished.
        is_new = (pod.metadata.uid, volume.name) not in self._records.published
        published = await self._records.note_published(pod.metadata.uid, volume, data)
        try:
            yield published
        except (PluginFailed, ObjectUnavailable, VolumeFailed, ValueError) as error:
            if is_new and _is_final(error):
                with _keeping_records(volume):
                    await self._records.drop_published(published)
                self._sweeps.put(None)
            raise

    async def _stage(self, registered: Registered, volume: csi.Volume, data: csi.VolumeData, request: Publish) -> str:
        """Stage the volume, unless that was done. Return its staging path; "" for a driver that does not stage."""
        stages = Capability.STAGE_UNSTAGE_VOLUME in registered.capabilities
        if not stages and not volume.is_block:
            return ""
        if volume.lifecycle == csi.EPHEMERAL:
            return ""
        path = self._records.staging_path(volume)
        is_new = path not in self._records.staged
        staged = await self._records.note_staged(volume, data)
        if not stages:
            return ""
        if path in self._staged:
            return str(path)
        with _failing_mount("MapVolume.MapBlockVolume" if volume.is_block else "MountVolume.MountDevice", volume):
            secrets = await self.attachments.secrets(volume.stage_secret)
            await self._threads.run(partial(_make_directory, path), f"stage {path}", may_hang=True)
            stage = Stage(volume.handle, str(path), request.use, request.attached, secrets, volume.attributes)
            try:
                with within(CALL_SECONDS_MAX):
                    await registered.driver.stage(stage)
            except PluginFailed as error:
                if is_new and error.is_final:
                    with _keeping_records(volume):
                        await self._drop_staged(staged)
                raise
        self._staged.add(path)
        return str(path)

    async def _publish(
        self, registered: Registered, pod: Pod, volume: csi.Volume, driver: CSIDriver | None, request: Publish
    ) -> Publish:
        """Publish with current secrets and pod info; returns the request without them, since they are renewed each
        time."""
        secrets = await self.attachments.secrets(volume.publish_secret)
        context, more_secrets = await self.attachments.pod_context(pod, volume, driver)
        whole = replace(request, context={**volume.attributes, **context}, secrets={**secrets, **more_secrets})
        with within(CALL_SECONDS_MAX):
            await registered.driver.publish(whole)
        return request

    async def _republish(self, pod: Pod, volume: csi.Volume, ready: _Ready) -> None:
        """Publish again for a driver with ``requiresRepublish``, with new tokens. Raises VolumeFailed, and records an
        event."""
        try:
            with _failing_mount("MountVolume.SetUp", volume):
                registered = self._registration.registered(volume.driver)
                async with self._turn(volume.identity):
                    await self._publish(registered, pod, volume, ready.object, ready.request)
        except VolumeFailed as error:
            self.attachments.record([ready.pod], "Warning", error.reason, error.message)
            raise

    # ---- down ----

    async def tear_down(self, uid: str) -> None:
        """Unpublish all volumes of the pod concurrently. Raises VolumeFailed."""
        # Without its record the driver cannot be asked, and removing the pod's directory would hide a mount.
        if problem := self._records.unread.get(uid):
            raise VolumeFailed("FailedUnmount", f"UnmountVolume.TearDown failed for pod {uid}: {problem}")
        # Not ready from now on, even if a step below fails: no stats and no expansion while it is being unpublished.
        for key in [key for key in self._ready if key[0] == uid]:
            del self._ready[key]
        self._expansion.keep({ready.volume.identity for ready in self._ready.values()})
        failed: list[str] = []
        async with trio.open_nursery() as nursery:
            for published in self._records.of_pod(uid):
                nursery.start_soon(self._unpublish, published, failed)
        if failed:
            raise VolumeFailed("FailedUnmount", *failed)
        self.attachments.release(uid)

    async def _unpublish(self, published: Published, failed: list[str]) -> None:
        data = published.data
        try:
            registered = self._registration.registered(data.driver_name)
            async with self._turn(data.identity):
                with within(CALL_SECONDS_MAX):
                    await registered.driver.unpublish(data.volume_handle, str(published.target))
                await self._remove(published.target)
                await self._records.drop_published(published)
        except _PROBLEMS as error:
            kind = "UnmapVolume" if published.is_block else "UnmountVolume"
            message = f'{kind}.TearDown failed for volume "{published.name}" pod "{published.uid}" : {error}'
            failed.append(message)
            return
        self._sweeps.put(None)
        self.attachments.changed()

    async def _unstage_guarded(self, staged: Staged) -> None:
        try:
            with self._barriers.of(f"Volume {staged.data.spec_vol_id or staged.data.volume_handle}"):
                await self._unstage(staged)
        finally:
            self._unstaging.discard(staged.path)

    async def _unstage(self, staged: Staged) -> None:
        """Unstage a volume that no pod uses, if that is still so when its turn comes. Retried later if it fails."""
        data = staged.data
        try:
            registered = self._registration.registered(data.driver_name)
            async with self._turn(data.identity):
                if self._records.is_used(data.identity) or staged.path not in self._records.staged:
                    return
                # Discarded before the call: if the answer is lost, the driver may have unstaged it.
                self._staged.discard(staged.path)
                if Capability.STAGE_UNSTAGE_VOLUME in registered.capabilities:
                    with within(CALL_SECONDS_MAX):
                        await registered.driver.unstage(data.volume_handle, str(staged.path))
                await self._drop_staged(staged)
            self._failure_log.pop(staged.path, None)
        except _PROBLEMS as error:
            message = f'UnmountDevice failed for volume "{data.spec_vol_id or data.volume_handle}" : {error}'
            if self._failure_log.get(staged.path) != message:
                log.warning("%s; retrying", message)
            self._failure_log[staged.path] = message

    async def _drop_staged(self, staged: Staged) -> None:
        await self._remove(staged.path)
        await self._records.drop_staged(staged)
        self.attachments.changed()

    async def _remove(self, path: Path) -> None:
        """Remove what a driver may have left at a path: an empty directory or file or, against the rules, a mount."""
        await self._threads.run(partial(self._remove_left, path), f"remove {path}", may_hang=True)

    def _remove_left(self, path: Path) -> None:
        if is_mounted(self._mounter, path):
            self._mounter.unmount(str(path))
        with contextlib.suppress(FileNotFoundError):
            try:
                os.unlink(path)
            except OSError as error:
                if error.errno not in (errno.EISDIR, errno.EPERM):
                    raise
                os.rmdir(path)

    @contextlib.asynccontextmanager
    async def _turn(self, identity: tuple[str, str]) -> AsyncGenerator[None, None]:
        """Hold the volume's lock, so that it is not unstaged after its last pod while it is staged for a new one."""
        turns = self._turns.setdefault(identity, _Turns())
        turns.users += 1
        try:
            async with turns.lock:
                yield
        finally:
            turns.users -= 1
            if not turns.users:
                del self._turns[identity]

    def __repr__(self) -> str:
        return f"<CsiVolumes: {len(self._ready)} ready, {self._records!r}>"


@contextlib.contextmanager
def _failing_mount(doing: str, volume: csi.Volume) -> Generator[None, None, None]:
    """Turn errors of the block into VolumeFailed with upstream's message."""
    try:
        yield
    except _PROBLEMS as error:
        raise VolumeFailed("FailedMount", f'{doing} failed for volume "{volume.name}" : {error}') from error


@contextlib.contextmanager
def _keeping_records(volume: csi.Volume) -> Generator[None, None, None]:
    """Log errors of the block, which drops a record after the driver failed, because the caller raises the driver's
    error. If the record stays, the driver is asked to undo something that it has not done, which is harmless."""
    try:
        yield
    except _PROBLEMS as error:
        log.warning('Volume "%s": cannot remove its record after the driver failed: %s', volume.name, error)


def _is_final(error: BaseException) -> bool:
    """True if, by the error or its cause, the driver certainly has not done the operation."""
    cause = error.__cause__ if isinstance(error, VolumeFailed) else error
    return not isinstance(cause, PluginFailed) or cause.is_final


def _make_directory(path: Path) -> None:
    path.mkdir(mode=MODE, parents=True, exist_ok=True)


def _apply_fs_group(path: str, group: ownership.Group, done: Callable[[], None]) -> None:
    root = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        ownership.apply_fs_group(root, group, done)
    finally:
        os.close(root)
