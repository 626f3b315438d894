"""One agent per root directory, and the lock file that hands a node over."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trikubelet.app.lock import LOCK_NAME, LockFile, RootLock
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock


def test_second_agent_gets_the_process_that_holds_the_root_directory(tmp_path: Path) -> None:
    with RootLock(tmp_path / "root"), pytest.raises(StartFailed) as refused, RootLock(tmp_path / "root"):
        pass

    assert (
        f"{tmp_path}/root is in use by another agent, process {os.getpid()}; stop it, or give this one a --root-dir "
        "and a podLogsDir of its own"
    ) == str(refused.value)


def test_the_lock_is_free_again_afterwards_and_its_file_stays(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).write_text("12345678901234567890, a holder with a longer id\n")
    with RootLock(tmp_path):
        assert f"{os.getpid()}\n" == (tmp_path / LOCK_NAME).read_text()
    assert (tmp_path / LOCK_NAME).exists()


def test_the_kernel_lets_go_when_the_holder_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from trikubelet.app.lock import RootLock; lock = RootLock(pathlib.Path(sys.argv[1])); "
        "lock.__enter__(); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        with pytest.raises(StartFailed, match=f"process {holder.pid};"), RootLock(tmp_path):
            pass
        holder.kill()
        holder.wait()

    with RootLock(tmp_path):
        pass


def test_a_root_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StartFailed, match="/file/root: Not a directory; the root directory must be writable"):
        RootLock(tmp_path / "file/root").__enter__()


async def test_the_next_agent_waits_for_the_lock_file(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first, second = LockFile(tmp_path / "lock"), LockFile(tmp_path / "lock")
    await first.acquire()
    got = trio.Event()

    async def wait() -> None:
        await second.acquire()
        got.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(10)
        assert not got.is_set()
        first.release()
        await got.wait()
    second.release()

    assert [f"Waiting for {tmp_path}/lock, which process {os.getpid()} holds"] == caplog.messages


async def test_the_present_agent_notices_that_another_one_wants_the_lock_file(tmp_path: Path) -> None:
    present = LockFile(tmp_path / "lock")
    await present.acquire()
    noticed = trio.Event()

    async def watch() -> None:
        await present.contended()
        noticed.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await wait_all_tasks_blocked()
        assert not noticed.is_set()
        (tmp_path / "lock").open().close()
        await noticed.wait()
    present.release()


async def test_a_lock_file_that_cannot_be_opened_is_named(tmp_path: Path, autojump_clock: MockClock) -> None:
    with pytest.raises(StartFailed, match=r"--lock-file: .*/nowhere/lock: No such file or directory"):
        await LockFile(tmp_path / "nowhere/lock").acquire()


async def test_lock_file_may_be_a_link_to_another_place(tmp_path: Path, autojump_clock: MockClock) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "lock")
    lock = LockFile(tmp_path / "link")
    await lock.acquire()
    assert f"{os.getpid()}\n" == (tmp_path / "lock").read_text()
    lock.release()
