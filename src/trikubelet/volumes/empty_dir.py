"""emptyDir: a directory of the pod's own, on disk or in memory, gone with the pod."""

from __future__ import annotations

import os
from pathlib import Path

from trikubelet.model import quantity

PLUGIN = "kubernetes.io~empty-dir"
MODE = 0o777


def path_of(pod_directory: Path, name: str) -> Path:
    """Where the volume lives: upstream's place."""
    return pod_directory / "volumes" / PLUGIN / name


def mode(fs_group: int | None) -> int:
    """The mode of a new volume: everyone in the pod may write; with a group, what is made inside belongs to it."""
    return MODE if fs_group is None else MODE | 0o2000


def make(path: Path, fs_group: int | None) -> None:
    """Make the directory, complete at once. One that is there is the pod's: its mode may have been changed by the pod
    for good reason and is left alone. Raises OSError."""
    if path.exists():
        return
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}")  # no volume has such a name
    unfinished.mkdir(exist_ok=True)
    if fs_group is not None:
        os.chown(unfinished, -1, fs_group)
    unfinished.chmod(mode(fs_group))
    unfinished.rename(path)


def memory_bytes(size_limit: str | float | None, *others: int) -> int | None:
    """The size of a memory-backed volume: the smallest of its own limit and the pod's and the node's (0: none), or
    None."""
    sizes = [limit for limit in others if limit]
    if size_limit is not None and quantity.whole(size_limit) > 0:
        sizes.append(quantity.whole(size_limit))
    return min(sizes, default=None)
