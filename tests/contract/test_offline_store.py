"""The contract of ``ports.OfflineStore``, held by the real disk and by the memory, and a power cut at every step."""

from __future__ import annotations

import errno
import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from contract.power_cuts import PowerCuts, lay
from trikubelet.core import offline_files
from trikubelet.core.offline_files import BYTES_FOR_PODS, BYTES_MAX, RECORD_BYTES_MAX
from trikubelet.host import offline_store
from trikubelet.host.offline_store import DiskOfflineStore
from trikubelet.kit.disk import DISK_SECONDS_MAX
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.offline_records import HEAD, Record, RecordKey, Shelf, Stored, pod_key
from trikubelet.testing.memory_offline import MemoryOfflineStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.ports.offline import OfflineStore

pytestmark = pytest.mark.timeout(180)

A, B = pod_key("uid-a"), pod_key("uid-b")
SETTINGS = RecordKey(Shelf.OBJECTS, "ConfigMap-1")
TOKEN = RecordKey(Shelf.TOKENS, "uid-a-1")
ALL = [Record(HEAD, b"owner"), Record(A, b"pod a"), Record(B, b"pod b"), Record(SETTINGS, b"s"), Record(TOKEN, b"t")]


def on_disk(root: Path) -> DiskOfflineStore:
    return DiskOfflineStore(root, ThreadPool("offline", 2))


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> OfflineStore:
    return on_disk(tmp_path) if request.param == "disk" else MemoryOfflineStore()


async def test_empty_store_has_nothing(store: OfflineStore) -> None:
    assert Stored() == await store.load()
    assert None is await store.read(SETTINGS)
    await store.end(["uid-a"])
    await store.forget([A, SETTINGS])
    await store.clear()
    assert Stored() == await store.load()


async def test_records_are_there_from_put_to_forget(store: OfflineStore) -> None:
    assert {} == await store.put(ALL)
    await store.stamp("12:00")
    found = await store.load()
    assert (b"owner", "12:00", {"uid-a": b"pod a", "uid-b": b"pod b"}) == (found.head, found.contact, found.pods)
    assert {SETTINGS, TOKEN} == found.kept
    assert (b"s", b"t") == (await store.read(SETTINGS), await store.read(TOKEN))
    await store.forget([A, SETTINGS])
    await store.forget([A, SETTINGS])
    found = await store.load()
    assert ({"uid-b": b"pod b"}, {TOKEN}) == (found.pods, found.kept)
    assert None is await store.read(SETTINGS)


async def test_the_last_record_counts(store: OfflineStore) -> None:
    for content in (b"1", b"", b"a longer one"):
        await store.put([Record(A, content), Record(SETTINGS, content)])
        assert content == (await store.load()).pods["uid-a"]
        assert content == await store.read(SETTINGS)


async def test_ended_pod_is_not_put_again_until_it_is_forgotten(store: OfflineStore) -> None:
    await store.put(ALL)
    await store.end(["uid-a", "uid-unknown"])
    await store.end(["uid-a"])
    left_out = await store.put([Record(A, b"pod a, late"), Record(B, b"new")])
    assert {A: "its end is recorded"} == left_out
    found = await store.load()
    assert ({"uid-b": b"new"}, {"uid-a"}) == (found.pods, found.ended)
    await store.forget([A])
    assert frozenset() == (await store.load()).ended
    assert {} == await store.put([Record(A, b"pod a")])


async def test_last_stamp_counts(store: OfflineStore) -> None:
    for number in range(5):
        await store.stamp(f"contact {number}")
        assert f"contact {number}" == (await store.load()).contact
    for bad in ("two\nlines", "x" * 500):
        with pytest.raises(ValueError, match="a stamp is one line"):
            await store.stamp(bad)


async def test_nothing_is_left_after_clear(store: OfflineStore) -> None:
    await store.put(ALL)
    await store.stamp("12:00")
    await store.end(["uid-b"])
    await store.clear()
    assert Stored() == await store.load()
    assert {} == await store.put(ALL)


