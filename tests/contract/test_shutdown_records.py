"""The contract of ``ports.ShutdownRecords``, held by the real disk and by the memory."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trikubelet.host import shutdown_records
from trikubelet.host.shutdown_records import NAME, DiskShutdownRecords
from trikubelet.kit.disk import DISK_SECONDS_MAX
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.shutdown_times import ShutdownTimes
from trikubelet.node.shutdown_record import ShutdownRecord
from trikubelet.testing.memory_shutdown import MemoryShutdownRecords

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.ports import ShutdownRecords

TIMES = ShutdownTimes("2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z")


def on_disk(root: Path) -> DiskShutdownRecords:
    return DiskShutdownRecords(root, ThreadPool("records", 1))


@pytest.fixture(params=["disk", "memory"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> ShutdownRecords:
    return on_disk(tmp_path) if request.param == "disk" else MemoryShutdownRecords()


async def test_what_was_written_last_is_read(records: ShutdownRecords) -> None:
    assert ShutdownTimes() == await records.read()
    await records.write(ShutdownTimes(TIMES.start_time))
    await records.write(TIMES)
    assert TIMES == await records.read()


async def test_the_file_is_read_by_another_agent_and_is_upstreams(tmp_path: Path) -> None:
    await on_disk(tmp_path).write(TIMES)

    assert b'{"startTime":"2026-01-01T00:00:00Z","endTime":"2026-01-01T00:00:09Z"}' == (tmp_path / NAME).read_bytes()
    assert TIMES == await on_disk(tmp_path).read()


async def test_a_shutdown_that_did_not_end_is_read_as_upstream_writes_it(tmp_path: Path) -> None:
    began = ShutdownTimes(TIMES.start_time)
    await on_disk(tmp_path).write(began)

    assert b'{"startTime":"2026-01-01T00:00:00Z","endTime":"0001-01-01T00:00:00Z"}' == (tmp_path / NAME).read_bytes()
    assert began == await on_disk(tmp_path).read()


NO_TIME = b'{"startTime":"2026-01-01T00:00:00Z","endTime":"soon"}'


@pytest.mark.parametrize("content", [b"", b"\0\xff", b'{"startTime": 1}', b"[]", NO_TIME, b"x" * 100_000])
async def test_a_file_that_says_something_else_is_reported_and_counts_as_none(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / NAME).write_bytes(content)

    assert ShutdownTimes() == await on_disk(tmp_path).read()
    assert f"Cannot read {tmp_path / NAME}" in caplog.text


async def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await on_disk(tmp_path / "gone").write(TIMES)


async def test_a_disk_that_hangs_is_read_no_longer_and_has_what_is_written_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """On a clock that stands still until the disk hangs: a thread may begin late."""
    hangs, release = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        hangs.set()
        release.wait(60)

    async def given_up(call: Awaitable[object]) -> object:
        async def let_time_pass() -> None:
            while not hangs.is_set():
                await wait_all_tasks_blocked(0.01)
            mock_clock.jump(DISK_SECONDS_MAX)

        hangs.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(let_time_pass)
            return await call
        raise AssertionError

    monkeypatch.setattr(shutdown_records, "_read", hang)
    threads = ThreadPool("records", 3)
    records = DiskShutdownRecords(tmp_path, threads)
    try:
        assert ShutdownTimes() == await given_up(records.read())
        with trio.fail_after(60):
            assert 1 == await threads.run(lambda: 1)
        assert 1 == caplog.text.count("so the time of the last shutdown is unknown")
    finally:
        release.set()


async def test_the_end_of_a_shutdown_is_written_after_a_beginning_for_which_the_disk_took_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """On a clock that stands still until the disk hangs: a thread may begin late."""
    hangs, release, write = trio.Event(), threading.Event(), shutdown_records.write_privately

    def hang(path: Path, content: bytes) -> None:
        if not release.is_set():
            trio.from_thread.run_sync(hangs.set)
            assert release.wait(60)
        write(path, content)

    monkeypatch.setattr(shutdown_records, "write_privately", hang)
    record = ShutdownRecord()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(record.run, on_disk(tmp_path))
            record.set(ShutdownTimes(TIMES.start_time))
            await hangs.wait()
            mock_clock.jump(2 * DISK_SECONDS_MAX)
            await wait_all_tasks_blocked()
            record.set(TIMES)
            await wait_all_tasks_blocked()
            release.set()
            await record.settle()
            assert TIMES == await on_disk(tmp_path).read()
            nursery.cancel_scope.cancel()
    finally:
        release.set()

    said = "The beginning of this shutdown is not recorded yet, the disk did not answer within 10 s"
    assert [said] == caplog.messages
