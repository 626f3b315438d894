"""What CSI drivers were asked to do on this node and have not been asked to undo: on the disk, beside each mount.

    pods/UID/volumes/kubernetes.io~csi/VOLUME/{vol_data.json, mount}     published to a pod
    plugins/kubernetes.io/csi/DRIVER/DIGEST/{vol_data.json, globalmount} staged on the node
    plugins/kubernetes.io/csi/volumeDevices/VOLUME/data/vol_data.json    a block volume, and
        …/staging/VOLUME, …/publish/VOLUME/UID                           where it is staged and published;
        pods/UID/volumeDevices/kubernetes.io~csi/VOLUME                  a link to the latter says for whom

A record is written before its driver is asked and removed after the driver's final answer, so leftovers of a crash are
found. All of it is the agent's own local disk, in upstream's layout: these calls are synchronous.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.core.csi import VolumeData, handle_digest, unique_name
from trikubelet.core.names import path_uid, pod_directory
from trikubelet.kit.plain_file import put_plain, read_plain
from trikubelet.model.names import uid_problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from trikubelet.core.csi import Volume

PLUGIN: Final = "kubernetes.io~csi"
DATA: Final = "vol_data.json"
MODE: Final = 0o750
RECORD_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of one record: more than all a PersistentVolume can say of its volume."""


@dataclass(frozen=True, slots=True)
class Published:
    """A volume that a pod has, or may have. ``target``: where the driver was asked to put it."""

    uid: str
    name: str
    data: VolumeData
    target: Path
    is_block: bool


@dataclass(frozen=True, slots=True)
class Staged:
    """A volume that is ready on the node, or may be. ``path``: where."""

    data: VolumeData
    path: Path
    record: Path


class CsiRecords:
    """Owns what is published to which pod, and what is staged. ``unread``: by UID, what could not be read of it."""

    def __init__(self, root: Path) -> None:
        self.published: dict[tuple[str, str], Published] = {}
        self.staged: dict[Path, Staged] = {}
        self.unread: dict[str, str] = {}
        self._pods = root / "pods"
        self._base = root / "plugins/kubernetes.io/csi"
        self._devices = self._base / "volumeDevices"
        self._load()

    def of_pod(self, uid: str) -> tuple[Published, ...]:
        """The volumes that the pod has."""
        return tuple(one for one in self.published.values() if one.uid == uid)

    def is_used(self, identity: tuple[str, str]) -> bool:
        """Whether a pod has the volume."""
        return any(one.data.identity == identity for one in self.published.values())

    def attached(self) -> Collection[str]:
        """The unique names of the volumes that must stay attached to this node."""
        every = [one.data for one in self.published.values()] + [one.data for one in self.staged.values()]
        return {unique_name(*data.identity) for data in every if data.attachment_id}

    def note_published(self, uid: str, volume: Volume, data: VolumeData) -> Published:
        """The driver is about to be asked to publish. Raises OSError."""
        noted = self._published(uid, volume.name, data, is_block=volume.is_block)
        noted.target.parent.mkdir(mode=MODE, parents=True, exist_ok=True)
        mark = self._mark(noted)
        if volume.is_block:
            _write(self._device_record(volume.name), data)
            mark.parent.mkdir(mode=MODE, parents=True, exist_ok=True)
            if not mark.is_symlink():
                mark.symlink_to(noted.target)
        else:
            _write(mark, data)
        self.published[uid, volume.name] = noted
        return noted

    def note_staged(self, volume: Volume, data: VolumeData) -> Staged:
        """The driver is about to be asked to stage. Raises OSError."""
        staged = self._staged(volume.name, data, is_block=volume.is_block)
        _write(staged.record, data)
        self.staged[staged.path] = staged
        return staged

    def staging_path(self, volume: Volume) -> Path:
        """Where the volume is staged, if it is."""
        data = VolumeData(volume.handle, volume.driver)
        return self._staged(volume.name, data, is_block=volume.is_block).path

    def drop_published(self, noted: Published) -> None:
        """The pod does not have it any more. Its directory goes with the pod's others. Raises OSError."""
        self._mark(noted).unlink(missing_ok=True)
        self.published.pop((noted.uid, noted.name), None)

    def drop_staged(self, staged: Staged) -> None:
        """The volume is no longer staged, and nothing is left at its path. Raises OSError."""
        staged.record.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # an empty directory does no harm
            os.rmdir(staged.record.parent)
        self.staged.pop(staged.path, None)

    def _published(self, uid: str, name: str, data: VolumeData, *, is_block: bool) -> Published:
        place = self._devices / "publish" / name / path_uid(uid) if is_block else self._volumes(uid) / name / "mount"
        return Published(uid, name, data, place, is_block)

    def _staged(self, name: str, data: VolumeData, *, is_block: bool) -> Staged:
        if is_block:
            return Staged(data, self._devices / "staging" / name, self._device_record(name))
        place = self._base / data.driver_name / handle_digest(data.volume_handle)
        return Staged(data, place / "globalmount", place / DATA)

    def _mark(self, noted: Published) -> Path:
        """The file or link that records that the pod has it."""
        if noted.is_block:
            return pod_directory(self._pods, noted.uid) / "volumeDevices" / PLUGIN / noted.name
        return noted.target.parent / DATA

    def _volumes(self, uid: str) -> Path:
        return pod_directory(self._pods, uid) / "volumes" / PLUGIN

    def _device_record(self, name: str) -> Path:
        return self._devices / name / "data" / DATA

    def _load(self) -> None:
        for pod in (one for one in _entries(self._pods) if not uid_problem(one.name)):
            for volume in _entries(self._volumes(pod.name)):
                if (data := self._read(volume / DATA, pod.name)) is not None:
                    self.published[pod.name, volume.name] = self._published(pod.name, volume.name, data, is_block=False)
            for link in _entries(pod / "volumeDevices" / PLUGIN):
                if (data := self._read(self._device_record(link.name), pod.name)) is not None:
                    self.published[pod.name, link.name] = self._published(pod.name, link.name, data, is_block=True)
        for driver in _entries(self._base):
            for place in _entries(driver):
                if (data := self._read(place / DATA)) is not None:
                    self.staged[place / "globalmount"] = Staged(data, place / "globalmount", place / DATA)
        for device in _entries(self._devices):
            if (data := self._read(device / "data" / DATA)) is not None:
                staged = self._staged(device.name, data, is_block=True)
                self.staged[staged.path] = staged

    def _read(self, path: Path, uid: str = "") -> VolumeData | None:
        """None where there is no record, or none that can be read."""
        try:
            return msgspec.json.decode(read_plain(path, RECORD_BYTES_MAX), type=VolumeData)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            self.unread[uid] = f"{path} cannot be read: {error}"
            return None

    def __repr__(self) -> str:
        return f"<CsiRecords: {len(self.published)} published, {len(self.staged)} staged>"


def _entries(directory: Path) -> Iterator[Path]:
    """What is in a directory that is there and no link to somewhere else."""
    if directory.is_dir() and not directory.is_symlink():
        yield from sorted(directory.iterdir())


def _write(path: Path, data: VolumeData) -> None:
    """Atomic, whenever the machine stops."""
    path.parent.mkdir(mode=MODE, parents=True, exist_ok=True)
    put_plain(path, msgspec.json.encode(data))
