"""Mounts that are noted instead of made: a ``Mounter`` for volumes on a disk where nobody is root."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Tmpfs(NamedTuple):
    """One tmpfs as it was asked for."""

    size_bytes: int | None
    mode: int
    group: int | None


class HugePages(NamedTuple):
    """One file system of huge pages as it was asked for."""

    page_bytes: int
    mode: int
    group: int | None


class Nfs(NamedTuple):
    """One server's directory as it was asked for."""

    source: str
    options: tuple[str, ...]


class Bound(NamedTuple):
    """One bind mount: the path of what was mounted."""

    source: str


@dataclass
class NotedMounts:
    """Owns what is mounted. ``stuck`` holds mount points that do not let go, ``private`` those that were told to keep
    to themselves what is mounted in them."""

    mounted: dict[str, Tmpfs | HugePages | Nfs | Bound] = field(default_factory=dict)
    unmounted: list[str] = field(default_factory=list)
    stuck: set[str] = field(default_factory=set)
    private: set[str] = field(default_factory=set)

    def mounted_below(self, directory: str) -> tuple[str, ...]:
        """Mount points at or below a directory, deepest first."""
        below = [path for path in self.mounted if path == directory or path.startswith(f"{directory}/")]
        return tuple(sorted(below, key=lambda path: path.count("/"), reverse=True))

    def _note(self, path: str, mount: Tmpfs | HugePages | Nfs | Bound) -> None:
        """A mount point must be there, and free."""
        assert os.path.exists(path)
        assert path not in self.mounted, f"{path} is mounted already"
        self.mounted[path] = mount

    def mount_tmpfs(self, path: str, size_bytes: int | None, mode: int, group: int | None) -> None:
        """Note a tmpfs."""
        self._note(path, Tmpfs(size_bytes, mode, group))

    def mount_huge_pages(self, path: str, page_bytes: int, mode: int, group: int | None) -> None:
        """Note a file system of huge pages."""
        self._note(path, HugePages(page_bytes, mode, group))

    def mount_nfs(self, source: str, path: str, options: Sequence[str]) -> None:
        """Note a server's directory."""
        self._note(path, Nfs(source, tuple(options)))

    def bind(self, fd: int, path: str) -> None:
        """Note a bind mount, which must be of one kind with its mount point."""
        source = os.readlink(f"/proc/self/fd/{fd}")
        assert os.path.isdir(path) == os.path.isdir(source)
        self._note(path, Bound(source))

    def make_private(self, path: str) -> None:
        """Note it."""
        assert path in self.mounted
        self.private.add(path)

    def unmount(self, path: str) -> None:
        """Forget a mount. Raises OSError for one that is stuck."""
        if path in self.stuck:
            raise OSError(f"umount {path}: target is busy.")
        del self.mounted[path]
        self.unmounted.append(path)
