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


def prepare(path: Path, fs_group: int | None) -> None:
    """Make the directory, writable for everyone in the pod. Idempotent. Raises OSError."""
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    if not path.exists():
        path.mkdir()
    mode = MODE
    if fs_group is not None:
        os.chown(path, -1, fs_group)
        mode |= 0o2000  # what is made inside belongs to the group
    path.chmod(mode)


def memory_bytes(size_limit: str | float | None, memory_limit_bytes: int) -> int | None:
    """The size of a memory-backed volume: the smaller of its own limit and the pod's memory limit, or None."""
    sizes = [memory_limit_bytes] if memory_limit_bytes else []
    if size_limit is not None and quantity.whole(size_limit) > 0:
        sizes.append(quantity.whole(size_limit))
    return min(sizes, default=None)
