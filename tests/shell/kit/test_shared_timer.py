"""Many tasks, one timer."""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from trikubelet.kit.shared_timer import SharedTimer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from trio.testing import MockClock


@asynccontextmanager
async def ticking(seconds: float = 0.1) -> AsyncIterator[SharedTimer]:
    timer = SharedTimer(seconds)
    async with trio.open_nursery() as nursery:
        await nursery.start(timer.run)
        yield timer
        nursery.cancel_scope.cancel()


async def woken(timer: SharedTimer, at: float) -> float:
    """When a task that is to be woken then is woken."""
    event = trio.Event()
    await timer.wait_until(at, event)
    return trio.current_time()


async def test_waiter_is_woken_at_the_first_tick_after_its_time(autojump_clock: MockClock) -> None:
    async with ticking() as timer:
        assert [0.3, 0.4, 0.4] == [round(await woken(timer, at), 6) for at in (0.21, 0.4, 0.1)]
        assert 0 == len(timer)


async def test_those_of_one_beat_are_woken_together_and_an_earlier_one_before_them(autojump_clock: MockClock) -> None:
    times: dict[float, float] = {}

    async def wait(at: float) -> None:
        times[at] = round(await woken(timer, at), 6)

    async with ticking() as timer, trio.open_nursery() as nursery:
        for at in (10.01, 10.05, 3600.0, 5.0):
            nursery.start_soon(wait, at)
            await trio.testing.wait_all_tasks_blocked()

    assert {10.01: 10.1, 10.05: 10.1, 3600.0: 3600.0, 5.0: 5.0} == times


async def test_waiter_is_never_woken_too_soon(autojump_clock: MockClock) -> None:
    async with ticking(0.025) as timer:
        for number in range(1, 2000):
            at = math.nextafter(number * 0.025, math.inf)
            assert await woken(timer, at) >= at


@pytest.mark.parametrize("far", [(2**31,), range(10_000, 20_000)], ids=["one time", "another each time"])
async def test_woken_or_cancelled_waiter_is_forgotten(autojump_clock: MockClock, far: Sequence[int]) -> None:
    async with ticking() as timer, trio.open_nursery() as nursery:
        nursery.start_soon(woken, timer, 30_000.0)
        for number in range(1000):
            event = trio.Event()
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as waiting:
                    waiting.start_soon(timer.wait_until, far[number % len(far)], event)
                    await trio.testing.wait_all_tasks_blocked()
                    (event.set if number % 2 else scope.cancel)()

        assert 1 == len(timer)
        assert len(timer._ticks) < 100
        assert [round(await woken(timer, at), 6) for at in (5000.0, 15_000.0)] == [5000.0, 15_000.0]

    assert 30_000 == round(trio.current_time(), 6)


async def test_the_others_of_a_tick_are_woken_when_one_of_them_is_woken_before(
    autojump_clock: MockClock,
) -> None:
    async with ticking() as timer:
        first, second = trio.Event(), trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(timer.wait_until, 1.0, first)
            nursery.start_soon(timer.wait_until, 1.0, second)
            await trio.testing.wait_all_tasks_blocked()
            first.set()
        assert [1.0, 0] == [round(trio.current_time(), 6), len(timer)]
        assert second.is_set()
