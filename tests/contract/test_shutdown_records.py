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
    assert f"{tmp_path / NAME} cannot be read" in caplog.text


async def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await on_disk(tmp_path / "gone").write(TIMES)

    assert "graceful_node_shutdown_state cannot be written" in caplog.text


async def test_a_disk_that_hangs_is_given_up_is_reported_once_and_keeps_nobody_else_from_a_thread(
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
    monkeypatch.setattr(shutdown_records, "write_privately", hang)
    threads = ThreadPool("records", 3)
    records = DiskShutdownRecords(tmp_path, threads)
    try:
        assert ShutdownTimes() == await given_up(records.read())
        await given_up(records.write(ShutdownTimes(TIMES.start_time)))
        await records.write(TIMES)

        with trio.fail_after(60):
            assert 1 == await threads.run(lambda: 1)
        assert 1 == caplog.text.count("cannot be read, when the last shutdown was is not known")
        assert 1 == caplog.text.count("cannot be written")
        assert "cannot be written: [Errno 110] the disk did not answer within 10 s" in caplog.text
    finally:
        release.set()


async def test_that_it_cannot_be_written_is_reported_again_when_it_could_be_meanwhile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records = on_disk(root := tmp_path / "root")
    await records.write(TIMES)
    root.mkdir()
    await records.write(TIMES)
    (root / NAME).unlink()
    root.rmdir()
    await records.write(TIMES)

    assert 2 == caplog.text.count("cannot be written")
