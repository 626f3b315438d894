"""Mounts that are noted instead of made: a ``Mounter`` for volumes on a disk where nobody is root."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Tmpfs(NamedTuple):
    """One tmpfs as it was asked for."""

    size_bytes: int | None
    mode: int
    group: int | None


@dataclass
class NotedMounts:
    """Owns what is mounted. ``stuck`` holds mount points that do not let go."""

    mounted: dict[str, Tmpfs] = field(default_factory=dict)
    unmounted: list[str] = field(default_factory=list)
    stuck: set[str] = field(default_factory=set)

    def mounted_below(self, directory: str) -> tuple[str, ...]:
        """Mount points at or below a directory, deepest first."""
        below = [path for path in self.mounted if path == directory or path.startswith(f"{directory}/")]
        return tuple(sorted(below, key=lambda path: path.count("/"), reverse=True))

    def mount_tmpfs(self, path: str, size_bytes: int | None, mode: int, group: int | None) -> None:
        """Note a tmpfs; a second one at the same place is a fault."""
        assert path not in self.mounted, f"{path} is mounted already"
        self.mounted[path] = Tmpfs(size_bytes, mode, group)

    def unmount(self, path: str) -> None:
        """Forget a mount. Raises OSError for one that is stuck."""
        if path in self.stuck:
            raise OSError(f"umount {path}: target is busy.")
        del self.mounted[path]
        self.unmounted.append(path)
