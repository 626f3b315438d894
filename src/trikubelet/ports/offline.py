"""The port of the offline store: the pods, and what they name, for a reboot without an API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from trikubelet.model.offline_records import Record, RecordKey, Stored


class OfflineStore(Protocol):
    """Records that survive a power cut. Every method that changes something returns when that is on the disk; if the
    power is cut before, each record is what it was or what it was to be, never a part of it. All methods raise OSError:
    the disk is full, read-only or does not answer, or the directory is not this user's alone. A change that was given
    up because the disk hangs may still happen, but never after a later change."""

    async def load(self) -> Stored:
        """Return all that a start needs. Damage costs the damaged record only. An empty store if there is none."""
        ...

    async def read(self, key: RecordKey) -> bytes | None:
        """Return the content of an object or token; None without one. Raises ValueError if it is damaged."""
        ...

    async def put(self, records: Sequence[Record]) -> Mapping[RecordKey, str]:
        """Add or replace records. Return the ones that were left out because they have no room, and why; the earlier
        record of such a one stays. A pod whose end is recorded is left out as well."""
        ...

    async def end(self, uids: Collection[str]) -> None:
        """Record the end of pods: no record of them is loaded or put any more. Needs no free space. Idempotent."""
        ...

    async def forget(self, keys: Collection[RecordKey]) -> None:
        """Remove records, with the recorded end of a pod. Needs no free space. Idempotent."""
        ...

    async def stamp(self, contact: str) -> None:
        """Replace the stamp of the last contact: one short line. Raises ValueError for another."""
        ...

    async def clear(self) -> None:
        """Remove the whole store. Idempotent."""
        ...


class EndRecords(Protocol):
    """The ends of pods that are on the disk. The status writer asks before it tells the server of one."""

    def may_confirm(self, uid: str) -> bool:
        """True if the server may hear now that the pod has ended: its end is recorded, or could not be for too long. If
        not, it is recorded from now on, and the caller is called when it is. Never blocks."""
        ...
