"""emptyDir: a directory of the pod's own, on disk, in memory or in huge pages, gone with the pod."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from trikubelet.model import quantity

if TYPE_CHECKING:
    from collections.abc import Collection

PLUGIN = "kubernetes.io~empty-dir"
HUGE_PAGES = "HugePages"
MODE = 0o777


def path_of(pod_directory: Path, name: str) -> Path:
    """Where the volume lives: upstream's place."""
    return pod_directory / "volumes" / PLUGIN / name


def mode(fs_group: int | None) -> int:
    """The mode of a new volume: everyone in the pod may write; with a group, what is made inside belongs to it."""
    return MODE if fs_group is None else MODE | 0o2000


def memory_mode(fs_group: int | None) -> int:
    """The mode of a new volume in memory, as upstream has it from the kernel: what one user of the pod puts there no
    other one removes. Upstream's suite expects to find it so, also of a sub-path."""
    return mode(fs_group) | stat.S_ISVTX


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


def page_bytes(medium: str, asked: Collection[int]) -> int:
    """The size of a volume's huge pages: the medium's own, or the only one that the pod's containers ask for (``asked``
    has the sizes that they do). Raises ValueError where they ask for none of it, or for several."""
    if medium == HUGE_PAGES:
        if len(asked) != 1:
            what = "pages of several sizes" if asked else "no huge pages"
            raise ValueError(f'medium "{medium}" takes its page size from the containers, which ask for {what}')
        return next(iter(asked))
    kind, _, size = medium.partition("-")
    if kind != HUGE_PAGES:
        raise ValueError(f'"{medium}" is no storage medium')
    if quantity.whole(size) not in asked:
        raise ValueError(f'medium "{medium}": no container asks for pages of that size')
    return quantity.whole(size)
