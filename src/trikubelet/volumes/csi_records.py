"""Records of the operations that CSI drivers were asked for and that are not undone yet: on disk, next to each mount.

    pods/UID/volumes/kubernetes.io~csi/VOLUME/{vol_data.json, mount}     published to a pod
    plugins/kubernetes.io/csi/DRIVER/DIGEST/{vol_data.json, globalmount} staged on the node
    plugins/kubernetes.io/csi/volumeDevices/VOLUME/data/vol_data.json    a block volume, and
        …/staging/VOLUME, …/publish/VOLUME/UID                           where it is staged and published;
        pods/UID/volumeDevices/kubernetes.io~csi/VOLUME                  a link to the latter, for each pod

A record is written before its driver is called and removed after the driver's final answer, so leftovers of a crash are
found. It is flushed, in a thread, before the call, so that a power cut leaves it whole or not at all. The layout is
upstream's.
"""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.core.csi import VolumeData, handle_digest, unique_name
from trikubelet.core.names import path_uid, pod_directory
from trikubelet.kit.disk import on_disk
from trikubelet.kit.plain_file import read_plain
from trikubelet.kit.private_file import sync_names, write_durably
from trikubelet.model.names import uid_problem
from trikubelet.volumes.mounter import is_mounted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from trikubelet.core.csi import Volume
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.volumes.mounter import Mounter

log = logging.getLogger(__name__)

PLUGIN: Final = "kubernetes.io~csi"
DATA: Final = "vol_data.json"
MODE: Final = 0o750
RECORD_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of one record: larger than any PersistentVolume."""


@dataclass(frozen=True, slots=True)
class Published:
    """A volume that is published to a pod, or may be. ``target``: the path in the driver's request."""

    uid: str
    name: str
    data: VolumeData
    target: Path
    is_block: bool


@dataclass(frozen=True, slots=True)
class Staged:
    """A volume that is staged on the node, or may be, at ``path``."""

    data: VolumeData
    path: Path
    record: Path


