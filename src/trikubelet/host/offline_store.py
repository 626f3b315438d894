"""The offline store on the real disk (``ports.OfflineStore``).

    <root>/offline/                0700
      head                         the owner of the store
      contact                      the last contact, in two slots, written in place
      pods/<uid>.pod               a remembered pod; <uid>.over once its end is recorded
      objects/<name>, tokens/<name>

Every file is 0600, flushed, and put in place by a rename; the names of a directory are flushed once for a batch. An end
is a rename, so it needs no free space. A file in the wrong form, of whatever kind, is no record: it is named, and the
others count. All work is done in threads (``kit.disk``), one change at a time, so that a change which hangs and still
happens never undoes a later one. Its size is measured before each write, which is rare, because the directory is the
only record of it that damage, operators and abandoned threads leave true. (docs/decisions/0046)
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.core.offline_files import (
    FILES_MAX,
    RECORD_BYTES_MAX,
    SLOT_BYTES,
    SLOT_OFFSETS,
    Slot,
    Usage,
    check_name,
    decode_record,
    decode_slot,
    encode_record,
    encode_slot,
    newest_slot,
    refusal,
)
from trikubelet.host.removal import remove_unmounted
from trikubelet.kit.disk import disk_in_time, on_disk
from trikubelet.kit.plain_file import clear, errors_name, open_plain, open_plain_to_lock, put_in_place
from trikubelet.kit.private_file import lay_beside, sync_names
from trikubelet.model.errors import StillMounted
from trikubelet.model.offline_records import HEAD, Record, RecordKey, Shelf, Stored, pod_key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from trikubelet.kit.threads import ThreadPool

R = TypeVar("R")

NAME: Final = "offline"
MODE: Final = 0o700
LOAD_SECONDS_MAX: Final = 60.0
"""For all pods' records at a boot, when every part of the system reads the disk."""
NAMES_MAX: Final = 4 * FILES_MAX
"""Names of a directory that are looked at: a store has far fewer, and what an operator copied there has no end."""
CONTACT: Final = "contact"
_ORDER: Final = tuple(Shelf)
_SHELVES: Final = (Shelf.PODS, Shelf.OBJECTS, Shelf.TOKENS)
_POD, _OVER, _NEW = ".pod", ".over", ".new"


class DiskOfflineStore:
    """Owns the files of the store."""

    def __init__(self, root: Path, threads: ThreadPool) -> None:
        self._place = root / NAME
        self._threads = threads
        self._turn = trio.Lock()

    async def load(self) -> Stored:
        """See ``ports.OfflineStore``; so for all below."""
        async with self._turn:
            read = partial(self._threads.run, partial(_load, self._place), str(self._place), may_hang=True)
            return await disk_in_time(LOAD_SECONDS_MAX, read)

    async def read(self, key: RecordKey) -> bytes | None:
        return await on_disk(self._threads, partial(_read, self._place, key))

    async def put(self, records: Sequence[Record]) -> Mapping[RecordKey, str]:
        return await self._change(partial(_put, self._place, records))

    async def end(self, uids: Collection[str]) -> None:
        await self._change(partial(_end, self._place, uids))

    async def forget(self, keys: Collection[RecordKey]) -> None:
        await self._change(partial(_forget, self._place, keys))

    async def stamp(self, contact: str) -> None:
        encode_slot(Slot(0, contact))
        await self._change(partial(_stamp, self._place, contact))

    async def clear(self) -> None:
        await self._change(partial(_clear, self._place))

    async def _change(self, work: Callable[[], R]) -> R:
        async with self._turn:
            return await on_disk(self._threads, work, str(self._place))

    def __repr__(self) -> str:
        return f"<DiskOfflineStore {self._place}>"


def _path(place: Path, key: RecordKey) -> Path:
    """Return the file of a record. Raises ValueError for a name that is none."""
    name = check_name(key)
    if key.shelf is Shelf.HEAD:
        return place / name
    directory: Path = place / key.shelf.value
    return directory / (name + _POD if key.shelf is Shelf.PODS else name)


