"""Walks protobuf bytes in plain Python, like ``rust/relist/src/wire.rs``: every length is checked, and every fault is
reported with its place. The twins of the compiled code (``relist_twin``, ``statuses_twin``) read replies with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class TwinDecodeError(ValueError):
    """An unreadable reply; ``offset``: the place in it, or in its chunk, in bytes."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class Fault(Exception):
    """A fault at a byte of a message whose name the walker does not know."""

    def __init__(self, offset: int, problem: str) -> None:
        self.offset = offset
        self.problem = problem

    def located(self, where: str) -> TwinDecodeError:
        """Return the same fault with the name of its reply."""
        return TwinDecodeError(f"{where}, at byte {self.offset}: {self.problem}", self.offset)


class Field(NamedTuple):
    """One field of a message: its wire type, its number if it is one, and where its bytes begin and end."""

    number: int
    kind: int
    value: int
    start: int
    end: int


def fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message between two places. Raises Fault."""
    while at < end:
        tag, at = _varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise Fault(at, "a field number is out of range")
        value, length = 0, 0
        if kind == VARINT:
            value, at = _varint(data, at, end)
        elif kind == FIXED64:
            length = 8
        elif kind == BYTES:
            length, at = _varint(data, at, end)
        elif kind == FIXED32:
            length = 4
        else:
            raise Fault(at, "a field has the wrong wire type")
        if length > end - at:
            raise Fault(at, "the reply ends inside a field")
        yield Field(number, kind, value, at, at + length)
        at += length


def inside(data: bytes, entry: Field) -> Iterator[Field]:
    """Yield the fields of a field that is a message. Raises Fault, at once if it is none."""
    expect(entry, BYTES)
    return fields(data, entry.start, entry.end)


def text(data: bytes, entry: Field) -> str:
    """Return a field that is a string. Raises Fault."""
    expect(entry, BYTES)
    try:
        return data[entry.start : entry.end].decode()
    except UnicodeDecodeError:
        raise Fault(entry.start, "a string is not UTF-8") from None


def unsigned(entry: Field) -> int:
    """Return a field that is a ``uint32``, however long its varint. Raises Fault."""
    expect(entry, VARINT)
    return entry.value & 0xFFFFFFFF


def signed(entry: Field) -> int:
    """Return a field that is an ``int64``. Raises Fault."""
    expect(entry, VARINT)
    return entry.value - (1 << 64) if entry.value >= 1 << 63 else entry.value


def expect(entry: Field, kind: int) -> None:
    """Raise Fault unless the field has this wire type."""
    if entry.kind != kind:
        raise Fault(entry.end, "a field has the wrong wire type")


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for index in range(10):
        if at + index >= end:
            raise Fault(at, "the reply ends inside a field")
        byte = data[at + index]
        value |= (byte & 0x7F) << min(7 * index, 63)
        if byte < 0x80:
            return value & (1 << 64) - 1, at + index + 1
    raise Fault(at, "an integer is longer than ten bytes")
