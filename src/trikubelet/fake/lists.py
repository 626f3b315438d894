"""The bytes of the big lists, ready to be sent: every list in another order, at the cost of hardly more than its copy.

On a real runtime the order of the elements differs from list to list, and so does the order inside each of their label
and annotation maps; so comparing an element's bytes with the last ones finds a change where there is none. To rewrite
36 MB each second would make the fake runtime the bottleneck. So elements are in *buckets* of ``BUCKET_SIZE``. Each
bucket is joined beforehand in ``ORDERS`` ways that differ in the order of its elements and of their maps. A list takes
the next way and the buckets in a fresh random order; a change costs its own bucket's joins and nothing else.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, cycle, islice
from math import factorial
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from trikubelet.fake.records import Entry

ORDERS: Final = 4
"""Ways in which each bucket is joined. An element with a map of five entries always differs from the last time."""

BUCKET_SIZE: Final = 16
"""Elements. More make a list cheaper, fewer a change."""

_ARRANGEMENTS: Final = 64
"""Orders that are drawn for maps of one size; drawing one for each map would dominate the cost."""


class _Bucket:
    """Owns some elements and their joined bytes, one for each order; None: not joined yet."""

    __slots__ = ("entries", "joined")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.joined: list[bytes | None] = [None] * ORDERS


class ElementList:
    """Owns the elements of one of the big lists, by id, and the order in which it is sent next."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._buckets: list[_Bucket] = []
        self._bucket_of: dict[str, _Bucket] = {}
        self._roomy: list[_Bucket] = []  # not full
        self._turn = 0

    def __len__(self) -> int:
        return len(self._bucket_of)

    def put(self, id_: str, entry: Entry) -> None:
        """Add or replace an element. Ids are hexadecimal."""
        bucket = self._bucket_of.get(id_) or self._room()
        self._bucket_of[id_] = bucket
        bucket.entries[id_] = entry
        bucket.joined = [None] * ORDERS

    def remove(self, id_: str) -> None:
        """Take an element out. Raises KeyError."""
        bucket = self._bucket_of.pop(id_)
        if len(bucket.entries) == BUCKET_SIZE:
            self._roomy.append(bucket)
        del bucket.entries[id_]
        bucket.joined = [None] * ORDERS

    def pieces(self) -> list[bytes]:
        """The whole list, in another order than last time: bytes whose concatenation is the reply."""
        self._turn += 1
        order = self._turn % ORDERS
        self._chance.shuffle(self._buckets)
        return [bucket.joined[order] or self._join(bucket, order) for bucket in self._buckets]

    def some(self, ids: Iterable[str]) -> list[bytes]:
        """Only these elements of the list, in any order, as ``pieces``. Raises KeyError."""
        order = self._chance.randrange(ORDERS)
        found = [b"".join(_arranged(id_, self._bucket_of[id_].entries[id_], order)) for id_ in ids]
        self._chance.shuffle(found)
        return found

    def prepare(self) -> None:
        """Join the buckets for the next lists beforehand."""
        for bucket in self._buckets:
            for order, joined in enumerate(bucket.joined):
                if joined is None:
                    self._join(bucket, order)

    def _room(self) -> _Bucket:
        if not self._roomy:
            self._roomy.append(_Bucket())
            self._buckets.append(self._roomy[-1])
        bucket = self._roomy[-1]
        if len(bucket.entries) == BUCKET_SIZE - 1:  # the new one fills it
            self._roomy.pop()
        return bucket

    def _join(self, bucket: _Bucket, order: int) -> bytes:
        elements = list(bucket.entries.items())
        self._chance.shuffle(elements)
        parts = chain.from_iterable(_arranged(id_, entry, order) for id_, entry in elements)
        joined = bucket.joined[order] = b"".join(parts)
        return joined


def chunked(pieces: Iterable[bytes], bytes_max: int) -> Iterator[list[bytes]]:
    """Pieces of a list as the pieces of messages of at most ``bytes_max`` bytes, or of one piece where that is more; at
    least one message."""
    chunk: list[bytes] = []
    size = 0
    for piece in pieces:
        if chunk and size + len(piece) > bytes_max:
            yield chunk
            chunk, size = [], 0
        chunk.append(piece)
        size += len(piece)
    yield chunk


def _arranged(id_: str, entry: Entry, order: int) -> tuple[bytes, ...]:
    """An element's parts. From one order to the next it moves on to its next arrangement."""
    turn = (int(id_[:4], 16) * ORDERS + order) % _ARRANGEMENTS
    labels = _arrangements(len(entry.labels))[turn](entry.labels)
    annotations = _arrangements(len(entry.annotations))[turn](entry.annotations)
    return (entry.head, *labels, *annotations, entry.tail)


@lru_cache
def _arrangements(size: int) -> list[Callable[[Any], tuple[bytes, ...]]]:
    """Ways to arrange a map of ``size`` entries, all different as long as there are enough."""
    if size < 2:
        return [tuple] * _ARRANGEMENTS
    chance = Random(size)  # any of them will do
    found: dict[tuple[int, ...], None] = {}
    while len(found) < min(factorial(size), _ARRANGEMENTS):
        found[tuple(chance.sample(range(size), size))] = None
    return [itemgetter(*arrangement) for arrangement in islice(cycle(found), _ARRANGEMENTS)]
