"""ThreadPool: bounded threads that may hang. Real threads, held back by events; nothing waits for time to pass."""

from __future__ import annotations

import errno
import sys
import threading
from typing import TYPE_CHECKING

import outcome
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from shell.threadkit import Hanging, no_threads
from trikubelet.kit.threads import StillRunning, ThreadPool, take_short_turns

if TYPE_CHECKING:
    from collections.abc import Callable


async def _abandon(pool: ThreadPool, work: Hanging, key: str = "", *, may_hang: bool = False) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def cancel_when_begun() -> None:
                await trio.to_thread.run_sync(work.began.wait)
                scope.cancel()

            nursery.start_soon(cancel_when_begun)
            await pool.run(work, key, may_hang=may_hang)


async def test_work_is_done_in_a_thread_and_its_result_returned() -> None:
    assert await ThreadPool("names", 1).run(lambda: threading.current_thread() is threading.main_thread()) is False


async def test_what_the_work_raises_reaches_the_caller_and_frees_the_key() -> None:
    pool = ThreadPool("mounts", 1)

    def fail() -> None:
        raise OSError("no such device")

    for _ in range(2):
        with pytest.raises(OSError, match="no such device"):
            await pool.run(fail, "pod-1")


async def test_a_caller_that_is_cancelled_leaves_its_thread_behind_and_the_thread_still_counts() -> None:
    pool, work = ThreadPool("mounts", 2), Hanging()
    await _abandon(pool, work)

    assert repr(pool) == "<ThreadPool mounts: 1 of 2 busy>"
    work.let_go.set()


async def test_key_of_a_hanging_thread_is_rejected_until_it_ends() -> None:
    pool, work = ThreadPool("mounts", 2), Hanging()
    await _abandon(pool, work, "pod-1")

    with pytest.raises(StillRunning, match="pod-1"):
        await pool.run(lambda: "never", "pod-1")
    assert await pool.run(lambda: "another pod", "pod-2") == "another pod"

    work.let_go.set()
    await trio.to_thread.run_sync(work.ended.wait)
    await wait_all_tasks_blocked()
    while pool._busy:
        await trio.lowlevel.checkpoint()
    assert await pool.run(lambda: "again", "pod-1") == "again"


async def test_what_may_hang_has_a_share_of_its_own_and_neither_waits_for_the_other() -> None:
    pool, one, other = ThreadPool("mounts", 1, 2), Hanging(), Hanging()
    await _abandon(pool, one, "pod-1", may_hang=True)
    await _abandon(pool, other, "pod-2", may_hang=True)

    assert repr(pool) == "<ThreadPool mounts: 0 of 1 and 2 of 2 busy>"
    assert await pool.run(lambda: "made", "pod-3") == "made"
    one.let_go.set()
    other.let_go.set()


async def test_a_key_is_free_at_once_when_its_work_was_cancelled_before_a_thread_was_free() -> None:
    pool, work = ThreadPool("mounts", 1), Hanging()
    await _abandon(pool, work)

    ran = []
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.run, lambda: ran.append("never"), "pod-1")
            await wait_all_tasks_blocked()
            scope.cancel()
    work.let_go.set()

    assert await pool.run(lambda: "now", "pod-1") == "now"
    assert ran == []


async def test_owner_has_the_threads_with_its_prefix() -> None:
    pool, work = ThreadPool("mounts", 2), Hanging()
    await _abandon(pool, work, "pod-1/data")

    assert [{"data"}, set(), set()] == [pool.running(owner) for owner in ("pod-1", "pod", "pod-2")]
    work.let_go.set()
    while pool.running("pod-1"):
        await trio.lowlevel.checkpoint()


def test_threads_take_turns_ten_times_as_short_as_pythons_own() -> None:
    before = sys.getswitchinterval()
    try:
        take_short_turns()
        assert 0.0005 == pytest.approx(sys.getswitchinterval())
    finally:
        sys.setswitchinterval(before)


async def test_without_a_thread_to_be_had_the_work_fails_as_other_work_of_the_system_does_and_goes_on_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pool = ThreadPool("mounts", 1)
    with monkeypatch.context() as machine:
        no_threads(machine)
        for key in ("", "pod-1", "pod-1"):
            with pytest.raises(OSError, match="cannot start a thread") as raised:
                await pool.run(lambda: 1, key)
            assert errno.EAGAIN == raised.value.errno

    assert 1 == await pool.run(lambda: 1, "pod-1")
    assert ["Cannot start a thread for mounts (too many processes?); retrying later"] == caplog.messages


@pytest.mark.parametrize("key", ["", "pod-1"])
async def test_a_runtime_error_of_the_works_own_is_passed_on_as_it_is(key: str) -> None:
    def fail() -> None:
        raise RuntimeError("can't start new thread")

    with pytest.raises(RuntimeError, match="can't start new thread"):
        await ThreadPool("mounts", 1).run(fail, key)


async def test_what_is_done_aside_without_a_thread_to_be_had_gives_its_place_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, done = ThreadPool("mounts", 1), []
    no_threads(monkeypatch)
    for number in range(2):
        pool.run_aside(lambda number=number: done.append(number))  # type: ignore[misc]

    assert [0, 1] == done
    assert pool.is_idle


def test_what_is_done_aside_may_end_after_the_agent_went_down(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[Callable[[], object]] = []

    def begun(work: Callable[[], object], deliver: Callable[[object], object]) -> None:
        ends.append(lambda: deliver(outcome.capture(work)))

    async def agent() -> None:
        monkeypatch.setattr("trio.lowlevel.start_thread_soon", begun)
        ThreadPool("mounts", 1).run_aside(lambda: None)

    trio.run(agent)
    [end] = ends

    end()  # what it raised would be on standard error, from a thread
