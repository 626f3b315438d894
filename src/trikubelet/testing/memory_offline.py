"""An offline store in memory. No disk, no threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.core.offline_files import Slot, Usage, check_name, encode_record, encode_slot, refusal
from trikubelet.model.offline_records import HEAD, Record, RecordKey, Shelf, Stored, pod_key

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class MemoryOfflineStore:
    """Owns the records (``ports.OfflineStore``). Outlives the agent, like a disk. ``damaged``: records that cannot be
    read; ``fails``: the error of every access, if any; ``written_bytes`` and ``writes``: all that was put so far."""

    def __init__(self) -> None:
        self.records: dict[RecordKey, bytes] = {}
        self.ended: set[str] = set()
        self._sizes: dict[RecordKey, int] = {}
        self.contact = ""
        self.damaged: set[RecordKey] = set()
        self.fails: OSError | None = None
        self.written_bytes = self.writes = 0

    async def load(self) -> Stored:
        """See ``ports.OfflineStore``; so for all below."""
        await self._access()
        whole = {key: content for key, content in self.records.items() if key not in self.damaged}
        return Stored(
            head=whole.get(HEAD),
            contact=self.contact,
            pods={key.name: content for key, content in whole.items() if key.shelf is Shelf.PODS},
            ended=frozenset(self.ended),
            kept=frozenset(key for key in self.records if key.shelf in (Shelf.OBJECTS, Shelf.TOKENS)),
            unreadable={
                str(key): "its checksum does not match"
                for key in self.damaged & self.records.keys()
                if key.shelf in (Shelf.HEAD, Shelf.PODS)
            },
        )

    async def read(self, key: RecordKey) -> bytes | None:
        await self._access()
        if key in self.damaged & self.records.keys():
            raise ValueError("its checksum does not match")
        return self.records.get(key)

    async def put(self, records: Sequence[Record]) -> Mapping[RecordKey, str]:
        await self._access()
        left_out: dict[RecordKey, str] = {}
        for record in sorted(records, key=lambda one: tuple(Shelf).index(one.key.shelf)):
            check_name(record.key)
            size = len(encode_record(record))
            usage = Usage(len(self._sizes), sum(self._sizes.values()))
            if record.key.shelf is Shelf.PODS and record.key.name in self.ended:
                left_out[record.key] = "its end is recorded"
            elif why := refusal(record.key, size, self._sizes.get(record.key), usage):
                left_out[record.key] = why
            else:
                self._sizes[record.key] = size
                self.records[record.key] = record.content
                self.damaged.discard(record.key)
                self.written_bytes += size
                self.writes += 1
        return left_out

    async def end(self, uids: Collection[str]) -> None:
        await self._access()
        for uid in uids:
            if self.records.pop(pod_key(uid), None) is not None:
                self.ended.add(uid)

    async def forget(self, keys: Collection[RecordKey]) -> None:
        await self._access()
        for key in keys:
            self.records.pop(key, None)
            self._sizes.pop(key, None)
            if key.shelf is Shelf.PODS:
                self.ended.discard(key.name)

    async def stamp(self, contact: str) -> None:
        encode_slot(Slot(0, contact))
        await self._access()
        self.contact = contact

    async def clear(self) -> None:
        await self._access()
        self.records.clear()
        self._sizes.clear()
        self.ended.clear()
        self.contact = ""

    async def _access(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.fails is not None:
            raise self.fails
