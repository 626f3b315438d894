"""emptyDir: a directory of the pod's own, on disk, in memory or in huge pages, removed with the pod."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from trikubelet.core.containers.resources import huge_page_bytes
from trikubelet.model import quantity
from trikubelet.volumes.plugin import VolumePlugin

if TYPE_CHECKING:
    from collections.abc import Collection

    from trikubelet.model.k8s import Pod, Volume
    from trikubelet.volumes.plugin import PodPlaces

PLUGIN = "kubernetes.io~empty-dir"
HUGE_PAGES = "HugePages"
MODE = 0o777


class EmptyDirs(VolumePlugin):
    """Makes them. They belong to their pod alone, so they never need an update."""

    is_refreshed: ClassVar[bool] = False

    def __init__(self, places: PodPlaces) -> None:
        self._places = places

    async def prepare(self, pod: Pod, volume: Volume) -> str:
        """See ``VolumePlugin``."""
        source, places = volume.empty_dir, self._places
        assert source is not None
        path = path_of(places.of_pod(pod.metadata.uid), volume.name)
        group, key = places.fs_group(pod), f"{pod.metadata.uid}/{volume.name}"
        if source.medium == "":
            await places.threads.run(partial(make, path, group), key)
        elif source.medium == "Memory":
            size = places.memory_bytes(pod, source.size_limit)
            mode_ = memory_mode(group)
            await places.threads.run(partial(places.mount_memory, path, size, mode_, group), key)
        else:
            pages = page_bytes(source.medium, huge_page_bytes(pod))
            mode_ = mode(group)
            mount = partial(places.mounter.mount_huge_pages, str(path), pages, mode_, group)
            await places.threads.run(partial(places.mount_once, path, mount), key)
        return str(path)


def path_of(pod_directory: Path, name: str) -> Path:
    """Return the volume's path, like upstream."""
    return pod_directory / "volumes" / PLUGIN / name


def mode(fs_group: int | None) -> int:
    """Return the mode of a new volume: everyone in the pod may write; with a group, new files in it belong to that."""
    return MODE if fs_group is None else MODE | 0o2000


def memory_mode(fs_group: int | None) -> int:
    """Return the mode of a new volume in memory, with the sticky bit, which upstream gets from the kernel: a user of
    the pod cannot remove another's files. Upstream's suite expects that, also of a sub-path."""
    return mode(fs_group) | stat.S_ISVTX


def make(path: Path, fs_group: int | None) -> None:
    """Make the directory, complete at once. An existing one belongs to the pod, which may have changed its mode for
    good reason, so it stays unchanged. Raises OSError."""
    if path.exists():
        return
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}")  # no volume has such a name
    unfinished.mkdir(exist_ok=True)
    if fs_group is not None:
        os.chown(unfinished, -1, fs_group)
    unfinished.chmod(mode(fs_group))
    unfinished.rename(path)


def page_bytes(medium: str, asked: Collection[int]) -> int:
    """Return the size of a volume's huge pages: the medium's own, or the only one in the containers' requests
    (``asked``). Raises ValueError if they request none of it, or several."""
    if medium == HUGE_PAGES:
        if len(asked) != 1:
            what = "pages of several sizes" if asked else "no huge pages"
            raise ValueError(f'medium "{medium}" takes its page size from the containers, which request {what}')
        return next(iter(asked))
    kind, _, size = medium.partition("-")
    if kind != HUGE_PAGES:
        raise ValueError(f'"{medium}" is not a storage medium')
    if quantity.whole(size) not in asked:
        raise ValueError(f'medium "{medium}": no container requests pages of that size')
    return quantity.whole(size)
