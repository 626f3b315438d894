"""Mounting for an agent that may not mount: an error with a remedy (``volumes.mounter.Mounter``).

mount(8) would fail as well, with a message about mount(8).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

from trikubelet.host.mounts import mounted_below

if TYPE_CHECKING:
    from collections.abc import Sequence


class NoMounts:
    """Owns nothing. Mounts of other processes are listed."""

    def mounted_below(self, directory: str) -> tuple[str, ...]:
        """See ``Mounter``; so for all below, which raise PermissionError."""
        return mounted_below(directory)

    def mount_tmpfs(self, path: str, size_bytes: int | None, mode: int, group: int | None) -> None:
        _refuse("mount a tmpfs")

    def mount_huge_pages(self, path: str, page_bytes: int, mode: int, group: int | None) -> None:
        _refuse("mount huge pages")

    def mount_nfs(self, source: str, path: str, options: Sequence[str]) -> None:
        _refuse(f"mount {source} by NFS")

    def bind(self, fd: int, path: str) -> None:
        _refuse(f"mount {os.readlink(f'/proc/self/fd/{fd}')}")

    def make_private(self, path: str) -> None:
        _refuse(f"change the mount {path}")

    def unmount(self, path: str) -> None:
        _refuse(f"unmount {path}")


def _refuse(what: str) -> NoReturn:
    raise PermissionError(
        f"cannot {what}: the agent runs as user {os.geteuid()}, and only root may mount (start the agent as root)"
    )
