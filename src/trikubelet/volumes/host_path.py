"""hostPath: a path of the node itself, checked against the requested type, or created.

A running pod keeps the path whatever happens to it. But a runtime creates a directory at a path that it does not find,
so a missing socket would become a directory that its owner cannot replace. So the type is checked once more before each
start of a container that mounts the path (upstream checks it once for each pod).
"""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trikubelet.volumes.plugin import PersistentPlugin, VolumePlugin

if TYPE_CHECKING:
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.k8s import HostPathVolumeSource, Pod, Volume
    from trikubelet.volumes.claims import Bound

DIRECTORY_MODE, FILE_MODE = 0o755, 0o644

_CHECKS = {
    "Directory": (stat.S_ISDIR, "is not a directory"),
    "File": (stat.S_ISREG, "is not a file"),
    "Socket": (stat.S_ISSOCK, "is not a socket"),
    "CharDevice": (stat.S_ISCHR, "is not a character device"),
    "BlockDevice": (stat.S_ISBLK, "is not a block device"),
}


class HostPaths(VolumePlugin, PersistentPlugin):
    """Checks them. The files belong to the node, and stay."""

    def __init__(self, threads: ThreadPool) -> None:
        self._threads = threads

    async def prepare(self, pod: Pod, volume: Volume) -> str:
        """See ``VolumePlugin``."""
        assert volume.host_path is not None
        await self._look(f"{pod.metadata.uid}/{volume.name}", volume.host_path)
        return volume.host_path.path

    async def confirm(self, pod: Pod, volume: Volume) -> None:
        """See ``VolumePlugin``."""
        assert volume.host_path is not None
        # A key of its own: the volume may be refreshed at the same time.
        await self._look(f"{pod.metadata.uid}/{volume.name}/start", volume.host_path)

    async def prepare_bound(self, pod: Pod, bound: Bound) -> str:
        """See ``PersistentPlugin``."""
        source = bound.volume.spec.host_path
        assert source is not None
        await self._look(f"{pod.metadata.uid}/{bound.name}", source)
        return source.path

    async def confirm_bound(self, pod: Pod, bound: Bound) -> None:
        """See ``PersistentPlugin``."""
        source = bound.volume.spec.host_path
        assert source is not None
        await self._look(f"{pod.metadata.uid}/{bound.name}/start", source)

    async def _look(self, key: str, source: HostPathVolumeSource) -> None:
        # A pod has one sync at a time: a thread that still runs for this key was cancelled and hangs.
        await self._threads.run(partial(prepare, source.path, source.type), key, may_hang=True)


def prepare(path: str, type_: str) -> None:
    """Check or create the path as its type requires. Touches nothing with the empty type. Raises ValueError, for a
    wrong type with upstream's message.

    May hang on a foreign file system: call it in a thread.
    """
    if not os.path.isabs(path):
        # It would be relative to the agent's directory here and to the runtime's later.
        raise ValueError(f"hostPath {path} is not an absolute path (write the path from / on)")
    if not type_:
        return
    if type_ in ("DirectoryOrCreate", "FileOrCreate"):
        type_ = type_.removesuffix("OrCreate")
        if not os.path.lexists(path):
            _make(Path(path), type_)
    if type_ not in _CHECKS:
        raise ValueError(f"hostPath type check failed: {type_!r} is an invalid volume type")
    holds, complaint = _CHECKS[type_]
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise ValueError(f"hostPath type check failed: {path} {complaint}: {error.strerror}") from error
    if not holds(mode):
        raise ValueError(f"hostPath type check failed: {path} {complaint}")


def _make(path: Path, type_: str) -> None:
    try:
        if type_ == "Directory":
            path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        else:
            path.touch(mode=FILE_MODE)
    except OSError as error:
        raise ValueError(f"hostPath type check failed: {path} cannot be made: {error.strerror}") from error
