"""The volumes of this node's pods (``ports.Volumes``): emptyDir, hostPath, those made of data (configMap, secret,
downwardAPI, projected), and persistent ones (claims, nfs) and those of CSI drivers.

Set-up is part of the pod's own attempt; there is no loop and nothing to poll. What may hang runs in threads of a
bounded pool and holds up its own pod only, and that only until the pod has the volume. What is made of data is compared
with its sources at every attempt: whoever knows of a change only has to wake the pod. Taking down asks the disk and the
kernel what is there, not a record, so leftovers of an earlier process go the same way.
"""

from __future__ import annotations

import errno
import logging
import os
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.claims import claim_of
from trikubelet.core.containers import ConfigError
from trikubelet.core.containers.resources import huge_page_bytes, pod_resources
from trikubelet.core.containers.volume_files import fs_group, sources_of
from trikubelet.core.csi import inline
from trikubelet.core.names import object_ref, pod_directory
from trikubelet.host.removal import remove_tree
from trikubelet.kit.threads import StillRunning
from trikubelet.model.errors import VolumeFailed
from trikubelet.model.volume_figures import VolumeFigures
from trikubelet.volumes import atomic_writer, empty_dir, host_path, inside, local, sub_path
from trikubelet.volumes.content import files_of
from trikubelet.volumes.mounter import let_go
from trikubelet.volumes.persistent import PersistentVolumes
from trikubelet.volumes.refreshing import Refreshing
from trikubelet.volumes.side_by_side import set_up_all

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.containers.volume_files import Files, Sources
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.csi import DriverInfo, Told
    from trikubelet.model.k8s import Container, EmptyDirVolumeSource, Node, Pod, Volume
    from trikubelet.model.runtime_config import Mount
    from trikubelet.ports import Claims, Events, PodObjects
    from trikubelet.volumes.csi import CsiVolumes
    from trikubelet.volumes.mounter import Mounter

log = logging.getLogger(__name__)

_TROUBLES: Final = (OSError, ValueError, StillRunning, VolumeFailed)
_TAKING_DOWN: Final = "taken down"
"""Whose threads they are that take pods' volumes down."""
_NOT_YET: Final = "no volume is set up yet: those of an earlier life of the pod are still being removed"


