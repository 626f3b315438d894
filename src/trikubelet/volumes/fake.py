"""The volumes of a node with simulated containers (``ports.Volumes``): they are requested and never made.

The objects that volumes name are requested from the cluster as by any node, with its watches, tokens and failures: that
is the purpose of such a node. The files have no reader, so none is written, nothing is mounted, and no path of the
machine is touched.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.core.claims import claim_of
from trikubelet.core.containers.unsupported import why_not_mounted
from trikubelet.core.containers.volume_files import sources_of
from trikubelet.core.names import pod_directory
from trikubelet.model.volume_figures import VolumeFigures
from trikubelet.volumes.claims import ClaimedVolumes
from trikubelet.volumes.content import maker_of
from trikubelet.volumes.side_by_side import set_up_all

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.containers.env_file import EnvFile
    from trikubelet.core.containers.volume_files import Files
    from trikubelet.model.csi import DriverInfo, VolumeStats
    from trikubelet.model.k8s import Container, Node, Pod, Volume
    from trikubelet.model.runtime_config import Mount
    from trikubelet.ports import Claims, Events, PodObjects


class FakeVolumes:
    """Owns the volumes that are reported to exist: by pod, the names."""

    def __init__(self, root: Path, facts: NodeFacts) -> None:
        self.said: dict[str, set[str]] = {}
        self._pods = root / "pods"
        self._facts = facts
        self._objects: PodObjects | None = None
        self._claims = ClaimedVolumes()
        self._figures = VolumeFigures()

    def use_objects(self, objects: PodObjects) -> None:
        """Use this source for the objects of volumes."""
        self._objects = objects

    def use_claims(
        self, claims: Claims, node: Callable[[], Node | None], changed: Callable[[], None], events: Events
    ) -> None:
        """Use this API server for claims."""
        self._claims.use_objects(claims, node)

    def node_changed(self) -> None:
        """Do nothing: nothing waits to be attached."""

    def in_use(self) -> Collection[str]:
        """Return none: nothing is attached."""
        return ()

    def drivers(self) -> Mapping[str, DriverInfo]:
        """Return none: there are no drivers."""
        return {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Do nothing."""
        task_status.started()

    async def set_up(self, pod: Pod) -> Mapping[str, str]:
        """Return every volume's path. Raises VolumeFailed like real volumes."""
        return await set_up_all(pod, pod.spec.volumes, partial(self._set_up, pod), self._figures)

    async def _set_up(self, pod: Pod, volume: Volume) -> str:
        if volume.host_path is not None:
            return volume.host_path.path
        await self._ask(pod, volume)
        self.said.setdefault(pod.metadata.uid, set()).add(volume.name)
        return self._path(pod, volume)

    async def _ask(self, pod: Pod, volume: Volume) -> None:
        if (sources := sources_of(volume)) is not None:
            assert self._objects is not None, "there is no source of objects"
            try:
                files = await maker_of(pod, sources, self._objects, self._facts)
                self._fill(self._path(pod, volume), files())
            except ValueError:
                if volume.name not in self.said.get(pod.metadata.uid, ()):
                    raise
        elif (claim := claim_of(pod, volume)) is not None:
            await self._claims.find(pod, volume.name, claim)
        elif not any((volume.empty_dir, volume.nfs, volume.image, volume.csi)):
            raise ValueError(why_not_mounted(volume))

    async def resolve(self, pod: Pod, container: Container, mounts: Sequence[Mount]) -> tuple[Mount, ...]:
        """Return host paths in place of sub-paths; nothing accesses them."""
        return tuple(
            replace(mount, host_path=f"{mount.host_path}/{mount.sub_path}", sub_path="")
            if mount.sub_path and not mount.image
            else mount
            for mount in mounts
        )

    def _path(self, pod: Pod, volume: Volume) -> str:
        return str(pod_directory(self._pods, pod.metadata.uid) / "volumes" / volume.name)

    def figures(self) -> VolumeFigures:
        """Return what was requested, and is reported as ready."""
        return self._figures

    def places(self, uid: str) -> Mapping[str, str]:
        """Return none: the volumes have no places."""
        return {}

    async def volume_stats(self, uid: str, path: str) -> VolumeStats | None:
        """Return None: there is no driver to report."""
        return None

    def groups(self, uid: str) -> tuple[int, ...]:
        """Return none."""
        return ()

    def progress(self, uid: str) -> Mapping[str, str]:
        """Return the volumes that are reported to exist."""
        return dict.fromkeys(self.said.get(uid, ()), "requested; containers are simulated here")

    def _fill(self, path: str, files: Files) -> None:
        """Do nothing: the files have no reader."""

    async def read_env_file(self, volume_path: str, path: str, keys: Collection[str]) -> EnvFile:
        """Raises FileNotFoundError, because there are no files."""
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{volume_path}/{path}")

    async def tear_down(self, uid: str) -> None:
        """Forget the pod's volumes."""
        if self._objects is not None:
            self._objects.release(uid)
        self._claims.release(uid)
        self._figures.released(uid)
        self.said.pop(uid, None)
