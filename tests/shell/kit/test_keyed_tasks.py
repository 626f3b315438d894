"""KeyedTasks are done side by side within a bound, one at a time for each name, and none waits for one that hangs."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kit.keyed_tasks import KeyedTasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from trio.testing import MockClock


class Log:
    """What was begun and done, and when."""

    def __init__(self) -> None:
        self.begun: list[tuple[float, str]] = []
        self.done: list[tuple[float, str]] = []

    def takes(self, name: str, seconds: float) -> Callable[[], Awaitable[object]]:
        async def task() -> None:
            self.begun.append((trio.current_time(), name))
            await trio.sleep(seconds)
            self.done.append((trio.current_time(), name))

        return task


@asynccontextmanager
async def doing(slots: int, hung_seconds: float = 10) -> AsyncIterator[KeyedTasks]:
    tasks = KeyedTasks(slots, hung_seconds)
    async with trio.open_nursery() as nursery:
        await nursery.start(tasks.run)
        yield tasks
        nursery.cancel_scope.cancel()


async def test_so_many_are_done_at_once_in_the_order_they_came(autojump_clock: MockClock) -> None:
    log = Log()
    async with doing(2) as tasks:
        for name in "abcde":
            tasks.begin(name, log.takes(name, 3))
        assert (5, True, False) == (len(tasks), "e" in tasks, "f" in tasks)
        await trio.sleep(100)
        assert 0 == len(tasks)

    assert [(0, "a"), (0, "b"), (3, "c"), (3, "d"), (6, "e")] == sorted(log.begun)


async def test_one_that_hangs_gives_its_place_up_and_goes_on(autojump_clock: MockClock) -> None:
    log = Log()
    async with doing(1) as tasks:
        for name, seconds in (("a", 25), ("b", 1), ("c", 1)):
            tasks.begin(name, log.takes(name, seconds))
        await trio.sleep(100)
        # Its place was given back once: they are still done one by one.
        for name in "de":
            tasks.begin(name, log.takes(name, 1))
        await trio.sleep(100)

    assert [(0, "a"), (10, "b"), (11, "c"), (100, "d"), (101, "e")] == log.begun
    assert [(11, "b"), (12, "c"), (25, "a"), (101, "d"), (102, "e")] == log.done


async def test_one_of_many_steps_that_says_so_keeps_its_place(autojump_clock: MockClock) -> None:
    log = Log()
    async with doing(1) as tasks:

        async def steps() -> None:
            for _ in range(3):
                await log.takes("step", 9)()
                tasks.made_progress("a")
            await trio.sleep(20)
            tasks.made_progress("a")  # too late: its place is another's

        tasks.begin("a", steps)
        for name in "bc":
            tasks.begin(name, log.takes(name, 15))
        await trio.sleep(100)

    assert [(37, "b"), (47, "c")] == log.begun[3:]


async def test_of_one_name_the_last_waits_until_the_one_under_way_is_over(autojump_clock: MockClock) -> None:
    log = Log()
    async with doing(3) as tasks:
        for number in range(3):
            tasks.begin("a", log.takes(f"a{number}", 30))
        tasks.begin("b", log.takes("b", 1))
        await trio.sleep(100)

    assert [(0, "a0"), (0, "b"), (30, "a2")] == sorted(log.begun)


async def test_one_that_hangs_does_not_start_over_what_waits_for_it(autojump_clock: MockClock) -> None:
    log = Log()
    async with doing(1) as tasks:
        tasks.begin("a", log.takes("a", 50))
        await trio.sleep(1)
        tasks.begin("a", log.takes("again", 1))
        tasks.begin("b", log.takes("b", 1))
        await trio.sleep(100)

    assert [(0, "a"), (10, "b"), (50, "again")] == log.begun


async def test_what_a_chore_raises_is_not_lost() -> None:
    async def broken() -> None:
        raise RuntimeError("a bug")

    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True):
        async with doing(1) as tasks:
            tasks.begin("a", broken)
            await trio.sleep_forever()
