"""The offline store's only writer: ends first, nothing after an end, a quiet disk, and a disk that fails or hangs."""

from __future__ import annotations

import errno
from collections import Counter
from typing import TYPE_CHECKING, Any

import trio

from trikubelet.core.offline_ends import END_WAIT_SECONDS_MAX
from trikubelet.core.offline_writes import DAY_SECONDS, WRITE_BYTES, Urgency
from trikubelet.model.offline_records import Record, RecordKey, Shelf, pod_key
from trikubelet.sources.offline_keeper import STAMP_SECONDS, OfflineKeeper
from trikubelet.testing.memory_offline import MemoryOfflineStore

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pytest
    from trio.testing import MockClock

A, B = pod_key("uid-a"), pod_key("uid-b")
FULL = OSError(errno.ENOSPC, "No space left on device")
STAMP_BYTES = 1024
"""The blocks of a write in place (measured on ext4)."""


class WatchedStore(MemoryOfflineStore):
    """Counts the calls. ``hangs``: no call returns until it is set back."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.count: Counter[str] = Counter()
        self.hangs = trio.Event()
        self.hangs.set()

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self.count[call] += 1

    async def put(self, records: Sequence[Record]) -> Mapping[RecordKey, str]:
        self._note("put")
        await self.hangs.wait()
        return await super().put(records)

    async def end(self, uids: Collection[str]) -> None:
        self._note("end")
        await self.hangs.wait()
        await super().end(uids)

    async def forget(self, keys: Collection[RecordKey]) -> None:
        self._note("forget")
        await super().forget(keys)

    async def stamp(self, contact: str) -> None:
        self._note("stamp")
        await super().stamp(contact)


def put(keeper: OfflineKeeper, key: RecordKey, content: bytes, urgency: Urgency = Urgency.GATHERED) -> None:
    keeper.put(Record(key, content), content, urgency)


async def test_records_are_written_in_one_batch_and_no_more(autojump_clock: MockClock, nursery: Any) -> None:
    store = WatchedStore()
    keeper = OfflineKeeper(store)
    await nursery.start(keeper.run)
    for number in range(50):
        put(keeper, pod_key(f"uid-{number}"), b"pod")
    await trio.sleep(3600)
    for number in range(50):
        put(keeper, pod_key(f"uid-{number}"), b"pod")
    await trio.sleep(3600)
    assert (50, {"put": 1}) == (len(store.records), store.count)


async def test_what_the_store_had_at_the_start_is_not_written_again(autojump_clock: MockClock, nursery: Any) -> None:
    store = WatchedStore()
    store.records[A] = b"pod"
    keeper = OfflineKeeper(store)
    keeper.known({A: b"pod"})
    await nursery.start(keeper.run)
    put(keeper, A, b"pod")
    await trio.sleep(3600)
    assert {} == store.count
    keeper.forget(A)
    await trio.sleep(1)
    assert {} == store.records


async def test_end_is_confirmed_only_after_it_is_on_the_disk(autojump_clock: MockClock, nursery: Any) -> None:
    store, told = WatchedStore(), list[str]()
    keeper = OfflineKeeper(store)
    keeper.recorded.add(told.extend)
    await nursery.start(keeper.run)
    put(keeper, A, b"pod")
    await trio.sleep(10)
    assert not keeper.may_confirm("uid-a")
    assert [] == told
    await trio.sleep(1)
    assert ({"uid-a"}, ["uid-a"]) == (store.ended, told)
    assert keeper.may_confirm("uid-a")


async def test_nothing_of_an_ended_pod_is_written_any_more(autojump_clock: MockClock, nursery: Any) -> None:
    store = WatchedStore()
    keeper = OfflineKeeper(store)
    await nursery.start(keeper.run)
    put(keeper, A, b"waits")
    assert not keeper.may_confirm("uid-a")
    put(keeper, A, b"late", Urgency.AT_ONCE)
    await trio.sleep(60)
    assert {} == store.records
    assert keeper.may_confirm("uid-a")


async def test_end_during_a_write_comes_after_it(autojump_clock: MockClock, nursery: Any) -> None:
    store = WatchedStore()
    keeper = OfflineKeeper(store)
    await nursery.start(keeper.run)
    store.hangs = trio.Event()
    put(keeper, A, b"pod", Urgency.AT_ONCE)
    await trio.sleep(1)
    assert not keeper.may_confirm("uid-a")
    await trio.sleep(5)
    assert not keeper.may_confirm("uid-a")
    store.hangs.set()
    await trio.sleep(1)
    assert ["put", "end"] == store.calls
    assert ({}, {"uid-a"}) == (store.records, store.ended)
    assert keeper.may_confirm("uid-a")


async def test_forgotten_record_is_removed_also_if_it_is_being_written(autojump_clock: MockClock, nursery: Any) -> None:
    store = WatchedStore()
    keeper = OfflineKeeper(store)
    await nursery.start(keeper.run)
    store.hangs = trio.Event()
    put(keeper, A, b"pod", Urgency.AT_ONCE)
    await trio.sleep(1)
    keeper.forget(A)
    store.hangs.set()
    await trio.sleep(1)
    assert {} == store.records
    keeper.forget(B)  # the store never had it
    await trio.sleep(1)
    assert {"put": 1, "forget": 1} == store.count


async def test_full_disk_is_logged_once_and_the_records_are_written_later(
    autojump_clock: MockClock, nursery: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = WatchedStore()
    keeper = OfflineKeeper(store)
    await nursery.start(keeper.run)
    store.fails = FULL
    put(keeper, A, b"pod")
    assert not keeper.may_confirm("uid-b")
    await trio.sleep(END_WAIT_SECONDS_MAX - 1)
    assert not keeper.may_confirm("uid-b")
    assert 1 == caplog.text.count("Cannot write to the offline store: [Errno 28] No space left on device")
    store.fails = None
    await trio.sleep(40)
    assert {A: b"pod"} == store.records
    assert keeper.may_confirm("uid-b")
    assert "was not recorded" not in caplog.text


async def test_end_is_confirmed_late_and_loudly_if_the_disk_hangs(
    autojump_clock: MockClock, nursery: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = WatchedStore()
    keeper = OfflineKeeper(store)
    await nursery.start(keeper.run)
    store.hangs = trio.Event()
    assert not keeper.may_confirm("uid-a")
    await trio.sleep(END_WAIT_SECONDS_MAX)
    assert keeper.may_confirm("uid-a")
    assert keeper.may_confirm("uid-a")
    assert 1 == caplog.text.count("The end of pod uid-a was not recorded within 60 s")
    store.hangs.set()


async def test_record_without_room_is_named_and_tried_again(
    autojump_clock: MockClock, nursery: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = WatchedStore()
    keeper = OfflineKeeper(store)
    await nursery.start(keeper.run)
    monkeypatch.setattr("trikubelet.core.offline_files.FILES_MAX", 1)
    put(keeper, A, b"pod")
    put(keeper, B, b"pod")
    await trio.sleep(10)
    assert {B} == keeper.left_out.keys()
    assert "The offline store does not keep pods/uid-b: the store has 1 files, and may have 1" in caplog.text
    keeper.forget(A)
    await trio.sleep(3600)
    assert ({B: b"pod"}, {}) == (store.records, keeper.left_out)


async def test_stamp_is_written_every_ten_minutes_and_at_once_if_asked(autojump_clock: MockClock, nursery: Any) -> None:
    store = WatchedStore()
    keeper = OfflineKeeper(store)
    await nursery.start(keeper.run)
    for second in range(0, 3600, 10):
        keeper.stamp(f"at {second}")
        await trio.sleep(10)
    assert 3600 / STAMP_SECONDS <= store.count["stamp"] <= 3600 / STAMP_SECONDS + 1
    keeper.stamp("at the end", Urgency.AT_ONCE)
    await trio.sleep(1)
    assert "at the end" == store.contact


async def test_quiet_day_of_110_pods_writes_less_than_five_mebibytes(autojump_clock: MockClock, nursery: Any) -> None:
    """Statuses change all the time, tokens are renewed every 48 minutes, the node reports every ten seconds."""
    store = WatchedStore()
    keeper = OfflineKeeper(store)
    await nursery.start(keeper.run)
    uids = [f"uid-{number}" for number in range(110)]
    for uid in uids:
        put(keeper, pod_key(uid), b"x" * 6000)
    await trio.sleep(60)
    before, writes = store.written_bytes, store.writes
    for number in range(int(DAY_SECONDS / 480)):
        for uid in uids:
            put(keeper, pod_key(uid), b"x" * 6000)
            if number % 6 == 0:
                put(keeper, RecordKey(Shelf.TOKENS, f"{uid}-1"), b"%d" % number * 400)
        keeper.stamp(f"at {number}")
        await trio.sleep(480)
    metadata = (store.writes - writes) * WRITE_BYTES * 0.7  # ten or more in a batch share the flush of their directory
    spent = store.written_bytes - before + metadata + store.count["stamp"] * STAMP_BYTES
    assert spent <= 5 * 1024 * 1024
    assert 220 == store.writes - writes