def _over(path: Path) -> Path:
    return path.with_suffix(_OVER)


def _key(shelf: Shelf, name: str) -> tuple[RecordKey | None, bool]:
    """Return the record of a file, None for another file, and true if it is the end of a pod."""
    stem, suffix = os.path.splitext(name) if shelf is Shelf.PODS else (name, _POD)
    key = RecordKey(shelf, stem)
    try:
        check_name(key)
    except ValueError:
        return None, False
    return (key if suffix in (_POD, _OVER) else None), suffix == _OVER


# ---- reading ----


def _load(place: Path) -> Stored:
    if not _is_ours(place):
        return Stored()
    unreadable: dict[str, str] = {}
    head = _readable(place, HEAD, unreadable)
    pods: dict[str, bytes] = {}
    ended, kept = set[str](), set[RecordKey]()
    for shelf in _SHELVES:
        for name in _names(place / shelf.value, unreadable):
            key, is_over = _key(shelf, name)
            if key is None:
                unreadable[f"{shelf.value}/{name}"] = "it is no file of the offline store"
            elif is_over:
                ended.add(key.name)  # the name is the record: what is in the file no longer matters
            elif shelf is not Shelf.PODS:
                kept.add(key)
            elif (content := _readable(place, key, unreadable)) is not None:
                pods[key.name] = content
    for uid in ended:
        pods.pop(uid, None)
    contact = newest_slot(_slots(place))
    return Stored(head, contact.content if contact else "", pods, frozenset(ended), frozenset(kept), unreadable)


def _readable(place: Path, key: RecordKey, unreadable: dict[str, str]) -> bytes | None:
    try:
        return _read(place, key)
    except ValueError as error:
        unreadable[str(key)] = str(error)
    return None