async def test_record_without_room_is_left_out_and_pods_come_first(store: OfflineStore) -> None:
    large = b"x" * (RECORD_BYTES_MAX - 4096)
    for number in range((BYTES_MAX - BYTES_FOR_PODS) // RECORD_BYTES_MAX):
        assert {} == await store.put([Record(RecordKey(Shelf.OBJECTS, f"ConfigMap-{number}"), large)])
    late = RecordKey(Shelf.OBJECTS, "ConfigMap-late")
    left_out = await store.put([Record(late, large), Record(A, b"pod a")])
    assert {late: f"the store would have more than {BYTES_MAX - BYTES_FOR_PODS} bytes"} == left_out
    assert None is await store.read(late)
    assert {"uid-a": b"pod a"} == (await store.load()).pods
    assert {} == await store.put([Record(RecordKey(Shelf.OBJECTS, "ConfigMap-0"), b"small"), Record(late, large)])


async def test_too_many_files_are_left_out_and_pods_come_first(
    store: OfflineStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offline_files, "FILES_MAX", 3)
    monkeypatch.setattr(offline_files, "FILES_FOR_PODS", 1)
    left_out = await store.put([Record(TOKEN, b"t"), Record(SETTINGS, b"s"), Record(A, b"a"), Record(HEAD, b"h")])
    assert {SETTINGS, TOKEN} == left_out.keys()
    assert {} == await store.put([Record(A, b"again"), Record(B, b"b")])
    assert [pod_key("c")] == list(await store.put([Record(pod_key("c"), b"c")]))


async def test_too_large_record_is_left_out_and_the_earlier_one_stays(store: OfflineStore) -> None:
    await store.put([Record(A, b"small")])
    left_out = await store.put([Record(A, b"x" * RECORD_BYTES_MAX)])
    assert "and a record may have 4194304" in left_out[A]
    assert {"uid-a": b"small"} == (await store.load()).pods


@pytest.mark.parametrize(
    "key",
    [
        pod_key("../x"),
        pod_key("a/b"),
        pod_key(""),
        RecordKey(Shelf.OBJECTS, "../../etc/passwd"),
        RecordKey(Shelf.TOKENS, ".hidden"),
        RecordKey(Shelf.OBJECTS, "x" * 300),
        RecordKey(Shelf.HEAD, "contact"),
    ],
    ids=str,
)
async def test_name_that_is_no_file_name_is_refused(key: RecordKey, store: OfflineStore) -> None:
    with pytest.raises(ValueError, match="is no"):
        await store.put([Record(key, b"")])


# ---- the disk alone ----


async def test_another_agent_finds_all_of_it_private(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        await on_disk(tmp_path).put(ALL)
        await on_disk(tmp_path).stamp("12:00")
    finally:
        os.umask(umask)
    found = await on_disk(tmp_path).load()
    assert (b"owner", "12:00", {"uid-a", "uid-b"}) == (found.head, found.contact, found.pods.keys())
    for path in (tmp_path / "offline", *(tmp_path / "offline").rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert (0o700 if path.is_dir() else 0o600) == mode, path


async def test_record_is_one_that_an_operator_can_read(tmp_path: Path) -> None:
    await on_disk(tmp_path).put([Record(A, b'{"a": 1}\n')])
    first, header, content = (tmp_path / "offline/pods/uid-a.pod").read_text().splitlines()
    assert first.startswith("trikubelet-offline 1 ")
    assert ('{"shelf":"pods","name":"uid-a"}', '{"a": 1}') == (header, content)


def truncated(path: Path) -> None:
    os.truncate(path, 40)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def larger_than_memory(path: Path) -> None:
    os.truncate(path, 1 << 40)


def another_record(path: Path) -> None:
    path.write_bytes(path.with_name(path.name.replace("uid-a", "uid-b").replace("-1", "-2")).read_bytes())


def a_newer_format(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"offline 1", b"offline 2", 1))


DAMAGES = [truncated, emptied, a_pipe, a_directory, a_link, larger_than_memory, another_record, a_newer_format]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("key", [A, SETTINGS], ids=str)
async def test_damage_costs_the_damaged_record_alone(
    damage: Callable[[Path], None], key: RecordKey, tmp_path: Path
) -> None:
    store, second = on_disk(tmp_path), RecordKey(Shelf.OBJECTS, "ConfigMap-2")
    await store.put([*ALL, Record(second, b"second")])
    damage(tmp_path / "offline" / key.shelf.value / (key.name + ".pod" * (key is A)))

    found = await store.load()
    assert b"pod b" == found.pods["uid-b"]
    assert (b"t", b"second") == (await store.read(TOKEN), await store.read(second))
    if key is A:
        assert "uid-a" not in found.pods
        assert "pods/uid-a" in found.unreadable
    else:
        with pytest.raises(ValueError):  # noqa: PT011 - each damage has words of its own
            await store.read(key)
    assert {} == await store.put(ALL)
    found = await store.load()
    assert (b"pod a", b"s") == (found.pods["uid-a"], await store.read(SETTINGS))


async def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    store = on_disk(tmp_path)
    await store.put([Record(A, b"pod a")])
    path = tmp_path / "offline/pods/uid-a.pod"
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert {} == (await store.load()).pods, at


async def test_damaged_stamp_is_the_one_before_or_none(tmp_path: Path) -> None:
    store = on_disk(tmp_path)
    await store.stamp("first")
    await store.stamp("second")
    path = tmp_path / "offline/contact"
    whole = path.read_bytes()
    for at in [*range(100), *range(4096, 4196)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert (await store.load()).contact in ("first", "second")
    path.write_bytes(b"\0" * 4608)
    assert "" == (await store.load()).contact
    await store.stamp("third")
    assert "third" == (await store.load()).contact


async def test_directory_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    store = on_disk(tmp_path)
    await store.put(ALL)
    (tmp_path / "offline").chmod(0o777)
    for call in (store.load(), store.put(ALL), store.end(["uid-a"]), store.stamp("x")):
        with pytest.raises(PermissionError, match="other users may write to it"):
            await call


@pytest.mark.parametrize("lay_there", [lambda path: path.symlink_to("/tmp"), lambda path: path.write_text("")])
async def test_link_or_file_in_place_of_the_directory_is_refused(
    lay_there: Callable[[Path], None], tmp_path: Path
) -> None:
    lay_there(tmp_path / "offline")
    with pytest.raises(NotADirectoryError):
        await on_disk(tmp_path).load()


async def test_foreign_files_and_leftovers_are_no_records(tmp_path: Path) -> None:
    store = on_disk(tmp_path)
    await store.put(ALL)
    pods = tmp_path / "offline/pods"
    (pods / ".uid-c.pod.new").write_bytes(b"a secret")
    (pods / "notes.txt").write_bytes(b"")
    (pods / "_.pod").write_bytes(b"")
    found = await store.load()
    assert {"uid-a", "uid-b"} == found.pods.keys()
    assert {"pods/notes.txt", "pods/_.pod"} == found.unreadable.keys()
    assert not (pods / ".uid-c.pod.new").exists()


async def test_full_disk_is_reported_and_ends_are_recorded_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = on_disk(tmp_path)
    await store.put(ALL)

    def full(path: Path, content: bytes) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(offline_store, "lay_beside", full)
    with pytest.raises(OSError, match="No space left"):
        await store.put([Record(A, b"new")])
    await store.end(["uid-a"])
    await store.forget([B])
    found = await store.load()
    assert ({}, {"uid-a"}) == (found.pods, found.ended)


async def test_hanging_change_is_given_up_and_undoes_no_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """On a clock that stands still until the disk hangs: a thread may begin late."""
    store = on_disk(tmp_path)
    await store.put(ALL)
    hangs, release, write = threading.Event(), threading.Event(), offline_store.lay_beside

    def hang(path: Path, content: bytes) -> Path:
        hangs.set()
        release.wait(60)
        return write(path, content)

    async def give_up() -> None:
        while not hangs.is_set():
            await wait_all_tasks_blocked(0.01)
        mock_clock.jump(DISK_SECONDS_MAX)

    monkeypatch.setattr(offline_store, "lay_beside", hang)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(give_up)
            with pytest.raises(OSError, match="the disk did not answer within 10 s"):
                await store.put([Record(A, b"late")])
        with pytest.raises(OSError, match="has not ended yet"):
            await store.end(["uid-a"])
    finally:
        release.set()
    mock_clock.rate = 1
    with trio.fail_after(60):
        while True:
            try:
                await store.end(["uid-a"])
            except OSError:
                await trio.sleep(0.01)
            else:
                break
    assert {"uid-a"} == (await store.load()).ended


# ---- a power cut at every step ----


async def put_both(store: OfflineStore) -> None:
    await store.put([Record(A, b"new a"), Record(SETTINGS, b"new s")])


async def put_first(store: OfflineStore) -> None:
    await store.put([Record(HEAD, b"owner"), Record(A, b"new a")])


async def end_a(store: OfflineStore) -> None:
    await store.end(["uid-a"])


async def forget_both(store: OfflineStore) -> None:
    await store.forget([A, SETTINGS])


async def stamp_again(store: OfflineStore) -> None:
    await store.stamp("newer")


async def before(store: OfflineStore) -> None:
    await store.put(ALL)
    await store.stamp("older")


async def ended(store: OfflineStore) -> None:
    await before(store)
    await store.end(["uid-a"])


async def nothing(_: OfflineStore) -> None:
    """The store does not exist yet."""


async def facts(store: OfflineStore) -> frozenset[tuple[object, object]]:
    """All that a store tells, one fact for each record."""
    found = await store.load()
    assert {} == found.unreadable
    told: set[tuple[object, object]] = {("head", found.head), ("contact", found.contact)}
    told |= {("pod", (uid, content)) for uid, content in found.pods.items()}
    told |= {("ended", uid) for uid in found.ended}
    for key in found.kept:
        told.add((key, await store.read(key)))
    return frozenset(told)


@pytest.mark.parametrize(
    ("start", "change"),
    [
        (nothing, put_first),
        (nothing, stamp_again),
        (before, put_both),
        (before, end_a),
        (before, forget_both),
        (before, stamp_again),
        (ended, forget_both),
        (ended, put_both),
    ],
)
async def test_power_cut_leaves_each_record_old_or_new_and_new_once_it_is_done(
    start: Callable[[OfflineStore], Awaitable[None]],
    change: Callable[[OfflineStore], Awaitable[None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problems = await problems_of(start, change, tmp_path, monkeypatch)
    assert [] == problems


async def problems_of(
    start: Callable[[OfflineStore], Awaitable[None]],
    change: Callable[[OfflineStore], Awaitable[None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ignored: str = "",
) -> list[str]:
    root = tmp_path / "root"
    root.mkdir()
    store = on_disk(root)
    await start(store)
    old = await facts(store)
    with monkeypatch.context() as patch, PowerCuts(root, patch, ignored) as cuts:
        await change(store)
    possible, certain = list(cuts.states()), list(cuts.last_states())
    new = await facts(store)
    found: list[str] = []
    for number, state in enumerate([*possible, *certain]):
        place = tmp_path / f"cut-{number}"
        place.mkdir()
        lay(state, place)
        try:
            told = await facts(on_disk(place))
        except (AssertionError, ValueError) as error:
            found.append(f"damaged: {error}")
            continue
        if not told <= old | new or not old & new <= told:
            found.append(f"neither old nor new: {told}")
        if number >= len(possible) and told != new:
            found.append(f"not durable: {told}")
    return found


@pytest.mark.parametrize("flush", ["fsync", "fdatasync"])
async def test_missing_flush_is_found_by_these_power_cuts(
    flush: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = put_both if flush == "fsync" else stamp_again
    assert [] != await problems_of(before, change, tmp_path, monkeypatch, ignored=flush)
