"""The volumes of this node's pods (``ports.Volumes``): emptyDir and hostPath.

Set-up is part of the pod's own attempt; there is no loop and nothing to poll. What may hang runs in threads of a
bounded pool and holds up its own pod only. Taking down asks the disk and the kernel what is there, not a record, so
leftovers of an earlier process go the same way.
"""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trikubelet.core.containers.resources import pod_resources
from trikubelet.kit.threads import StillRunning
from trikubelet.model.errors import VolumeFailed
from trikubelet.volumes import empty_dir, host_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.containers import NodeFacts
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.k8s import EmptyDirVolumeSource, Pod, Volume


class Mounter(Protocol):
    """Mounting, as the host does it. All may hang and are called in threads; all raise OSError."""

    def mounted_below(self, directory: str) -> tuple[str, ...]:
        """Mount points at or below a directory, deepest first."""
        ...

    def mount_tmpfs(self, path: str, size_bytes: int | None, mode: int, group: int | None) -> None:
        """Mount a tmpfs whose root has that mode and group."""
        ...

    def unmount(self, path: str) -> None:
        """Unmount one mount point."""
        ...


class DiskVolumes:
    """Sets volumes up below the pods' directories. Owns no state: the disk and the kernel have it."""

    def __init__(self, root: Path, facts: NodeFacts, mounter: Mounter, threads: ThreadPool) -> None:
        # The real path, by which the kernel knows what is mounted there.
        self._pods = root.resolve() / "pods"
        self._facts = facts
        self._mounter = mounter
        self._threads = threads

    async def set_up(self, pod: Pod) -> Mapping[str, str]:
        """Make every volume ready; volume name → host path. Raises VolumeFailed."""
        found = {}
        for volume in pod.spec.volumes:
            try:
                found[volume.name] = await self._set_up(pod, volume)
            except (OSError, ValueError, StillRunning) as error:
                message = f'MountVolume.SetUp failed for volume "{volume.name}" : {error}'
                raise VolumeFailed("FailedMount", message) from error
        return found

    async def _set_up(self, pod: Pod, volume: Volume) -> str:
        if volume.host_path is not None:
            path, type_ = volume.host_path.path, volume.host_path.type
            # A pod tries one thing at a time: whatever still runs for this volume was given up and hangs.
            await self._threads.run(partial(host_path.prepare, path, type_), f"{pod.metadata.uid}/{volume.name}")
            return path
        if volume.empty_dir is not None:
            return await self._empty_dir(pod, volume.name, volume.empty_dir)
        raise ValueError("volumes of this type are not supported yet; emptyDir and hostPath are")

    async def _empty_dir(self, pod: Pod, name: str, source: EmptyDirVolumeSource) -> str:
        path = empty_dir.path_of(self._pods / pod.metadata.uid, name)
        context = pod.spec.security_context
        group = context.fs_group if context else None
        if source.medium == "":
            empty_dir.make(path, group)
        elif source.medium == "Memory":
            limits = (pod_resources(pod, self._facts).memory_limit_bytes, self._facts.allocatable.get("memory", 0))
            size = empty_dir.memory_bytes(source.size_limit, *limits)
            await self._threads.run(partial(self._memory, path, size, group), f"{pod.metadata.uid}/{name}")
        else:
            raise ValueError(f'emptyDir medium "{source.medium}" is not supported yet; "" and "Memory" are')
        return str(path)

    def _memory(self, path: Path, size_bytes: int | None, group: int | None) -> None:
        path.mkdir(mode=0o750, parents=True, exist_ok=True)
        if str(path) not in self._mounter.mounted_below(str(path)):
            self._mounter.mount_tmpfs(str(path), size_bytes, empty_dir.mode(group), group)

    async def tear_down(self, uid: str) -> None:
        """Unmount and remove every volume of the pod. Raises VolumeFailed."""
        directory = self._pods / uid / "volumes"
        try:
            await self._threads.run(partial(self._tear_down, directory), uid)
        except (OSError, StillRunning) as error:
            raise VolumeFailed("FailedUnmount", f"UnmountVolume.TearDown failed for pod {uid}: {error}") from error

    def _tear_down(self, directory: Path) -> None:
        for path in self._mounter.mounted_below(str(directory)):
            self._mounter.unmount(path)
        if not directory.is_dir() or directory.is_symlink():
            return
        # A mount may have come meanwhile, by propagation out of a container: to go on would remove what is in it.
        if still := self._mounter.mounted_below(str(directory)):
            raise OSError(f"{still[0]} is mounted again")
        with os.scandir(directory) as entries:
            for entry in entries:
                shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