def _read(place: Path, key: RecordKey) -> bytes | None:
    """Return None without a record. Raises ValueError for a damaged one, whatever the damage: a pipe, say, or a block
    that the disk cannot read."""
    path = _path(place, key)
    try:
        with open_plain(str(path), follows_links=False) as file:
            raw = file.read(RECORD_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error
    if len(raw) > RECORD_BYTES_MAX:
        raise ValueError(f"it is larger than {RECORD_BYTES_MAX} bytes")
    return decode_record(key, raw)


def _names(directory: Path, unreadable: dict[str, str]) -> list[str]:
    """Return the names of the files; leftovers of a write that a power cut ended are removed."""
    found: list[str] = []
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(".") and entry.name.endswith(_NEW):
                with suppress(OSError):
                    os.unlink(entry.path)
            elif len(found) == NAMES_MAX:
                unreadable[directory.name] = f"it has more than {NAMES_MAX} files, and the others are not read"
                break
            else:
                found.append(entry.name)
    return sorted(found)


def _slots(place: Path) -> list[Slot | None]:
    try:
        with open_plain(str(place / CONTACT), follows_links=False) as file:
            raw = file.read(SLOT_OFFSETS[-1] + SLOT_BYTES)
    except OSError:  # without a contact, only pods that the cluster keeps for ever may start
        return [None for _ in SLOT_OFFSETS]
    return [decode_slot(raw[offset : offset + SLOT_BYTES]) for offset in SLOT_OFFSETS]


# ---- changes ----


def _is_ours(place: Path) -> bool:
    """Return false without a store. Raises OSError for one that another user may have written."""
    try:
        found = os.lstat(place)
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is no directory", str(place))
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        why = "other users may write to it (remove it, or give it to this user alone)"
        raise PermissionError(errno.EPERM, why, str(place))
    return True


def _make(place: Path) -> None:
    """Make the directories, so that they are there after a power cut, too."""
    if not _is_ours(place):
        place.mkdir(mode=MODE, parents=True)
        sync_names(place.parent)
    for shelf in _SHELVES:
        directory = place / shelf.value
        if not directory.is_dir():
            directory.mkdir(mode=MODE)
            sync_names(place)


def _put(place: Path, records: Sequence[Record]) -> dict[RecordKey, str]:
    _make(place)
    sizes = _sizes(place)
    left_out: dict[RecordKey, str] = {}
    laid: list[tuple[Path, Path]] = []
    failed: OSError | None = None
    for record in sorted(records, key=lambda one: _ORDER.index(one.key.shelf)):
        path, raw = _path(place, record.key), encode_record(record)
        if record.key.shelf is Shelf.PODS and os.path.lexists(_over(path)):
            left_out[record.key] = "its end is recorded"
            continue
        usage = Usage(len(sizes), sum(sizes.values()))
        if why := refusal(record.key, len(raw), sizes.get(path), usage):
            left_out[record.key] = why
            continue
        try:
            laid.append((lay_beside(path, raw), path))
        except OSError as error:  # a full disk, say: what was laid is put in place, and the caller tries all again
            failed = error
            break
        sizes[path] = len(raw)
    for beside, path in laid:
        try:
            with errors_name(path):
                put_in_place(beside, path)
        except OSError as error:  # a directory in its place
            beside.unlink(missing_ok=True)
            failed = error
    _sync({path.parent for _, path in laid})
    if failed is not None:
        raise failed
    return left_out


def _sizes(place: Path) -> dict[Path, int]:
    """Return the sizes of all records, in bytes. A larger file is no record, and must not take the room of all."""
    found: dict[Path, int] = {}
    for directory in (place, *(place / shelf.value for shelf in _SHELVES)):
        with os.scandir(directory) as entries:
            for entry in islice(entries, NAMES_MAX):
                if entry.name != CONTACT and not entry.is_dir(follow_symlinks=False):
                    size = entry.stat(follow_symlinks=False).st_size
                    found[directory / entry.name] = min(size, RECORD_BYTES_MAX)
    return found


def _sync(directories: Collection[Path]) -> None:
    """Flush the names in the directories. One that is gone takes its names along, so its parent is flushed."""
    for directory in directories:
        there = directory
        while not there.exists():
            there = there.parent
        sync_names(there)


def _end(place: Path, uids: Collection[str]) -> None:
    if not _is_ours(place):
        _sync({place})
        return
    for uid in uids:
        path = _path(place, pod_key(uid))
        with suppress(FileNotFoundError):  # it was never remembered, so it cannot start
            put_in_place(path, _over(path))
    _sync({place / Shelf.PODS.value})


def _forget(place: Path, keys: Collection[RecordKey]) -> None:
    if not _is_ours(place):
        _sync({place})
        return
    paths = [_path(place, key) for key in keys]
    for key, path in zip(keys, paths, strict=True):
        clear(path)
        if key.shelf is Shelf.PODS:
            clear(_over(path))  # last: until the pod's record is gone, its end must stay
    _sync({path.parent for path in paths})


def _stamp(place: Path, contact: str) -> None:
    _make(place)
    slots = _slots(place)
    newest = newest_slot(slots)
    number = newest.number + 1 if newest else 1
    offset = SLOT_OFFSETS[1 - slots.index(newest) if newest else 0]
    path = place / CONTACT
    is_new = not (path.is_file() and not path.is_symlink())
    if is_new:
        clear(path)  # a pipe or a link in its place
    descriptor = open_plain_to_lock(str(path), 0o600)
    try:
        os.pwrite(descriptor, encode_slot(Slot(number, contact)), offset)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    if is_new:
        sync_names(place)


def _clear(place: Path) -> None:
    if place.is_symlink():
        clear(place)
    try:
        remove_unmounted(place)
    except StillMounted as error:
        raise OSError(errno.EBUSY, str(error), str(place)) from error
    _sync({place})
