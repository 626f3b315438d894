"""Sub-paths: the part of a volume that a container mounts, held by a mount.

A runtime receives host paths and resolves them later, while the pod's other containers may be changing the volume. So
it gets no path into the volume: the target of a sub-path (``host.beneath``) is mounted at a place that containers
cannot reach, upstream's ``volume-subpaths/VOLUME/CONTAINER/INDEX`` in the pod's directory. Such a mount serves every
restart of the container and is unmounted before the volumes. All of it may hang and is called in threads.
"""

from __future__ import annotations

import logging
import os
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.core.containers import ConfigError
from trikubelet.core.containers.volume_files import sources_of
from trikubelet.core.names import object_ref
from trikubelet.host.beneath import open_beneath
from trikubelet.kit.failure_log import FailureLog
from trikubelet.kit.threads import StillRunning
from trikubelet.volumes.mounter import is_mounted, unmount_below
from trikubelet.volumes.plugin import is_there

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime_config import Mount
    from trikubelet.volumes.mounter import Mounter
    from trikubelet.volumes.plugin import PodPlaces

log = logging.getLogger(__name__)

DIRECTORY: Final = "volume-subpaths"
MODE, FILE_MODE = 0o750, 0o640


class SubPaths:
    """Mounts the parts of volumes that containers mount. Owns nothing: the mounts are the kernel's."""

    def __init__(self, places: PodPlaces) -> None:
        self._places = places
        self._failure_log = FailureLog()

    async def resolve(self, pod: Pod, container: Container, mounts: Sequence[Mount]) -> tuple[Mount, ...]:
        """Return host paths in place of sub-paths. Raises ConfigError."""
        found = list(mounts)
        for index, (mount, asked) in enumerate(zip(mounts, container.volume_mounts, strict=False)):
            if mount.sub_path and not mount.image:  # the runtime resolves sub-paths of an image itself
                path = await self._held(pod, container, index, mount, asked.name)
                found[index] = replace(mount, host_path=path, sub_path="")
        return tuple(found)

    async def _held(self, pod: Pod, container: Container, index: int, mount: Mount, volume: str) -> str:
        place = self._places.of_pod(pod.metadata.uid) / DIRECTORY / volume / container.name / str(index)
        # A missing file in a volume made of data stays missing: only the atomic writer creates its files.
        make = not any(one.name == volume and sources_of(one) for one in pod.spec.volumes)
        if self._places.user_memory is not None:  # nothing can be mounted, and containers see what the agent sees
            work = partial(path_of, mount.host_path, mount.sub_path, make=make)
        else:
            work = partial(hold, mount.host_path, mount.sub_path, place, self._places.mounter, make=make)
        key = f"{pod.metadata.uid}/{volume}/{container.name}/{index}"
        try:
            return await self._places.threads.run(work, key, may_hang=True)
        except (OSError, StillRunning) as error:
            # Retried until it succeeds, which for some is never: logged when the reason changes, and once an hour.
            reason = error.strerror if isinstance(error, OSError) else "it hangs"
            if self._failure_log.may_log(f"sub-path {key}: {reason}"):
                log.warning("Pod %s: sub-path %s of volume %s: %s", object_ref(pod), mount.sub_path, volume, error)
            # Only the kernel's message: it must not tell a container about other files on this node.
            why = error.strerror if isinstance(error, OSError) and error.strerror else "mounting it failed"
            message = f'failed to prepare subPath for volumeMount "{volume}" of container "{container.name}": {why}'
            raise ConfigError(message, container.name) from error

    async def unmount_below(self, uid: str) -> None:
        """Unmount those of the pod. Raises OSError, StillRunning."""
        await self._places.tear_down(uid, partial(self._let_go, self._places.of_pod(uid) / DIRECTORY))

    def _let_go(self, parts: Path) -> None:
        if is_there(parts):
            unmount_below(self._places.mounter, str(parts))


def hold(volume: str, sub_path: str, place: Path, mounter: Mounter, *, make: bool) -> str:
    """Mount the target of ``sub_path`` below ``volume`` at ``place`` and return the place's path. With ``make``,
    missing directories are created. Raises OSError."""
    found = open_beneath(volume, sub_path, make=make)
    try:
        if is_mounted(mounter, place):
            if _is_same(found, place):
                return str(place)
            # A file of a ConfigMap is another one after each change, and a server may have lost its files.
            unmount_below(mounter, str(place))
        _make_mount_point(place, is_directory=stat.S_ISDIR(os.fstat(found).st_mode))
        mounter.bind(found, str(place))
    finally:
        os.close(found)
    return str(place)


def path_of(volume: str, sub_path: str, *, make: bool) -> str:
    """Return the current path of the target of ``sub_path`` below ``volume``. Only for containers that may access
    whatever the agent may. Raises OSError."""
    found = open_beneath(volume, sub_path, make=make)
    try:
        return os.readlink(f"/proc/self/fd/{found}")
    finally:
        os.close(found)


def _is_same(found: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(found), place.stat())
    except OSError:  # for instance, its server is gone
        return False


def _make_mount_point(place: Path, *, is_directory: bool) -> None:
    for directory in reversed(place.parents[:3]):  # DIRECTORY, the volume's and the container's
        directory.mkdir(mode=MODE, parents=True, exist_ok=True)
    if place.is_dir() and not is_directory:
        place.rmdir()
    elif place.is_file() and is_directory:
        place.unlink()
    if is_directory:
        place.mkdir(mode=MODE, exist_ok=True)
    else:
        place.touch(mode=FILE_MODE)
