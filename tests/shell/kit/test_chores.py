"""Chores are done side by side within a bound, one at a time for each name, and none waits for one that hangs."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kit.chores import Chores

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from trio.testing import MockClock


class Log:
    """What was begun and done, and when."""

    def __init__(self) -> None:
        self.begun: list[tuple[float, str]] = []
        self.done: list[tuple[float, str]] = []

    def takes(self, name: str, seconds: float) -> Callable[[], Awaitable[object]]:
        async def chore() -> None:
            self.begun.append((trio.current_time(), name))
            await trio.sleep(seconds)
            self.done.append((trio.current_time(), name))

        return chore


@asynccontextmanager
async def doing(places: int, hung_seconds: float = 10) -> AsyncIterator[Chores]:
    chores = Chores(places, hung_seconds)
    async with trio.open_nursery() as nursery:
        await nursery.start(chores.run)
        yield chores
        nursery.cancel_scope.cancel()


async def test_so_many_are_done_at_once_in_the_order_they_came(autojump_clock: MockClock) -> None:
    log = Log()
    async with doing(2) as chores:
        for name in "abcde":
            chores.begin(name, log.takes(name, 3))
        assert (5, True, False) == (len(chores), "e" in chores, "f" in chores)
        await trio.sleep(100)
        assert 0 == len(chores)

    assert [(0, "a"), (0, "b"), (3, "c"), (3, "d"), (6, "e")] == sorted(log.begun)


async def test_one_that_hangs_gives_its_place_up_and_goes_on(autojump_clock: MockClock) -> None:
    log = Log()
    async with doing(1) as chores:
        for name, seconds in (("a", 25), ("b", 1), ("c", 1)):
            chores.begin(name, log.takes(name, seconds))
        await trio.sleep(100)
        # Its place was given back once: they are still done one by one.
        for name in "de":
            chores.begin(name, log.takes(name, 1))
        await trio.sleep(100)

    assert [(0, "a"), (10, "b"), (11, "c"), (100, "d"), (101, "e")] == log.begun
    assert [(11, "b"), (12, "c"), (25, "a"), (101, "d"), (102, "e")] == log.done


async def test_one_of_many_steps_that_says_so_keeps_its_place(autojump_clock: MockClock) -> None:
    log = Log()
    async with doing(1) as chores:

        async def steps() -> None:
            for _ in range(3):
                await log.takes("step", 9)()
                chores.goes_on("a")
            await trio.sleep(20)
            chores.goes_on("a")  # too late: its place is another's

        chores.begin("a", steps)
        for name in "bc":
            chores.begin(name, log.takes(name, 15))
        await trio.sleep(100)

    assert [(37, "b"), (47, "c")] == log.begun[3:]


async def test_of_one_name_the_last_waits_until_the_one_under_way_is_over(autojump_clock: MockClock) -> None:
    log = Log()
    async with doing(3) as chores:
        for number in range(3):
            chores.begin("a", log.takes(f"a{number}", 30))
        chores.begin("b", log.takes("b", 1))
        await trio.sleep(100)

    assert [(0, "a0"), (0, "b"), (30, "a2")] == sorted(log.begun)


async def test_one_that_hangs_does_not_start_over_what_waits_for_it(autojump_clock: MockClock) -> None:
    log = Log()
    async with doing(1) as chores:
        chores.begin("a", log.takes("a", 50))
        await trio.sleep(1)
        chores.begin("a", log.takes("again", 1))
        chores.begin("b", log.takes("b", 1))
        await trio.sleep(100)

    assert [(0, "a"), (10, "b"), (50, "again")] == log.begun


async def test_what_a_chore_raises_is_not_lost() -> None:
    async def broken() -> None:
        raise RuntimeError("a bug")

    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True):
        async with doing(1) as chores:
            chores.begin("a", broken)
            await trio.sleep_forever()
