"""Volumes made of data: configMap, secret, downwardAPI, and projected, which mixes them.

    sources (``core.containers.volume_files``) ─► their current objects ─► files ─► written atomically

Files are made in the thread that writes them, so no more are held in memory than are being written. They are compared
with their sources at every sync: on a change it is enough to wake the pod.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.containers.volume_files import sources_of
from trikubelet.core.names import object_ref
from trikubelet.kit.threads import StillRunning
from trikubelet.volumes import atomic_writer
from trikubelet.volumes.content import maker_of
from trikubelet.volumes.plugin import VolumePlugin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.containers.volume_files import Files, Sources
    from trikubelet.model.k8s import Pod, Volume
    from trikubelet.ports import PodObjects
    from trikubelet.volumes.plugin import PodPlaces

log = logging.getLogger(__name__)

MADE_AT_ONCE_MAX: Final = 4
"""Volumes of all pods that are made and written at the same time, because each holds its whole content. A pod may have
any number, and they are updated together."""


class DataVolumes(VolumePlugin):
    """Owns the source of the objects. Fills volumes with them: the observed state is on the disk, the desired state in
    its sources."""

    def __init__(self, places: PodPlaces, facts: NodeFacts) -> None:
        self._places = places
        self._facts = facts
        self._objects: PodObjects | None = None
        self._turns = trio.Semaphore(MADE_AT_ONCE_MAX)

    def use_objects(self, objects: PodObjects) -> None:
        """Use this source of objects from now on."""
        self._objects = objects

    async def prepare(self, pod: Pod, volume: Volume) -> str:
        """See ``VolumePlugin``."""
        sources = _sources(volume)
        path = self._places.of(pod, sources.plugin, volume.name)
        try:
            await self._fill(pod, volume.name, sources, path)
        except (ValueError, OSError, StillRunning) as error:
            if not atomic_writer.is_filled(path):
                raise
            # Like upstream, the pod keeps the files of an earlier process of the agent, whatever happened to the source
            # or the disk space.
            log.warning("Volume %s of pod %s stays as it was: %s", volume.name, object_ref(pod), error)
        return str(path)

    async def refresh(self, pod: Pod, volume: Volume, path: str) -> None:
        """See ``VolumePlugin``."""
        sources = _sources(volume)
        await self._fill(pod, volume.name, sources, self._places.of(pod, sources.plugin, volume.name))

    def release(self, uid: str) -> None:
        """See ``VolumePlugin``."""
        if self._objects is not None:
            self._objects.release(uid)

    async def _fill(self, pod: Pod, name: str, sources: Sources, path: Path) -> None:
        assert self._objects is not None, "there is no source of objects"
        files = await maker_of(pod, sources, self._objects, self._facts)
        group = self._places.fs_group(pod)
        make = partial(_directory, path, group)
        # A user's tmpfs may be small, or missing: only volumes that need it are kept there.
        if sources.in_memory and (self._places.user_memory is None or sources.has_secrets):
            size = self._places.memory_bytes(pod)
            make = partial(self._places.mount_memory, path, size, atomic_writer.directory_mode(group), group)
        async with self._turns:
            await self._places.threads.run(partial(_fill, path, make, files, group), f"{pod.metadata.uid}/{name}")


def _sources(volume: Volume) -> Sources:
    sources = sources_of(volume)
    assert sources is not None, "it is made of data"
    return sources


def _directory(path: Path, group: int | None) -> None:
    path.mkdir(mode=0o750, parents=True, exist_ok=True)
    atomic_writer.open_to(path, group)


def _fill(path: Path, make: Callable[[], None], files: Callable[[], Files], group: int | None) -> None:
    wanted = files()  # before anything is made on the disk, because it may be rejected
    if not atomic_writer.is_filled(path):  # otherwise it was made, and mounted, before
        make()
    atomic_writer.write(path, wanted, group)
