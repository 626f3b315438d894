"""Reads an untrusted tar archive: one header after another, and never more than one of them in memory.

    512 bytes: a header ─► its content, padded to a full block ─► the next header ─► …       zeros: the end

Data that does not fit into a header is the content of a member before it: a long name (GNU, types L and K), or names
and sizes as ``key=value`` (POSIX's pax, type x). ``tarfile`` reads all of this, too. But it reads a name of any length
into memory, recurses for each such member before another, and keeps every member that it has seen.

Sparse files are reported and not read: only bsdtar makes such members by default.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

EXTENSION_BYTES_MAX: Final = 1024 * 1024
"""Bytes of names and other data before a member. The kernel accepts no path of more than 4096."""
_BLOCK: Final = 512
_PART_BYTES: Final = 64 * 1024
_ZEROS: Final = bytes(_BLOCK)
_CHECKSUM: Final = slice(148, 156)
_BROKEN: Final = "a pax header is broken"


class NoArchive(Exception):
    """The data is not a tar archive, or ends too soon."""


class Kind(StrEnum):
    """The kind of a member, in words that follow "is a"."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "symbolic link"
    HARD_LINK = "hard link"
    DEVICE = "device"
    PIPE = "pipe"
    SPARSE = "sparse file, which is not supported"
    UNKNOWN = "member of an unknown kind"


_KINDS: Final = {
    **dict.fromkeys((b"0", b"\0", b"7"), Kind.FILE),
    b"1": Kind.HARD_LINK,
    b"2": Kind.LINK,
    **dict.fromkeys((b"3", b"4"), Kind.DEVICE),
    b"5": Kind.DIRECTORY,
    b"6": Kind.PIPE,
    b"S": Kind.SPARSE,
}
_WITH_CONTENT: Final = (Kind.FILE, Kind.SPARSE, Kind.UNKNOWN)
_READ_OF_PAX: Final = (b"path", b"linkpath", b"size", b"GNU.sparse.name", b"GNU.sparse.major", b"GNU.sparse.size")
_LONG_NAMES: Final = {b"L": b"path", b"K": b"linkpath"}


class Member(NamedTuple):
    """The fields of a header. All but the kind are untrusted; ``name`` and ``link`` contain no null character.
    ``mtime``: seconds since 1970."""

    name: str
    kind: Kind
    link: str
    mode: int
    mtime: int


class Members:
    """The members in a stream, once. Owns the unread content of the last one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._left = 0
        self._padding = 0

    def __iter__(self) -> Iterator[Member]:
        """Yield each of them; the rest of the content of the one before is skipped. Raises NoArchive."""
        said: dict[bytes, bytes] = {}
        while (header := self._header()) is not None:
            kind = header[156:157]
            if kind in _LONG_NAMES:
                said[_LONG_NAMES[kind]] = _text(self._extension(header))
            elif kind in (b"x", b"X"):
                said |= _records(self._extension(header))
            elif kind == b"g":  # for all that follow: git writes its commit there
                self._begin(_number(header[124:136]))
            else:
                yield self._member(header, said)
                said = {}
            self._pass_over()

    def content(self) -> Iterator[bytes]:
        """Yield the content of the last member, part by part. Raises NoArchive if the stream ends before it does."""
        while self._left:
            part = self._stream.read(min(self._left, _PART_BYTES))
            if not part:
                raise NoArchive("it is truncated")
            self._left -= len(part)
            yield part

    def _header(self) -> bytes | None:
        """Return the next one, None at the end."""
        header = self._stream.read(_BLOCK)
        if not header or header == _ZEROS:
            return None
        if len(header) < _BLOCK:
            raise NoArchive("it is truncated")
        others = header[: _CHECKSUM.start] + b" " * 8 + header[_CHECKSUM.stop :]
        # Some old programs summed up signed bytes.
        if _number(header[_CHECKSUM]) not in (sum(others), sum(others) - 256 * sum(byte > 127 for byte in others)):
            raise NoArchive("a header's checksum is wrong")
        return header

    def _member(self, header: bytes, said: dict[bytes, bytes]) -> Member:
        kind = _KINDS.get(header[156:157], Kind.UNKNOWN)
        name = _text(header[:100])
        if header[257:263] == b"ustar\0" and (before := _text(header[345:500])):
            name = before + b"/" + name
        name = said.get(b"path", name)
        if kind is Kind.FILE and name.endswith(b"/"):  # as before there was a type for directories
            kind = Kind.DIRECTORY
        if header[156:157] == b"S" and header[482]:  # the positions of its content, in blocks of their own
            while self._exactly(_BLOCK)[504]:
                pass
        if any(key.startswith(b"GNU.sparse.") for key in said):
            kind, name = Kind.SPARSE, said.get(b"GNU.sparse.name", name)
        size = _number(said[b"size"], 10) if b"size" in said else _number(header[124:136])
        self._begin(size if kind in _WITH_CONTENT else 0)
        return Member(
            name=os.fsdecode(name.rstrip(b"/")),
            kind=kind,
            link=os.fsdecode(said.get(b"linkpath", _text(header[157:257]))),
            mode=_number(header[100:108]),
            mtime=_number(header[136:148]),
        )

    def _begin(self, size: int) -> None:
        if size < 0:
            raise NoArchive("a size is below zero")
        self._left, self._padding = size, -size % _BLOCK

    def _extension(self, header: bytes) -> bytes:
        size = _number(header[124:136])
        if size > EXTENSION_BYTES_MAX:
            raise NoArchive(f"a name or other data before a member has {size} bytes")
        self._begin(size)
        return b"".join(self.content())

    def _pass_over(self) -> None:
        for _ in self.content():
            pass
        self._exactly(self._padding)
        self._padding = 0

    def _exactly(self, count: int) -> bytes:
        octets = self._stream.read(count)
        if len(octets) < count:
            raise NoArchive("it is truncated")
        return octets


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _number(field: bytes, base: int = 8) -> int:
    """Return a number in digits, or in binary if the first bit is set (GNU); then the second is the sign. Raises
    NoArchive."""
    if field and field[0] & 0x80:
        bits = 8 * len(field) - 1
        value = int.from_bytes(field, "big") & ((1 << bits) - 1)
        return value - (value >> (bits - 1) << bits)
    digits = _text(field).strip()
    if len(digits) > 20 or (digits and not digits.isdigit()):  # fewer than take time to convert
        raise NoArchive("a number is invalid")
    try:
        return int(digits or b"0", base)
    except ValueError as error:
        raise NoArchive("a number is invalid") from error


def _records(octets: bytes) -> dict[bytes, bytes]:
    """Return the relevant records of a pax header: each is its length, a space, ``key=value`` and a newline. Raises
    NoArchive."""
    found: dict[bytes, bytes] = {}
    octets, begin = octets.rstrip(b"\0"), 0
    while begin < len(octets):
        digits = octets[begin : begin + 20].partition(b" ")[0]
        # Digits alone: other forms of a number could lead back, and into an endless loop.
        end = begin + (int(digits) if digits.isdigit() else 0)
        if not begin + len(digits) + 1 < end <= len(octets):
            raise NoArchive(_BROKEN)
        key, equals, value = octets[begin + len(digits) + 1 : end - 1].partition(b"=")
        if not equals or octets[end - 1 : end] != b"\n":
            raise NoArchive(_BROKEN)
        if key in _READ_OF_PAX:
            found[key] = _text(value)
        begin = end
    return found
