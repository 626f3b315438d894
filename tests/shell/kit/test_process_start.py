"""Programs whose start hangs: left, bounded in number, and killed once they are up."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from shell.fusekit import never_flushing
from shell.processkit import lives
from shell.threadkit import Hanging, no_threads
from trikubelet.kit import process_start
from trikubelet.kit.process_start import LATE_MAX, START_SECONDS_MAX, ProgramStarts, StartHangs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(60)  # for who waits where nothing can be cancelled

SLEEP = ("/bin/sleep", "600")


class SlowPopen(Hanging):
    """In the place of Popen: comes up only when it is let go. ``made``: the programs that have."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.made: list[subprocess.Popen[bytes]] = []
        self.stdin = -1
        at_once = subprocess.Popen

        def popen(*command: Any, **more: Any) -> subprocess.Popen[bytes]:
            self.stdin = more["stdin"]
            self()
            self.made.append(at_once(*command, **more))
            return self.made[-1]

        monkeypatch.setattr(subprocess, "Popen", popen)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowPopen:
    return SlowPopen(monkeypatch)


async def test_programs_that_are_not_there_are_not_late() -> None:
    starts = ProgramStarts()
    for _ in range(LATE_MAX + 1):
        with pytest.raises(FileNotFoundError):
            await starts.start(("/nope",))
    assert 0 == starts.late
    process = await starts.start(("/bin/true",))
    assert 0 == await process.wait()
    await process.end(signal.SIGKILL)


async def none_late(starts: ProgramStarts) -> None:
    """Their threads tell nobody that they end."""
    while starts.late:
        await wait_all_tasks_blocked(0.01)  # for so long by a real clock


async def given_up(starts: ProgramStarts, slow: SlowPopen, **more: Any) -> None:
    """A start that hangs, and whose caller is cancelled."""
    slow.began.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: starts.start(SLEEP, **more))
        await trio.to_thread.run_sync(slow.began.wait)
        nursery.cancel_scope.cancel()


async def test_cancelled_start_does_not_wait_and_a_late_process_is_killed(slow: SlowPopen) -> None:
    starts = ProgramStarts()
    await given_up(starts, slow)
    assert (1, []) == (starts.late, slow.made)

    slow.let_go.set()
    await none_late(starts)

    (popen,) = slow.made
    assert popen.stdout is not None
    assert (-signal.SIGKILL, True) == (popen.returncode, popen.stdout.closed)


async def test_one_that_takes_long_is_an_error_that_names_it(slow: SlowPopen, mock_clock: MockClock) -> None:
    starts = ProgramStarts()

    async def start() -> None:
        with pytest.raises(StartHangs, match="not started within 5 s") as raised:
            await starts.start(SLEEP)
        assert (errno.ETIMEDOUT, SLEEP[0]) == (raised.value.errno, raised.value.filename)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(start)
        await trio.to_thread.run_sync(slow.began.wait)
        await wait_all_tasks_blocked()
        mock_clock.jump(START_SECONDS_MAX)
    assert 1 == starts.late
    slow.let_go.set()
    await none_late(starts)


async def test_so_many_may_hang_and_further_ones_are_refused_until_they_are_up(
    slow: SlowPopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_start, "LATE_MAX", 2)
    starts = ProgramStarts()
    for _ in range(2):
        await given_up(starts, slow)

    with pytest.raises(StartHangs, match="2 programs have not been started yet") as raised:
        await starts.start(SLEEP)
    assert errno.EAGAIN == raised.value.errno

    slow.let_go.set()
    await none_late(starts)
    process = await starts.start(["/bin/true"])
    assert 0 == await process.wait()
    await process.end(signal.SIGKILL)


async def test_what_was_given_up_reads_the_file_it_was_given_though_its_caller_has_closed_that(
    slow: SlowPopen, tmp_path: Path
) -> None:
    (tmp_path / "log").write_text("text")
    source = os.open(tmp_path / "log", os.O_RDONLY)
    await given_up(starts := ProgramStarts(), slow, stdin=source)
    os.close(source)

    assert "log" == os.path.basename(os.readlink(f"/proc/self/fd/{slow.stdin}"))
    slow.let_go.set()
    await none_late(starts)


def test_a_start_that_hangs_does_not_hold_up_the_end_of_all_tasks(slow: SlowPopen) -> None:
    starts = ProgramStarts()

    async def main() -> None:
        trio.lowlevel.spawn_system_task(starts.start, SLEEP)
        await trio.to_thread.run_sync(slow.began.wait)

    try:
        trio.run(main)
        assert not slow.made
    finally:
        slow.let_go.set()
    while starts.late:
        time.sleep(0.01)


async def test_one_that_is_up_when_no_descriptor_is_left_for_it_is_killed(
    slow: SlowPopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", none_left)
    slow.let_go.set()
    with pytest.raises(OSError, match="Too many open files"):
        await ProgramStarts().start(SLEEP)
    (popen,) = slow.made
    while lives(popen.pid):
        await wait_all_tasks_blocked(0.01)


async def test_where_there_is_no_thread_the_program_is_not_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    no_threads(monkeypatch)
    with pytest.raises(StartHangs, match="cannot start a thread"):
        await ProgramStarts().start(SLEEP)


async def test_file_that_cannot_be_closed_delays_a_start_up_to_the_limit(tmp_path: Path, mock_clock: MockClock) -> None:
    """A real file system that never answers a FLUSH."""
    starts, said = ProgramStarts(), []

    async def start() -> None:
        with pytest.raises(StartHangs) as raised:
            await starts.start(["/bin/true"])
        said.append(raised.value.errno)

    with never_flushing(tmp_path) as asked_to_close:
        file = os.open(tmp_path / "log", os.O_RDONLY)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(start)
            await trio.to_thread.run_sync(asked_to_close.wait)
            await wait_all_tasks_blocked()
            mock_clock.jump(START_SECONDS_MAX)
        assert ([errno.ETIMEDOUT], 1) == (said, starts.late)
    with pytest.raises(OSError, match=r"abort|not connected"):
        os.close(file)
    await none_late(starts)
