"""Directories and devices of this node that are persistent volumes (PersistentVolume ``local``).

A directory is mounted for each pod below the pod's own directory, and only that mount is ever taken down. The mount
comes last and shows that everything before it was done, so neither the next sync nor the next agent does anything
twice. All of it may hang and is called in threads.
"""

from __future__ import annotations

import os
import stat
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from trikubelet.core.claims import BLOCK
from trikubelet.volumes import ownership
from trikubelet.volumes.mounter import is_mounted, unmount_below
from trikubelet.volumes.ownership_progress import change_ownership_in_thread
from trikubelet.volumes.plugin import PersistentPlugin, is_there

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trikubelet.model.k8s import Pod
    from trikubelet.volumes.claims import Bound
    from trikubelet.volumes.mounter import Mounter
    from trikubelet.volumes.plugin import PodPlaces

PLUGIN: Final = "kubernetes.io~local-volume"
MODE: Final = 0o750


class LocalVolumes(PersistentPlugin):
    """Mounts them. Owns nothing: the kernel knows what is mounted."""

    takes_devices: ClassVar[bool] = True

    def __init__(self, places: PodPlaces) -> None:
        self._places = places

    async def prepare_bound(self, pod: Pod, bound: Bound) -> str:
        """See ``PersistentPlugin``."""
        source, name, threads = bound.volume.spec.local, bound.name, self._places.threads
        assert source is not None
        if bound.volume.spec.volume_mode == BLOCK:
            await threads.run(partial(check_device, source.path), f"{pod.metadata.uid}/{name}", may_hang=True)
            return source.path
        place = self._places.of(pod, PLUGIN, bound.volume.metadata.name)
        group = ownership.group_of(pod, read_only=bound.claim.read_only)
        await change_ownership_in_thread(
            pod, name, threads, partial(mount, source.path, place, group, self._places.mounter)
        )
        return str(place)

    async def remove(self, uid: str) -> None:
        """Unmount the mounts there: the directory is also elsewhere on the node. Raises OSError, StillRunning."""
        await self._places.tear_down(uid, partial(self._let_go, self._places.of_pod(uid) / "volumes" / PLUGIN))

    def _let_go(self, directory: Path) -> None:
        if is_there(directory):
            unmount_below(self._places.mounter, str(directory))


def mount(source: str, place: Path, group: ownership.Group | None, mounter: Mounter, done: Callable[[], None]) -> None:
    """Mount a directory, with the group of its files changed first; ``done`` is called for each. Raises OSError, and
    ValueError if it is not a directory."""
    if is_mounted(mounter, place):
        return
    found = os.open(source, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(found).st_mode):
            raise ValueError(f"{source} is not a directory; a file system on a local device is not mounted")
        if group is not None:
            ownership.apply_fs_group(found, group, done)
        place.mkdir(mode=MODE, parents=True, exist_ok=True)
        mounter.bind(found, str(place))
    finally:
        os.close(found)


def check_device(path: str) -> None:
    """Raises ValueError if it is not a block device, OSError if it does not exist."""
    if not stat.S_ISBLK(os.stat(path).st_mode):
        raise ValueError(f"path {path} is not block device")
