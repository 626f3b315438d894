"""A cache for repeated header blocks: their decoded or encoded form, without HPACK.

A node that starts requests 30,000 statuses with the same few header blocks, and gets few different ones. But a block
may refer to the table of earlier headers that both ends keep, so a cache entry is valid only while that table is
unchanged (RFC 7541, 2.3.2). In practice it changes during the first calls of a connection and never again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from hpack.table import HeaderTable

REMEMBERED_MAX: Final = 64
"""About twenty methods for requests; the success and a few error texts for answers."""

Key = TypeVar("Key")
Meaning = TypeVar("Meaning")


class HeaderBlocks(Generic[Key, Meaning]):
    """Owns the cached header blocks of one HPACK table."""

    def __init__(self, table: HeaderTable) -> None:
        self._table = table
        self._known: dict[Key, Meaning] = {}
        self._newest: tuple[bytes, bytes] | None = None
        self._shape = (0, 0)

    def recall(self, key: Key) -> Meaning | None:
        """Return the cached value, if it is still valid."""
        return self._known.get(key) if self._stands() else None

    def remember(self, key: Key, meaning: Meaning) -> None:
        """Cache a value that ``recall`` did not have. It is not cached if computing it changed the table, because the
        next time would change it, too."""
        if self._stands():
            if len(self._known) == REMEMBERED_MAX:
                self._known.clear()
            self._known[key] = meaning

    def _stands(self) -> bool:
        """True if the table is unchanged; otherwise the cache is cleared."""
        # Entries are added at the front, each as a new tuple, and dropped at the end. So if the first entry is the same
        # object and the count is the same, all are. The size decides if the next entry will push others out.
        entries = self._table.dynamic_entries
        newest, shape = (entries[0] if entries else None), (len(entries), self._table.maxsize)
        if newest is self._newest and shape == self._shape:
            return True
        self._newest, self._shape = newest, shape
        self._known.clear()
        return False
