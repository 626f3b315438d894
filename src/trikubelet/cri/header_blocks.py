"""Header blocks that come again: what a block of bytes means, or how headers are written, without going through HPACK.

A node that starts asks 30,000 times for a status with the same few header blocks, and is answered with few. But
a block may point into the table that both ends keep of headers said before, so what is remembered of it holds only
while that table stays as it is (RFC 7541, 2.3.2). In practice it changes during the first calls of a connection and
never again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from hpack.table import HeaderTable

REMEMBERED_MAX: Final = 64
"""Some twenty methods one way; an answer that all is well and a few error texts the other."""

Key = TypeVar("Key")
Meaning = TypeVar("Meaning")


class HeaderBlocks(Generic[Key, Meaning]):
    """Owns what is remembered of header blocks that one table gives their meaning."""

    def __init__(self, table: HeaderTable) -> None:
        self._table = table
        self._known: dict[Key, Meaning] = {}
        self._newest: tuple[bytes, bytes] | None = None
        self._shape = (0, 0)

    def recall(self, key: Key) -> Meaning | None:
        """Return the remembered meaning, if it still holds."""
        return self._known.get(key) if self._stands() else None

    def remember(self, key: Key, meaning: Meaning) -> None:
        """Keep what was found out after ``recall`` knew nothing. If finding it out has changed the table, it would do
        so the next time as well, and is not kept."""
        if self._stands():
            if len(self._known) == REMEMBERED_MAX:
                self._known.clear()
            self._known[key] = meaning

    def _stands(self) -> bool:
        """Return True if the table is unchanged; if not, forget all."""
        # Entries come in at the front, each a tuple of its own, and fall out at the end: if the first is the same and
        # there are as many, all are the same. The size says whether the next to come will push others out.
        entries = self._table.dynamic_entries
        newest, shape = (entries[0] if entries else None), (len(entries), self._table.maxsize)
        if newest is self._newest and shape == self._shape:
            return True
        self._newest, self._shape = newest, shape
        self._known.clear()
        return False
