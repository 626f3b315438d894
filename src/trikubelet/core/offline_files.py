"""The form of the offline store's files, and what has room in it.

    trikubelet-offline 1 <SHA-256 of all below>       a record: one line, one line of JSON, the content
    {"shelf":"pods","name":"<uid>"}
    <content>

The sum covers the name as well, so that a file in another file's place is damaged, not another record. The stamp of the
last contact is written in place, because it is written often: in two slots by turns, each with a number and a sum, so
that a torn write leaves the one before. (docs/decisions/0046)
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from trikubelet.core.names import path_uid
from trikubelet.model.frozen import Frozen
from trikubelet.model.offline_records import HEAD, Record, RecordKey, Shelf

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT: Final = 1
RECORD_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of one record's file: more than twice the largest object that etcd takes."""
FILES_MAX: Final = 4096
BYTES_MAX: Final = 128 * 1024 * 1024
FILES_FOR_PODS: Final = 1024
BYTES_FOR_PODS: Final = 32 * 1024 * 1024
"""Room that objects and tokens leave free, so that a pod's record always has room before them."""
SLOT_BYTES: Final = 512
"""A sector of a disk: written whole or not at all by most, and checked by a sum for the rest."""
STAMP_BYTES_MAX: Final = SLOT_BYTES - 128
SLOT_OFFSETS: Final = (0, 4096)
"""In two blocks of the file system, so that a write to one never touches the other."""
_MAGIC: Final = b"trikubelet-offline"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,200}")


class _Header(msgspec.Struct):
    shelf: str
    name: str


def check_name(key: RecordKey) -> str:
    """Return the record's name, which is safe as the name of a file. Raises ValueError for one that is not."""
    if key.shelf is Shelf.PODS:
        return path_uid(key.name)
    if not _NAME.fullmatch(key.name) or (key.shelf is Shelf.HEAD and key != HEAD):
        raise ValueError(f"{key.name!r} is no name of a record")
    return key.name


def encode_record(record: Record) -> bytes:
    """Return the record's file."""
    header = msgspec.json.encode(_Header(record.key.shelf.value, record.key.name))
    covered = header + b"\n" + record.content
    return b"%b %d %b\n%b" % (_MAGIC, FORMAT, sha256(covered).hexdigest().encode(), covered)


def decode_record(key: RecordKey, raw: bytes) -> bytes:
    """Return the content of the record's file. Raises ValueError, with the damage, if it is not that record's file."""
    first, _, covered = raw.partition(b"\n")
    words = first.split(b" ")
    if len(words) != 3 or words[0] != _MAGIC:
        raise ValueError("it is no file of the offline store")
    if words[1] != b"%d" % FORMAT:
        raise ValueError(f"it has format {words[1][:20].decode(errors='replace')}, and this release reads {FORMAT}")
    if words[2] != sha256(covered).hexdigest().encode():
        raise ValueError("its checksum does not match")
    header, _, content = covered.partition(b"\n")
    try:
        found = msgspec.json.decode(header, type=_Header)
    except msgspec.DecodeError as error:
        raise ValueError(f"its second line: {error}") from error
    if (found.shelf, found.name) != (key.shelf.value, key.name):
        raise ValueError(f"it is the record {found.shelf}/{found.name}")
    return content


class Slot(NamedTuple):
    """One of the two stamps."""

    number: int
    content: str


def encode_slot(slot: Slot) -> bytes:
    """Return the bytes of a stamp in its slot. Raises ValueError for one that is too long."""
    text = f"{FORMAT} {slot.number} {slot.content}"
    raw = f"{sha256(text.encode()).hexdigest()} {text}\n".encode()
    if len(slot.content.encode()) > STAMP_BYTES_MAX or "\n" in slot.content:
        raise ValueError(f"a stamp is one line of at most {STAMP_BYTES_MAX} bytes")
    return raw.ljust(SLOT_BYTES)


def decode_slot(raw: bytes) -> Slot | None:
    """Return the stamp; None if it was torn, or never written."""
    try:
        digest, text = raw.partition(b"\n")[0].decode().split(" ", 1)
        form, number, content = text.split(" ", 2)
    except ValueError:
        return None
    if form != str(FORMAT) or digest != sha256(text.encode()).hexdigest() or not number.isdecimal():
        return None
    return Slot(int(number), content)


def newest_slot(slots: Sequence[Slot | None]) -> Slot | None:
    """Return the stamp that was written last."""
    return max((slot for slot in slots if slot is not None), default=None)


class Usage(Frozen):
    """The size of a store."""

    files: int = 0
    bytes: int = 0


def refusal(key: RecordKey, size: int, replaced: int | None, usage: Usage) -> str:
    """Return why a file of ``size`` bytes has no room; "" if it has. ``replaced``: the size of the one in its place."""
    if size > RECORD_BYTES_MAX:
        return f"it has {size} bytes, and a record may have {RECORD_BYTES_MAX}"
    is_first = key.shelf in (Shelf.HEAD, Shelf.PODS)
    files_max = FILES_MAX if is_first else FILES_MAX - FILES_FOR_PODS
    bytes_max = BYTES_MAX if is_first else BYTES_MAX - BYTES_FOR_PODS
    if replaced is None and usage.files >= files_max:
        return f"the store has {usage.files} files, and may have {files_max}"
    if usage.bytes - (replaced or 0) + size > bytes_max:
        return f"the store would have more than {bytes_max} bytes"
    return ""