class DiskVolumes:
    """Sets volumes up below the pods' directories. Owns which pods' are being taken down, and how each was left, for
    those who look; what there is the disk and the kernel know."""

    def __init__(
        self,
        root: Path,
        facts: NodeFacts,
        mounter: Mounter,
        threads: ThreadPool,
        *,
        csi: CsiVolumes | None = None,
        one_user: bool = False,
    ) -> None:
        """``csi``: volumes of drivers, where there is a cluster to say what they are; ``one_user``: containers are
        processes of the agent's own user, who sees the same files and cannot mount."""
        # The real path, by which the kernel knows what is mounted there.
        self._pods = root.resolve() / "pods"
        self._facts = facts
        self._mounter = mounter
        self._threads = threads
        self._one_user = one_user
        self._csi = csi
        self._persistent = PersistentVolumes(self._pods, mounter, threads, csi)
        self._refreshing = Refreshing()
        self._told: dict[str, dict[str, str]] = {}
        self._places: dict[str, dict[str, str]] = {}
        self._looked_at: dict[str, dict[str, str]] = {}
        # By UID, for there may be two: a worker's, and that of what an earlier life left.
        self._tear_downs: Counter[str] = Counter()
        self._objects: PodObjects | None = None
        self._figures = VolumeFigures()

    def draw_on(self, objects: PodObjects) -> None:
        """Where the objects are that volumes are filled from."""
        self._objects = objects
        if self._csi is not None:
            self._csi.means.draw_on(objects)

    def claim_from(
        self, claims: Claims, node: Callable[[], Node | None], changed: Callable[[], None], events: Events
    ) -> None:
        """From now on there are claims."""
        self._persistent.claims.draw_on(claims, node)
        if self._csi is not None:
            self._csi.means.claim_from(claims, node, changed, events)

    def node_changed(self) -> None:
        """Something may have been attached to this node."""
        if self._csi is not None:
            self._csi.means.node_changed()

    def in_use(self) -> Collection[str]:
        """Only volumes of CSI drivers are attached by controllers."""
        return self._csi.in_use() if self._csi is not None else ()

    def drivers(self) -> Mapping[str, DriverInfo]:
        """Those that have registered."""
        return self._csi.drivers() if self._csi is not None else {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Attend to what is brought up to date, to drivers, and to what they have staged."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._refreshing.run)
            if self._csi is not None:
                await nursery.start(self._csi.run)
            task_status.started()

    async def set_up(self, pod: Pod) -> Mapping[str, str]:
        """Make every volume ready; volume name → host path. Raises VolumeFailed, naming all that are not, and while
        what was left of an earlier life of the pod is still being removed: what was made now would go with it."""
        uid = pod.metadata.uid
        if pod.spec.volumes and (self._tear_downs[uid] or uid in self._threads.running(_TAKING_DOWN)):
            raise VolumeFailed("FailedMount", _NOT_YET)
        volumes = {volume.name: volume for volume in pod.spec.volumes}
        had = {name: path for name, path in self._had(uid).items() if _has_news(volumes[name])}
        # What the pod has keeps no attempt waiting, and takes no place from what it has not.
        await self._refreshing.refresh(
            uid, {name: partial(self._refresh, pod, volumes[name], path) for name, path in had.items()}
        )
        missing = [volume for name, volume in volumes.items() if name not in had]
        hanging = [key for key in self._threads.running(uid) if key.partition("/")[0] not in had]
        made = await set_up_all(pod, missing, partial(self._set_up_and_tell, pod), self._figures, hanging)
        return {**had, **made}

    async def _set_up_and_tell(self, pod: Pod, volume: Volume) -> str:
        uid = pod.metadata.uid
        told = self._told.setdefault(uid, {})
        told[volume.name] = "not ready yet"
        try:
            path = await self._set_up(pod, volume)
        except _TROUBLES as error:
            told[volume.name] = f"not ready: {error}"
            raise
        told[volume.name] = f"ready at {path}" if path else "mounted by the runtime"
        if volume.host_path is None and path.startswith(f"{self._pods.parent}/"):
            self._places.setdefault(uid, {})[volume.name] = path
        elif path:  # somebody else's: what is found there later keeps no pod that has it from being looked after
            self._looked_at.setdefault(uid, {})[volume.name] = path
        return path

    async def _refresh(self, pod: Pod, volume: Volume, path: str) -> None:
        told, said = self._told[pod.metadata.uid], f"ready at {path}"
        try:
            if (sources := sources_of(volume)) is not None:
                await self._fill_anew(pod, volume.name, sources, Path(path))
            else:
                await self._set_up(pod, volume)
        except _TROUBLES as error:
            said += f", but not brought up to date: {error}"
            if told[volume.name] != said:
                log.warning("Volume %s of pod %s stays as it was: %s", volume.name, object_ref(pod), error)
        told[volume.name] = said

    def figures(self) -> VolumeFigures:
        """What was measured."""
        return self._figures

    def places(self, uid: str) -> Mapping[str, str]:
        """Where each volume is that lies below the root directory, devices of drivers among them, and is ready."""
        return self._places.get(uid, {})

    def _had(self, uid: str) -> Mapping[str, str]:
        """The same of every volume that has a path and was ready once, wherever it lies."""
        return {**self._looked_at.get(uid, {}), **self.places(uid)}

    async def tell(self, uid: str, path: str) -> Told | None:
        """Only drivers know more of a volume than can be seen."""
        return await self._csi.tell(uid, path) if self._csi is not None else None

    def groups(self, uid: str) -> tuple[int, ...]:
        """Those of persistent volumes that name one."""
        return self._persistent.claims.groups(uid)

    def told(self, uid: str) -> Mapping[str, str]:
        """How each of the pod's volumes was left."""
        told = dict(self._told.get(uid, {}))
        had = self._had(uid)
        for name in {key.partition("/")[0] for key in self._threads.running(uid)}:
            begun = "what was begun has not ended yet"
            told[name] = f"{told[name]}; {begun}" if name in had else begun
        return told

    async def _set_up(self, pod: Pod, volume: Volume) -> str:
        if volume.host_path is not None:
            path, type_ = volume.host_path.path, volume.host_path.type
            # A pod tries one thing at a time: whatever still runs for this volume was given up and hangs.
            look = partial(host_path.prepare, path, type_)
            await self._threads.run(look, f"{pod.metadata.uid}/{volume.name}", may_hang=True)
            return path
        if volume.empty_dir is not None:
            return await self._empty_dir(pod, volume.name, volume.empty_dir)
        if (sources := sources_of(volume)) is not None:
            return await self._filled(pod, volume.name, sources)
        if volume.nfs is not None:
            return await self._persistent.set_up_nfs(pod, volume.name, volume.nfs)
        if (claim := claim_of(pod, volume)) is not None:
            return await self._persistent.set_up(pod, volume.name, claim)
        if volume.csi is not None and self._csi is not None:
            return await self._csi.set_up(pod, volume.name, inline(pod, volume.name, volume.csi))
        if volume.csi is not None:
            raise ValueError(f"volumes of CSI driver {volume.csi.driver} need an API server, and this node has none")
        if volume.image is not None:
            return ""  # the runtime mounts it; ``pods.start`` has the image pulled
        raise ValueError("volumes of this type are not supported yet")

    async def _empty_dir(self, pod: Pod, name: str, source: EmptyDirVolumeSource) -> str:
        path = empty_dir.path_of(pod_directory(self._pods, pod.metadata.uid), name)
        group = fs_group(pod)
        if source.medium == "":
            empty_dir.make(path, group)
        elif source.medium == "Memory":
            size = self._memory_bytes(pod, source.size_limit)
            make = partial(self._memory, path, size, empty_dir.memory_mode(group), group)
            await self._threads.run(make, f"{pod.metadata.uid}/{name}")
        else:
            pages = empty_dir.page_bytes(source.medium, huge_page_bytes(pod))
            mount = partial(self._mounter.mount_huge_pages, str(path), pages, empty_dir.mode(group), group)
            await self._threads.run(partial(self._mount_once, path, mount), f"{pod.metadata.uid}/{name}")
        return str(path)

    async def _filled(self, pod: Pod, name: str, sources: Sources) -> str:
        path = pod_directory(self._pods, pod.metadata.uid) / "volumes" / sources.plugin / name
        try:
            await self._fill_anew(pod, name, sources, path)
        except (ValueError, OSError, StillRunning) as error:
            if not atomic_writer.is_filled(path):
                raise
            # What a pod was given in the agent's earlier life it keeps, as upstream has it, whatever became of the
            # source or the room.
            log.warning("Volume %s of pod %s stays as it was: %s", name, object_ref(pod), error)
        return str(path)

    async def _fill_anew(self, pod: Pod, name: str, sources: Sources, path: Path) -> None:
        assert self._objects is not None, "nobody said where the objects are"
        files = await files_of(pod, sources, self._objects, self._facts)
        group = fs_group(pod)
        make = partial(_directory, path)
        if sources.in_memory:
            make = partial(self._memory, path, self._memory_bytes(pod), atomic_writer.DIRECTORY_MODE, group)
        await self._threads.run(partial(_fill, path, make, files, group), f"{pod.metadata.uid}/{name}")

    def _memory_bytes(self, pod: Pod, size_limit: str | float | None = None) -> int | None:
        limits = (pod_resources(pod, self._facts).memory_limit_bytes, self._facts.allocatable.get("memory", 0))
        return empty_dir.memory_bytes(size_limit, *limits)

    def _memory(self, path: Path, size_bytes: int | None, mode: int, group: int | None) -> None:
        self._mount_once(path, partial(self._mounter.mount_tmpfs, str(path), size_bytes, mode, group))

    def _mount_once(self, path: Path, mount: Callable[[], None]) -> None:
        path.mkdir(mode=0o750, parents=True, exist_ok=True)
        if str(path) not in self._mounter.mounted_below(str(path)):
            mount()

    async def resolve(self, pod: Pod, container: Container, mounts: Sequence[Mount]) -> tuple[Mount, ...]:
        """Host paths in place of sub-paths. Raises ConfigError."""
        found = list(mounts)
        for index, (mount, asked) in enumerate(zip(mounts, container.volume_mounts, strict=False)):
            if mount.sub_path and not mount.image:  # of an image the runtime finds the part itself
                path = await self._held(pod, container, index, mount, asked.name)
                found[index] = replace(mount, host_path=path, sub_path="")
        return tuple(found)

    async def _held(self, pod: Pod, container: Container, index: int, mount: Mount, volume: str) -> str:
        place = pod_directory(self._pods, pod.metadata.uid) / sub_path.DIRECTORY / volume / container.name / str(index)
        # What is missing in a volume made of data is missing: its files are the atomic writer's to make.
        make = not any(one.name == volume and sources_of(one) for one in pod.spec.volumes)
        if self._one_user:
            hold = partial(sub_path.path_of, mount.host_path, mount.sub_path, make=make)
        else:
            hold = partial(sub_path.hold, mount.host_path, mount.sub_path, place, self._mounter, make=make)
        try:
            key = f"{pod.metadata.uid}/{volume}/{container.name}/{index}"
            return await self._threads.run(hold, key, may_hang=True)
        except (OSError, StillRunning) as error:
            log.warning("Pod %s: sub-path %s of volume %s: %s", object_ref(pod), mount.sub_path, volume, error)
            # Only the kernel's own words: a container must not learn from a message what else is on this node.
            why = error.strerror if isinstance(error, OSError) and error.strerror else "it could not be mounted"
            message = f'failed to prepare subPath for volumeMount "{volume}" of container "{container.name}": {why}'
            raise ConfigError(message, container.name) from error

    async def read_file(self, volume_path: str, path: str, bytes_max: int) -> bytes:
        """See ``volumes.inside``. Raises OSError, also while an earlier read of the volume hangs."""
        try:
            read = partial(inside.read_file, volume_path, path, bytes_max)
            return await self._threads.run(read, volume_path, may_hang=True)
        except StillRunning as error:
            raise OSError(errno.EBUSY, str(error)) from error

    async def tear_down(self, uid: str) -> None:
        """Unmount and remove every volume of the pod. Raises VolumeFailed. A thread that is at work when it is
        cancelled goes on. Raises ValueError for what is no UID."""
        self._tear_downs[uid] += 1
        try:
            await self._take_down(uid)
        finally:
            self._tear_downs[uid] -= 1
            if not self._tear_downs[uid]:
                del self._tear_downs[uid]

    async def _take_down(self, uid: str) -> None:
        key, directory = f"{_TAKING_DOWN}/{uid}", pod_directory(self._pods, uid)
        await self._refreshing.end(uid)
        for had in (self._places, self._looked_at):  # a life that comes back meanwhile has none of them
            had.pop(uid, None)
        if self._objects is not None:
            self._objects.release(uid)
        self._persistent.claims.release(uid)
        try:
            await self._threads.run(partial(self._let_go, directory), key, may_hang=True)
            if self._csi is not None:
                await self._csi.tear_down(uid)
            await self._threads.run(partial(self._tear_down, directory), key, may_hang=True)
        except (OSError, StillRunning) as error:
            raise VolumeFailed("FailedUnmount", f"UnmountVolume.TearDown failed for pod {uid}: {error}") from error
        self._figures.released(uid)
        self._told.pop(uid, None)

    def _let_go(self, pod_directory: Path) -> None:
        """Parts of volumes before the volumes, which their drivers unmount, and what is also elsewhere on the node."""
        parts, local_volumes = pod_directory / sub_path.DIRECTORY, pod_directory / "volumes" / local.PLUGIN
        for directory in filter(_is_there, (parts, local_volumes)):
            let_go(self._mounter, str(directory))

    def _tear_down(self, pod_directory: Path) -> None:
        parts, volumes = pod_directory / sub_path.DIRECTORY, pod_directory / "volumes"
        for directory in filter(_is_there, (parts, volumes)):
            self._remove_all(directory)

    def _remove_all(self, directory: Path) -> None:
        for path in self._mounter.mounted_below(str(directory)):
            self._mounter.unmount(path)
        # A mount may have come meanwhile, by propagation out of a container: to go on would remove what is in it.
        if still := self._mounter.mounted_below(str(directory)):
            raise OSError(f"{still[0]} is mounted again")
        with os.scandir(directory) as entries:
            for entry in entries:
                remove_tree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)


def _has_news(volume: Volume) -> bool:
    """Whether somebody else has a say in the volume after it is ready, who may not answer: a server, a driver, or who
    has the path of the node."""
    return volume.empty_dir is None and volume.nfs is None and volume.image is None


def _is_there(directory: Path) -> bool:
    """Most pods have no such directory, and a node's list of mounts is long. A link leads to somebody else's."""
    return directory.is_dir() and not directory.is_symlink()


def _directory(path: Path) -> None:
    path.mkdir(mode=0o750, parents=True, exist_ok=True)
    path.chmod(atomic_writer.DIRECTORY_MODE)


def _fill(path: Path, make: Callable[[], None], files: Files, group: int | None) -> None:
    if not atomic_writer.is_filled(path):  # else it was made, and mounted, before
        make()
    atomic_writer.write(path, files, group)
