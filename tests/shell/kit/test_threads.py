"""ThreadPool: bounded threads that may hang. Real threads, held back by events; nothing waits for time to pass."""

import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trikubelet.kit.threads import StillRunning, ThreadPool


class Hanging:
    """Work that says when it began and ends when it is let go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.let_go = threading.Event()
        self.ended = threading.Event()

    def __call__(self) -> str:
        self.began.set()
        self.let_go.wait()
        self.ended.set()
        return "done"


async def _abandon(pool: ThreadPool, work: Hanging, key: str = "") -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def cancel_when_begun() -> None:
                await trio.to_thread.run_sync(work.began.wait)
                scope.cancel()

            nursery.start_soon(cancel_when_begun)
            await pool.run(work, key)


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


async def test_a_key_whose_thread_hangs_is_refused_until_that_thread_has_ended() -> None:
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
