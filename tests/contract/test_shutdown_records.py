"""The contract of ``ports.ShutdownRecords``, held by the real disk and by the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trikubelet.host.shutdown_records import NAME, DiskShutdownRecords
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.shutdown_times import ShutdownTimes
from trikubelet.testing.memory_shutdown import MemoryShutdownRecords

if TYPE_CHECKING:
    from pathlib import Path

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
