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
from trikubelet.model.errors import VolumeFailed
from trikubelet.volumes import empty_dir, host_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.containers import NodeFacts
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.k8s import Pod, Volume


class Mounter(Protocol):
    """Mounting, as the host does it. All may hang and are called in threads; all raise OSError."""

    def mounted_below(self, directory: str) -> tuple[str, ...]:
        """Mount points at or below a directory, deepest first."""
        ...

    def mount_tmpfs(self, path: str, size_bytes: int | None) -> None:
        """Mount a tmpfs."""
        ...

    def unmount(self, path: str) -> None:
        """Unmount one mount point."""
        ...


class DiskVolumes:
    """Sets volumes up below the pods' directories. Owns no state: the disk and the kernel have it."""

    def __init__(self, root: Path, facts: NodeFacts, mounter: Mounter, threads: ThreadPool) -> None:
        self._pods = root / "pods"
        self._facts = facts
        self._mounter = mounter
        self._threads = threads

    async def set_up(self, pod: Pod) -> Mapping[str, str]:
        """Make every volume ready; volume name → host path. Raises VolumeFailed."""
        found = {}
        for volume in pod.spec.volumes:
            try:
                found[volume.name] = await self._set_up(pod, volume)
            except (OSError, ValueError) as error:
                message = f'MountVolume.SetUp failed for volume "{volume.name}" : {error}'
                raise VolumeFailed("FailedMount", message) from error
        return found

    async def _set_up(self, pod: Pod, volume: Volume) -> str:
        if volume.host_path is not None:
            path = volume.host_path.path
            await self._threads.run(partial(host_path.prepare, path, volume.host_path.type))
            return path
        if volume.empty_dir is not None:
            return await self._empty_dir(pod, volume)
        raise ValueError("volumes of this type are not supported yet; emptyDir and hostPath are")

    async def _empty_dir(self, pod: Pod, volume: Volume) -> str:
        assert volume.empty_dir is not None
        path = empty_dir.path_of(self._pods / pod.metadata.uid, volume.name)
        context = pod.spec.security_context
        medium = volume.empty_dir.medium
        if medium not in ("", "Memory"):
            raise ValueError(f'emptyDir medium "{medium}" is not supported yet; "" and "Memory" are')
        group = context.fs_group if context else None
        if medium == "Memory" and not self._mounter.mounted_below(str(path)):
            path.mkdir(parents=True, exist_ok=True)
            limit = pod_resources(pod, self._facts).memory_limit_bytes
            size = empty_dir.memory_bytes(volume.empty_dir.size_limit, limit)
            await self._threads.run(partial(self._mounter.mount_tmpfs, str(path), size))
        empty_dir.prepare(path, group)
        return str(path)

    async def tear_down(self, uid: str) -> None:
        """Unmount and remove every volume of the pod. Raises VolumeFailed."""
        directory = self._pods / uid / "volumes"
        try:
            await self._threads.run(partial(self._tear_down, directory))
        except OSError as error:
            raise VolumeFailed("FailedUnmount", f"UnmountVolume.TearDown failed for pod {uid}: {error}") from error

    def _tear_down(self, directory: Path) -> None:
        for path in self._mounter.mounted_below(str(directory)):
            self._mounter.unmount(path)
        if not directory.is_dir() or directory.is_symlink():
            return
        assert not self._mounter.mounted_below(str(directory)), "about to remove files below a mount"
        with os.scandir(directory) as entries:
            for entry in entries:
                shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
