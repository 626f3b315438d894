"""The port for mounting. ``host.mounts`` implements it; tests have implementations that only record the calls."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Mounter(Protocol):
    """All of it may hang and is called in threads; all raise OSError."""

    def mounted_below(self, directory: str) -> tuple[str, ...]:
        """Return the mount points at or below a directory, deepest first."""
        ...

    def mount_tmpfs(self, path: str, size_bytes: int | None, mode: int, group: int | None) -> None:
        """Mount a tmpfs whose root has that mode and group."""
        ...

    def mount_huge_pages(self, path: str, page_bytes: int, mode: int, group: int | None) -> None:
        """Mount a file system of huge pages whose root has that mode and group."""
        ...

    def mount_nfs(self, source: str, path: str, options: Sequence[str]) -> None:
        """Mount a server's directory."""
        ...

    def bind(self, fd: int, path: str) -> None:
        """Mount the file behind a descriptor at a path of the same kind."""
        ...

    def make_private(self, path: str) -> None:
        """Stop the propagation of mounting and unmounting in this mount."""
        ...

    def unmount(self, path: str) -> None:
        """Unmount one mount point."""
        ...


class UserMemory(Protocol):
    """Directories in memory for an agent that may not mount. ``host.user_tmpfs`` implements it. Blocking methods are
    called in threads and raise OSError."""

    def link(self, place: Path, mode: int, group: int | None) -> None:
        """Link a directory in memory at a volume's place; a new one has that mode and group. Blocks."""
        ...

    def target(self, place: str) -> str:
        """Return the directory that was linked there, or the place itself."""
        ...

    def remove(self, uid: str) -> None:
        """Remove all directories of a pod in memory. Blocks."""
        ...

    def sweep(self) -> None:
        """Remove the leftovers of removed pods and root directories. Blocks."""
        ...


def is_mounted(mounter: Mounter, place: Path) -> bool:
    """True if something is mounted just there. Does not access the mount: its server may be gone, and any access would
    fail or hang."""
    parent = os.path.realpath(place.parent)
    return f"{parent}/{place.name}" in mounter.mounted_below(parent)


def unmount_below(mounter: Mounter, directory: str) -> None:
    """Unmount everything at and below a directory, here alone: a mount in a directory of the node appears in our mount
    of that as well, and unmounting it here would remove it there. Raises OSError."""
    found = mounter.mounted_below(directory)
    for path in found:
        mounter.make_private(path)
    for path in found:
        mounter.unmount(path)
