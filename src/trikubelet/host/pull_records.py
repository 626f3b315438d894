"""The records of pulled images on the real disk (``ports.PullRecords``), at upstream's places and in its form.

    <root>/image_manager/pulling/sha256-<of the image's name>   an ImagePullIntent
    <root>/image_manager/pulled/sha256-<of the runtime's id>    an ImagePulledRecord

A file is written atomically, also across a power cut: an image whose record is lost would be available to any pod. So
each is flushed, in threads (``kit.disk``); if the disk hangs, no pod may use the image, and its pod retries. If the
directories are removed while the agent runs, the next record creates them again. An unreadable file in a record's
place, of whatever kind, is no record: it proves nothing, and the next record replaces it.
"""

from __future__ import annotations

import logging
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from trikubelet.kit.disk import on_disk
from trikubelet.kit.plain_file import clear, read_plain
from trikubelet.kit.private_file import write_privately
from trikubelet.model.decoding import decode_object
from trikubelet.model.pull_records import API_VERSIONS, PulledRecord, PullIntent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from trikubelet.kit.threads import ThreadPool

log = logging.getLogger(__name__)

T = TypeVar("T", PulledRecord, PullIntent)
R = TypeVar("R")

MODE: Final = 0o700
RECORD_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of one record: the proofs of more than ten thousand Secrets."""


class DiskPullRecords:
    """Owns the files. Unreadable ones are logged once at each listing."""

    def __init__(self, root: Path, threads: ThreadPool) -> None:
        self._pulling = root / "image_manager" / "pulling"
        self._pulled = root / "image_manager" / "pulled"
        self._threads = threads
        for directory in (self._pulling, self._pulled):
            _make(directory)

    async def pulled(self, image_ref: str) -> PulledRecord | None:
        """See ``ports.PullRecords``; so for all below."""
        return await self._run(partial(_read, self._pulled / _name(image_ref), PulledRecord))

    async def all_pulled(self) -> Sequence[PulledRecord]:
        return await self._run(partial(_read_all, self._pulled, PulledRecord))

    async def keep(self, record: PulledRecord) -> None:
        await self._write(self._pulled / _name(record.image_ref), record)

    async def forget(self, image_ref: str) -> None:
        await self._remove(self._pulled / _name(image_ref))

    async def intend(self, image: str) -> None:
        await self._write(self._pulling / _name(image), PullIntent(image=image))

    async def is_intended(self, image: str) -> bool:
        return await self._run((self._pulling / _name(image)).exists)

    async def intents(self) -> Sequence[str]:
        return [intent.image for intent in await self._run(partial(_read_all, self._pulling, PullIntent))]

    async def settle(self, image: str) -> None:
        await self._remove(self._pulling / _name(image))

    async def _write(self, path: Path, record: PulledRecord | PullIntent) -> None:
        await self._run(partial(_write, path, msgspec.json.encode(record)), str(path))

    async def _remove(self, path: Path) -> None:
        await self._run(partial(clear, path), str(path))

    async def _run(self, work: Callable[[], R], changes: str = "") -> R:
        try:
            return await on_disk(self._threads, work, changes)
        except OSError as error:
            if error.filename is None:  # a full disk is reported by the write, without a file name
                error.filename = changes or str(self._pulled.parent)
            raise


def _name(of: str) -> str:
    return f"sha256-{sha256(of.encode()).hexdigest()}"


def _make(directory: Path) -> None:
    for one in (directory.parent, directory):
        one.mkdir(mode=MODE, parents=True, exist_ok=True)


def _write(path: Path, content: bytes) -> None:
    try:
        write_privately(path, content)
    except FileNotFoundError:
        _make(path.parent)
        write_privately(path, content)


def _read(path: Path, type_: type[T]) -> T | None:
    """Return None without a record. Raises ValueError if it cannot be read: because of its content, or because it is a
    pipe or an endless file."""
    try:
        record = decode_object(read_plain(path, RECORD_BYTES_MAX), type_)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: {error}") from error
    if record.kind != type_.KIND or record.api_version not in API_VERSIONS:
        raise ValueError(f"{path}: it is a {record.api_version} {record.kind}")
    return record


def _read_all(directory: Path, type_: type[T]) -> list[T]:
    found: list[T] = []
    try:
        paths = sorted(directory.iterdir())
    except FileNotFoundError:
        return found
    for path in paths:
        if path.name.startswith("sha256-") and not path.suffix:  # otherwise it was being written
            try:
                if (record := _read(path, type_)) is not None:
                    found.append(record)
            except ValueError as error:
                log.warning("Cannot read a record of pulled images: %s", error)
    return found
