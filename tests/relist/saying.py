"""The same protobuf message said in another way: every reader must take the two for one.

Fields in another order, maps shuffled, values that are told twice (the last one counts), messages in two pieces (they
are merged), fields nobody knows in between.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from google.protobuf.descriptor import FieldDescriptor

from relist.wire import message as length_delimited
from relist.wire import varint

if TYPE_CHECKING:
    from google.protobuf.message import Message


def say(message: Message, chance: random.Random) -> bytes:
    """The message, in a way drawn by chance."""
    parts: list[list[bytes]] = []  # the order within a part counts, the order of parts does not
    for field, value in message.ListFields():
        if _is_map(field):
            parts.append(_map(field.number, value, chance))
        elif field.is_repeated:
            parts.append([_element(field, one, chance) for one in value])
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            parts.append([length_delimited(field.number, piece) for piece in _pieces(say(value, chance), chance)])
        else:
            parts.append([_scalar(field, other) for other in _stale(field, chance)] + [_scalar(field, value)])
    if chance.random() < 0.3:
        parts.append([length_delimited(chance.randint(100, 200), chance.randbytes(5))])
    return b"".join(_interleaved(parts, chance))


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _map(number: int, entries: dict[str, str], chance: random.Random) -> list[bytes]:
    told = chance.sample(sorted(entries.items()), len(entries))
    stale = [(key, "stale") for key, _ in told if chance.random() < 0.2]
    return [length_delimited(number, _entry(key, value, chance)) for key, value in [*stale, *told]]


def _entry(key: str, value: str, chance: random.Random) -> bytes:
    parts = [length_delimited(1, key.encode()), length_delimited(2, value.encode())]
    return b"".join(chance.sample(parts, 2))


def _element(field: FieldDescriptor, value: object, chance: random.Random) -> bytes:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return length_delimited(field.number, say(value, chance))  # type: ignore[arg-type] # a message, by its type
    return _scalar(field, value)


def _scalar(field: FieldDescriptor, value: object) -> bytes:
    if isinstance(value, str):
        return length_delimited(field.number, value.encode())
    assert isinstance(value, int)
    return varint(field.number << 3) + varint(value)


def _stale(field: FieldDescriptor, chance: random.Random) -> list[object]:
    if chance.random() > 0.2:
        return []
    return ["stale" if field.type == FieldDescriptor.TYPE_STRING else 1]


def _pieces(body: bytes, chance: random.Random) -> list[bytes]:
    """The message whole, or with an empty one before or after it: merged, they are the same."""
    return chance.choice([[body], [body], [b"", body], [body, b""]])


def _interleaved(parts: list[list[bytes]], chance: random.Random) -> list[bytes]:
    order = [index for index, part in enumerate(parts) for _ in part]
    chance.shuffle(order)
    rest = [iter(part) for part in parts]
    return [next(rest[index]) for index in order]