class CsiRecords:
    """Owns which volumes are published to which pod, and which are staged. ``unread``: by the pod's UID, why a record
    cannot be read."""

    def __init__(self, root: Path, mounter: Mounter, threads: ThreadPool) -> None:
        self.published: dict[tuple[str, str], Published] = {}
        self.staged: dict[Path, Staged] = {}
        self.unread: dict[str, str] = {}
        self._mounter = mounter
        self._threads = threads
        self._pods = root / "pods"
        self._base = root / "plugins/kubernetes.io/csi"
        self._devices = self._base / "volumeDevices"
        self._load()

    def of_pod(self, uid: str) -> tuple[Published, ...]:
        """Return the volumes that are published to the pod."""
        return tuple(one for one in self.published.values() if one.uid == uid)

    def is_used(self, identity: tuple[str, str]) -> bool:
        """True if the volume is published to any pod."""
        return any(one.data.identity == identity for one in self.published.values())

    def attached(self) -> Collection[str]:
        """Return the unique names of the volumes that must stay attached to this node."""
        every = [one.data for one in self.published.values()] + [one.data for one in self.staged.values()]
        return {unique_name(*data.identity) for data in every if data.attachment_id}

    async def note_published(self, uid: str, volume: Volume, data: VolumeData) -> Published:
        """Record that the driver is about to publish the volume. Raises OSError."""
        noted = self._published(uid, volume.name, data, is_block=volume.is_block)
        is_new = (uid, volume.name) not in self.published
        # Set before the write: if this task is cancelled, the thread may still write the record.
        self.published[uid, volume.name] = noted
        try:
            await self._on_disk(partial(self._write_published, noted), self._record(noted))
        except OSError:
            if is_new:
                del self.published[uid, volume.name]
            raise
        return noted

    def _write_published(self, noted: Published) -> None:
        mark = self._mark(noted)
        _make_durably(noted.target.parent)
        if not noted.is_block:
            _write(mark, noted.data)
            return
        _write(self._record(noted), noted.data)
        _make_durably(mark.parent)
        if not mark.is_symlink():
            mark.symlink_to(noted.target)
        sync_names(mark.parent)

    async def note_staged(self, volume: Volume, data: VolumeData) -> Staged:
        """Record that the driver is about to stage the volume. Raises OSError."""
        staged = self._staged(volume.name, data, is_block=volume.is_block)
        is_new = staged.path not in self.staged
        self.staged[staged.path] = staged
        try:
            await self._on_disk(partial(_write, staged.record, data), staged.record)
        except OSError:
            if is_new:
                del self.staged[staged.path]
            raise
        return staged

    def staging_path(self, volume: Volume) -> Path:
        """Return the path at which the volume is staged, whether or not it is."""
        data = VolumeData(volume.handle, volume.driver)
        return self._staged(volume.name, data, is_block=volume.is_block).path

    async def drop_published(self, noted: Published) -> None:
        """Remove the record of a published volume. Its directory is removed with the pod's. Raises OSError."""
        await self._on_disk(partial(self._mark(noted).unlink, missing_ok=True), self._record(noted))
        self.published.pop((noted.uid, noted.name), None)

    async def drop_staged(self, staged: Staged) -> None:
        """Remove the record of a staged volume, whose path is empty already. Raises OSError."""
        await self._on_disk(partial(_remove, staged.record), staged.record)
        self.staged.pop(staged.path, None)

    async def _on_disk(self, work: Callable[[], None], record: Path) -> None:
        # Keyed by the file: publishing and staging a block device write the same one, and an abandoned thread of one
        # operation must not overwrite the record of the next.
        await on_disk(self._threads, work, f"record {record}")

    def _published(self, uid: str, name: str, data: VolumeData, *, is_block: bool) -> Published:
        place = self._devices / "publish" / name / path_uid(uid) if is_block else self._volumes(uid) / name / "mount"
        return Published(uid, name, data, place, is_block)

    def _staged(self, name: str, data: VolumeData, *, is_block: bool) -> Staged:
        if is_block:
            return Staged(data, self._devices / "staging" / name, self._device_record(name))
        place = self._base / data.driver_name / handle_digest(data.volume_handle)
        return Staged(data, place / "globalmount", place / DATA)

    def _mark(self, noted: Published) -> Path:
        """Return the file or link that marks the volume as published to the pod."""
        if noted.is_block:
            return pod_directory(self._pods, noted.uid) / "volumeDevices" / PLUGIN / noted.name
        return noted.target.parent / DATA

    def _record(self, noted: Published) -> Path:
        """Return the file with the volume's data. All pods that use a block device share it."""
        return self._device_record(noted.name) if noted.is_block else self._mark(noted)

    def _volumes(self, uid: str) -> Path:
        return pod_directory(self._pods, uid) / "volumes" / PLUGIN

    def _device_record(self, name: str) -> Path:
        return self._devices / name / "data" / DATA

    def _load(self) -> None:
        for pod in (one for one in _entries(self._pods) if not uid_problem(one.name)):
            for volume in _entries(self._volumes(pod.name)):
                self._load_published(pod.name, volume.name, volume / DATA, is_block=False)
            for link in _entries(pod / "volumeDevices" / PLUGIN):
                self._load_published(pod.name, link.name, self._device_record(link.name), is_block=True)
        for driver in _entries(self._base):
            for place in _entries(driver):
                path = place / "globalmount"
                if (data := self._read(place / DATA, path)) is not None:
                    self.staged[path] = Staged(data, path, place / DATA)
        for device in _entries(self._devices):
            path = self._devices / "staging" / device.name
            if (data := self._read(device / "data" / DATA, path)) is not None:
                staged = self._staged(device.name, data, is_block=True)
                self.staged[staged.path] = staged

    def _load_published(self, uid: str, name: str, record: Path, *, is_block: bool) -> None:
        target = self._published(uid, name, VolumeData("", ""), is_block=is_block).target
        if (data := self._read(record, target, uid)) is not None:
            self.published[uid, name] = self._published(uid, name, data, is_block=is_block)

    def _read(self, path: Path, place: Path, uid: str = "") -> VolumeData | None:
        """Return a record; None if there is none, or it cannot be read. ``place``: the driver's mount point."""
        try:
            content = read_plain(path, RECORD_BYTES_MAX)
            if not content.strip(b"\0") and not is_mounted(self._mounter, place):
                # Records used to be written without a flush. A power cut then left an empty file, or one of zeros, and
                # ended every mount; while the machine runs, a record is never empty. So there is nothing to undo.
                log.warning("Ignoring %s: it is empty after a power cut and nothing is mounted at %s", path, place)
                return None
            return msgspec.json.decode(content, type=VolumeData)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            self.unread[uid] = f"cannot read {path}: {error}"
            return None

    def __repr__(self) -> str:
        return f"<CsiRecords: {len(self.published)} published, {len(self.staged)} staged>"


def _entries(directory: Path) -> Iterator[Path]:
    """Yield the entries of a directory; none if it is missing or a symbolic link."""
    if directory.is_dir() and not directory.is_symlink():
        yield from sorted(directory.iterdir())


def _write(path: Path, data: VolumeData) -> None:
    """Write the record atomically and durably."""
    _make_durably(path.parent)
    write_durably(path, msgspec.json.encode(data))


def _remove(record: Path) -> None:
    record.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # an empty directory does no harm
        os.rmdir(record.parent)


def _make_durably(directory: Path) -> None:
    """Create the directory and its parents, and flush their names: otherwise a record is lost with its directory."""
    if directory.is_dir():
        return
    _make_durably(directory.parent)
    directory.mkdir(mode=MODE, exist_ok=True)
    sync_names(directory.parent)
