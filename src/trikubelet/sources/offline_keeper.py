"""Writes to the offline store, gathered and in the order that is safe.

    put, forget, stamp, may_confirm ─ synchronous ─► names and contents that wait
    run():  ends ─► removals ─► contents that are due (core/offline_writes) ─► the stamp      one call at a time
            ─ the disk fails ─► all of it again, later and later; the node goes on without it

Ends come first: the API server waits for them. A content of a pod that has ended, or was forgotten, is never written
after that. Nothing here delays a pod: a disk that fails or hangs costs records, and an end is confirmed without its
record after a limit. (docs/decisions/0046)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.offline_ends import END_WAIT_SECONDS_MAX, Confirmation, End, confirmation
from trikubelet.core.offline_writes import Urgency, WritePace
from trikubelet.kit.backoff import Backoff
from trikubelet.kit.failure_log import FailureLog
from trikubelet.kit.listeners import Listeners
from trikubelet.model.offline_records import Record, RecordKey, Shelf, pod_key

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from trikubelet.ports.offline import OfflineStore

log = logging.getLogger(__name__)

STAMP_SECONDS: Final = 600.0
AGAIN_SECONDS_MIN: Final = 1.0
AGAIN_SECONDS_MAX: Final = 30.0


class OfflineKeeper:
    """Owns what is to be written to the offline store, and which pods' ends it has; its only writer. ``recorded``: is
    called with the UIDs of pods whose end may be confirmed from now on."""

    def __init__(self, store: OfflineStore) -> None:
        self.recorded: Final[Listeners[Collection[str]]] = Listeners("ends that are on the disk")
        self._store = store
        self._pace = WritePace()
        self._contents: dict[RecordKey, tuple[Record, bytes]] = {}  # with their digests
        self._stored: set[RecordKey] = set()
        self._removals: set[RecordKey] = set()
        self._ends: dict[str, End] = {}
        self._stamp, self._stamped_at, self._is_stamp_urgent = "", float("-inf"), False
        self._left_out: dict[RecordKey, str] = {}
        self._wake = trio.Event()
        self._backoff = Backoff(AGAIN_SECONDS_MIN, AGAIN_SECONDS_MAX)
        self._failures = FailureLog()

    @property
    def left_out(self) -> Mapping[RecordKey, str]:
        """Return the records that have no room, and why."""
        return self._left_out

    def known(self, digests: Mapping[RecordKey, bytes]) -> None:
        """Note what the store had when the agent started, so that nothing of it is written again."""
        for key, digest in digests.items():
            self._pace.known(key, digest)
        self._stored.update(digests)

    def put(self, record: Record, digest: bytes, urgency: Urgency = Urgency.GATHERED) -> None:
        """Write the record when it is due. ``digest``: of all in it that is worth a write. Never blocks."""
        key = record.key
        if key in self._removals or (key.shelf is Shelf.PODS and key.name in self._ends):
            return
        if self._pace.changed(key, digest, trio.current_time(), urgency):
            self._contents[key] = (record, digest)
            self._wake.set()
        else:
            self._contents.pop(key, None)

    def forget(self, key: RecordKey) -> None:
        """Remove the record, if the store has it. For a pod: the server has it no more. Never blocks."""
        self._contents.pop(key, None)
        self._left_out.pop(key, None)
        self._pace.forgotten(key)
        if key.shelf is Shelf.PODS:
            self._ends.pop(key.name, None)
        if key in self._stored:
            self._removals.add(key)
            self._wake.set()

    def stamp(self, contact: str, urgency: Urgency = Urgency.GATHERED) -> None:
        """Note the last contact: written every ten minutes, or at once. Never blocks."""
        self._stamp = contact
        self._is_stamp_urgent |= urgency is Urgency.AT_ONCE
        self._wake.set()

    def may_confirm(self, uid: str) -> bool:
        """See ``ports.EndRecords``."""
        now = trio.current_time()
        end = self._ends.get(uid)
        if end is None:
            end = self._ends[uid] = End(now)
            self._contents.pop(pod_key(uid), None)
            self._pace.forgotten(pod_key(uid))
            self._wake.set()
        answer = confirmation(end, now)
        if answer is Confirmation.LATE and self._failures.may_log(f"the end of {uid}"):
            said = "The end of pod %s was not recorded within %g s, and the API server is told all the same"
            log.error(f"{said}: after a reboot without the server the pod may start again", uid, END_WAIT_SECONDS_MAX)
        return answer is not Confirmation.WAITS

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled."""
        task_status.started()
        while True:
            with trio.move_on_at(self._next_at()):
                await self._wake.wait()
            self._wake = trio.Event()
            try:
                await self._write_all()
            except OSError as error:
                if self._failures.may_log("writing"):
                    said = "Cannot write to the offline store: %s; what changes is not remembered, will try again"
                    log.warning(said, error)
                await trio.sleep(self._backoff.next_seconds())
                self._wake.set()
            else:
                self._failures.works_again("writing")
                self._backoff.reset()

    # ---- one round ----

    def _next_at(self) -> float:
        at = self._pace.next_at(trio.current_time())
        return min(at, self._stamp_due_at()) if self._stamp else at

    def _stamp_due_at(self) -> float:
        return float("-inf") if self._is_stamp_urgent else self._stamped_at + STAMP_SECONDS

    async def _write_all(self) -> None:
        await self._write_ends()
        await self._write_removals()
        await self._write_contents()
        await self._write_stamp()

    async def _write_ends(self) -> None:
        uids = [uid for uid, end in self._ends.items() if not end.is_recorded]
        if uids:
            await self._store.end(uids)
            for uid in uids:
                if uid in self._ends:  # it may have been forgotten meanwhile
                    self._ends[uid] = End(self._ends[uid].asked_at, is_recorded=True)
            self.recorded.notify(uids)

    async def _write_removals(self) -> None:
        removals = tuple(self._removals)
        if removals:
            await self._store.forget(removals)
            self._removals.difference_update(removals)
            self._stored.difference_update(removals)

    async def _write_contents(self) -> None:
        batch = [self._contents[key] for key in self._pace.due(trio.current_time())]
        if not batch:
            return
        self._stored.update(record.key for record, _ in batch)  # also what a failed call may still write
        left_out = await self._store.put([record for record, _ in batch])
        now = trio.current_time()
        for record, digest in batch:
            key = record.key
            if key in self._removals or (key.shelf is Shelf.PODS and key.name in self._ends):
                continue  # it ended, or was forgotten, during the write; that comes next
            if key in left_out:
                self._pace.refused(key, now)
                self._note_refusal(key, left_out[key])
                continue
            self._left_out.pop(key, None)
            self._pace.written(key, digest, len(record.content), now)
            if key in self._contents and self._contents[key][1] == digest:
                del self._contents[key]

    def _note_refusal(self, key: RecordKey, why: str) -> None:
        self._left_out[key] = why
        if self._failures.may_log(str(key)):
            log.warning("The offline store does not keep %s: %s; will try again", key, why)

    async def _write_stamp(self) -> None:
        now = trio.current_time()
        if self._stamp and self._stamp_due_at() <= now:
            stamp, self._is_stamp_urgent = self._stamp, False
            try:
                await self._store.stamp(stamp)
            except OSError:
                self._is_stamp_urgent = True
                raise
            self._stamped_at = now
            if self._stamp == stamp:
                self._stamp = ""

    def __repr__(self) -> str:
        return f"<OfflineKeeper: {len(self._stored)} records, {len(self._contents)} wait>"
