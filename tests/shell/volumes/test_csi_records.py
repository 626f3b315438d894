"""Records of CSI volumes: when they are on the disk, and that no two threads write one of them at once."""

from __future__ import annotations

import errno
import os
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from shell.csikit import DRIVER, CsiNodeBench, claiming
from shell.mountkit import NotedMounts
from trikubelet.core import csi
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.errors import VolumeFailed
from trikubelet.model.plugins import PluginFailed
from trikubelet.volumes.csi_records import CsiRecords

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trio.testing import MockClock

UID = "12345678"
DATA = csi.VolumeData("handle", DRIVER, attachment_id="a")


@pytest.fixture
def bench(place: Path) -> Iterator[CsiNodeBench]:
    made = CsiNodeBench(place)
    yield made
    made.close()


def records_in(place: Path, threads: ThreadPool | None = None) -> CsiRecords:
    return CsiRecords(place, NotedMounts(), threads or ThreadPool("records", 4))


def volume(*, is_block: bool) -> csi.Volume:
    return csi.Volume("pv", DRIVER, "handle", "Persistent", is_block=is_block)


def marks_and_directories(root: Path) -> tuple[list[Path], set[Path]]:
    """The records and links below a root directory, and the directories that have them."""
    root = root.resolve()
    marks = [one for one in root.rglob("*") if one.is_symlink() or one.name == "vol_data.json"]
    return marks, {parent for one in marks for parent in one.parents if parent.is_relative_to(root)}


@pytest.mark.parametrize("first", ["published", "staged"])
async def test_a_given_up_write_of_a_block_devices_record_ends_before_the_next_one(
    place: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    in_flush, go_on = threading.Event(), threading.Event()

    def hanging(_: int) -> None:
        in_flush.set()
        go_on.wait(60)

    threads = ThreadPool("records", 4)
    records = records_in(place, threads)
    monkeypatch.setattr("os.fsync", hanging)
    device = volume(is_block=True)
    writes = {
        "published": partial(records.note_published, UID, device, DATA),
        "staged": partial(records.note_staged, device, DATA),
        "published to another pod": partial(records.note_published, "other", device, DATA),
    }
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writes.pop(first))
            assert await trio.to_thread.run_sync(in_flush.wait, 60)
            nursery.cancel_scope.cancel()
        for write in writes.values():
            with pytest.raises(OSError, match="an earlier operation has not ended yet"):
                await write()
    finally:
        go_on.set()
        with trio.fail_after(60):
            while not threads.is_idle:  # noqa: ASYNC110 - it writes below the directory, and has no event
                await trio.sleep(0.01)


@pytest.mark.parametrize("is_block", [False, True])
async def test_a_write_that_fails_leaves_no_record_in_memory(
    place: Path, monkeypatch: pytest.MonkeyPatch, is_block: bool
) -> None:
    def failing(_: int) -> None:
        raise OSError(errno.EIO, "I/O error")

    records = records_in(place)
    monkeypatch.setattr("os.fsync", failing)
    with pytest.raises(OSError, match="I/O error"):
        await records.note_published(UID, volume(is_block=is_block), DATA)
    with pytest.raises(OSError, match="I/O error"):
        await records.note_staged(volume(is_block=is_block), DATA)
    assert ({}, {}, set()) == (records.published, records.staged, records.attached())


@pytest.mark.parametrize("is_block", [False, True])
async def test_a_record_is_flushed_with_every_new_directory_above_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, is_block: bool
) -> None:
    flushed: set[str] = set()

    def noting(descriptor: int) -> None:
        flushed.add(os.readlink(f"/proc/self/fd/{descriptor}"))

    records = records_in(place)
    monkeypatch.setattr("os.fsync", noting)
    await records.note_published(UID, volume(is_block=is_block), DATA)
    await records.note_staged(volume(is_block=is_block), DATA)

    marks, above = marks_and_directories(place)
    assert 2 == len(marks)
    assert set() == {str(one) for one in above} - flushed
    contents = {str(one.with_name(".vol_data.json.new")) for one in marks if not one.is_symlink()}
    assert set() == contents - flushed, "before they are renamed"
    assert (UID, "pv") in records_in(place).published, "and the next agent reads it"


@pytest.mark.parametrize("stages", [False, True])
async def test_the_drivers_error_is_reported_also_if_the_record_cannot_be_dropped(
    autojump_clock: MockClock,
    bench: CsiNodeBench,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    stages: bool,
) -> None:
    async def failing(*_: object) -> None:
        raise OSError(errno.EIO, "I/O error")

    bench.driver.failing = PluginFailed("Internal", "no such disk")
    async with bench.life() as volumes:
        with monkeypatch.context() as broken:
            broken.setattr(CsiRecords, "drop_staged" if stages else "drop_published", failing)
            with pytest.raises(VolumeFailed, match="code = Internal desc = no such disk"):
                await volumes.set_up(claiming())
        assert 1 == caplog.text.count('Volume "pv": cannot remove its record after the driver failed: [Errno 5]')
        bench.driver.failing = None
        await volumes.set_up(claiming())
        await volumes.tear_down(UID)
        await trio.sleep(100)
    assert ({}, {}) == (bench.driver.staged, bench.driver.published)
    assert [] == marks_and_directories(bench.root)[0]
