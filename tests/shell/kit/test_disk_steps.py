"""DiskSteps and ThreadShares: real threads, held back by events; the clock is moved by hand."""

from __future__ import annotations

import errno
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from shell.threadkit import AtOnce, Hanging, no_threads
from trikubelet.kit.disk_steps import DiskSteps, DiskUnavailable
from trikubelet.kit.thread_shares import EACH_MAX, ThreadShares

if TYPE_CHECKING:
    from collections.abc import Callable


class Closed:
    """Says in which thread it was closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.by: list[threading.Thread] = []

    def close(self) -> None:
        self.by.append(threading.current_thread())
        self.closed.set()


async def left(steps: DiskSteps, *works: Hanging) -> None:
    """Begin each of these, and be cancelled."""
    async with trio.open_nursery() as nursery:
        for work in works:
            nursery.start_soon(steps.run, work)
            await trio.to_thread.run_sync(work.began.wait)
        nursery.cancel_scope.cancel()


async def given_up(threads: ThreadShares, owner: str, work: Hanging) -> None:
    await left(DiskSteps(threads, owner), work)


async def test_steps_are_done_in_threads_and_what_is_open_is_closed_in_one() -> None:
    steps, file = DiskSteps(ThreadShares("test"), "/dir"), Closed()
    assert file is await steps.run(partial(steps.keep, file))
    assert await steps.run(threading.current_thread) is not threading.current_thread()
    steps.leave()
    steps.leave()
    await trio.to_thread.run_sync(file.closed.wait)

    assert 1 == len(file.by)
    assert threading.current_thread() not in file.by


class Asides(AtOnce):
    """Has what is to be done aside wait for its thread."""

    def __init__(self) -> None:
        super().__init__()
        self.works: list[Callable[[], object]] = []

    def run_aside(self, owner: str, work: Callable[[], object]) -> None:
        self.works.append(work)


@pytest.mark.parametrize("count", [0, 1, 2])
async def test_leaving_readers_take_one_thread_only_if_a_file_is_open(count: int) -> None:
    threads, files = Asides(), [Closed() for _ in range(count)]
    steps = DiskSteps(threads, "/dir")
    for file in files:
        await steps.run(partial(steps.keep, file))
    steps.leave()
    steps.leave()

    assert min(1, count) == len(threads.works)


async def test_reader_that_left_starts_nothing_more() -> None:
    steps, done = DiskSteps(Asides(), "/dir"), []
    await steps.run(partial(steps.keep, Closed()))
    steps.leave()

    with pytest.raises(DiskUnavailable, match="has not ended yet"):
        await steps.run(partial(done.append, "opened beside the thread that closes"))
    assert not done


class HasBug:
    def close(self) -> None:
        raise RuntimeError("generator ignored GeneratorExit")


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_bug_when_one_thing_is_closed_is_logged_and_the_others_are_closed(
    caplog: pytest.LogCaptureFixture, *, hangs: bool
) -> None:
    steps, file, work = DiskSteps(ThreadShares("test"), "/dir"), Closed(), Hanging()
    await steps.run(partial(steps.keep, HasBug()))
    await steps.run(partial(steps.keep, file))
    if hangs:
        await left(steps, work)
    steps.leave()
    work.let_go.set()
    await trio.to_thread.run_sync(file.closed.wait)

    assert ["/dir: a bug when a file was closed; the others are closed"] == caplog.messages


async def test_what_a_step_closes_is_closed_once() -> None:
    steps, file = DiskSteps(ThreadShares("test"), "/dir"), Closed()
    await steps.run(partial(steps.keep, file))
    await steps.run(partial(steps.close, file))
    steps.leave()

    assert 1 == len(file.by)


async def test_what_a_step_has_open_that_was_given_up_is_closed_by_it_and_not_before_it_ends() -> None:
    threads = ThreadShares("test")
    steps, file, work = DiskSteps(threads, "/dir"), Closed(), Hanging()
    await steps.run(partial(steps.keep, file))
    await left(steps, work)
    steps.leave()
    assert not file.by
    with pytest.raises(OSError, match="has not ended yet") as raised:
        await steps.run(lambda: 1)
    assert isinstance(raised.value, DiskUnavailable)
    assert errno.EBUSY == raised.value.errno

    work.let_go.set()
    await trio.to_thread.run_sync(file.closed.wait)

    assert 1 == len(file.by)


async def test_a_step_that_takes_too_long_is_an_error_that_names_the_directory(mock_clock: MockClock) -> None:
    steps, work = DiskSteps(ThreadShares("test"), "/dir"), Hanging()
    async with trio.open_nursery() as nursery:

        async def read() -> None:
            with pytest.raises(DiskUnavailable, match="did not answer within 10 s: '/dir'"):
                await steps.run(work)

        nursery.start_soon(read)
        await trio.to_thread.run_sync(work.began.wait)
        mock_clock.jump(10)
    work.let_go.set()


@pytest.mark.parametrize("number", [errno.EIO, errno.EAGAIN, errno.EBUSY, errno.ETIMEDOUT])
async def test_what_a_step_raises_is_the_disks_answer(number: int) -> None:
    answer = OSError(number, "of the disk", "/dir/file")

    def step() -> None:
        raise answer

    with pytest.raises(OSError, match="of the disk") as raised:
        await DiskSteps(ThreadShares("test"), "/dir").run(step)
    assert answer is raised.value


async def test_without_a_thread_to_be_had_the_disk_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    no_threads(monkeypatch)
    with pytest.raises(DiskUnavailable, match="cannot start a thread: '/dir'") as raised:
        await DiskSteps(ThreadShares("test"), "/dir").run(lambda: 1)
    assert errno.EAGAIN == raised.value.errno


class HangsToClose(Hanging):
    """A file that is closed when it is let go."""

    def close(self) -> None:
        self()


async def test_files_that_hang_when_they_are_closed_have_their_owners_threads_and_no_more() -> None:
    threads, files = ThreadShares("test"), [HangsToClose() for _ in range(EACH_MAX + 2)]
    readers: list[DiskSteps] = []
    for file in files:
        steps = DiskSteps(threads, "/hangs")
        await steps.run(partial(steps.keep, file))
        readers.append(steps)
    said: list[str] = []
    async with trio.open_nursery() as nursery:
        for steps in readers:
            steps.leave()
        for file in files[:EACH_MAX]:
            await trio.to_thread.run_sync(file.began.wait)
        nursery.start_soon(threads.run, "/hangs", partial(said.append, "at last"))
        await wait_all_tasks_blocked()
        assert [True] * EACH_MAX + [False] * 2 == [file.began.is_set() for file in files]
        assert "another" == await threads.run("/else", lambda: "another")
        assert not said
        for file in files:
            file.let_go.set()
    await trio.to_thread.run_sync(files[-1].ended.wait)

    assert ["at last"] == said


async def test_what_an_owner_had_open_is_closed_though_too_many_others_hang() -> None:
    threads, one, file = ThreadShares("test", owners_max=1), Hanging(), Closed()
    steps = DiskSteps(threads, "/quiet")
    await steps.run(partial(steps.keep, file))
    await given_up(threads, "/hangs", one)

    steps.leave()
    await trio.to_thread.run_sync(file.closed.wait)

    one.let_go.set()


async def test_owner_with_hanging_threads_delays_only_itself() -> None:
    threads, works = ThreadShares("test"), [Hanging() for _ in range(EACH_MAX)]
    for work in works:
        await given_up(threads, "/hangs", work)

    assert "another" == await threads.run("/else", lambda: "another")
    said: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(threads.run, "/hangs", partial(said.append, "at last"))
        await wait_all_tasks_blocked()
        assert not said
        works[0].let_go.set()
    assert ["at last"] == said
    works[1].let_go.set()


async def test_so_many_owners_may_hang_and_those_that_do_not_are_forgotten() -> None:
    threads, one, other = ThreadShares("test", owners_max=2), Hanging(), Hanging()
    await given_up(threads, "/one", one)
    for number in range(9):
        assert number == await threads.run(f"/{number}", lambda number=number: number)  # type: ignore[misc]
    await given_up(threads, "/other", other)

    with pytest.raises(OSError, match="2 directories already wait for their disks: '/third'") as raised:
        await threads.run("/third", lambda: 1)

    assert errno.EAGAIN == raised.value.errno
    one.let_go.set()
    other.let_go.set()


async def test_without_a_thread_to_be_had_what_is_open_is_closed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, file = DiskSteps(ThreadShares("test"), "/dir"), Closed()
    await steps.run(partial(steps.keep, file))
    no_threads(monkeypatch)
    steps.leave()

    assert [threading.current_thread()] == file.by
