"""Where processor time and memory go."""

from __future__ import annotations

import sys
import threading
import tracemalloc
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kit import profiles
from trikubelet.kit.profiles import Profiler
from trikubelet.kit.threads import StillRunning

if TYPE_CHECKING:
    from trio.testing import MockClock

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


async def test_the_processors_time_is_reported_by_stacks() -> None:
    """Return the profile of a thread that does one thing only: the place of any other is random."""
    ending = threading.Event()

    def stands_here() -> None:
        ending.wait(60)

    watched = threading.Thread(target=stands_here)
    watched.start()
    try:
        assert watched.ident is not None
        with trio.fail_after(60):
            while sys._current_frames()[watched.ident].f_code.co_name != "wait":  # noqa: ASYNC110 - it does not tell
                await trio.sleep(0.001)
        text = profiles.stacks(watched.ident, 0.05, threading.Event())
    finally:
        ending.set()
        watched.join()

    lines = [line.rpartition(" ") for line in text.splitlines()]
    assert lines
    for stack, _, count in lines:
        assert (True, True) == (".stands_here;threading.Event.wait" in stack, count.isdigit())


async def test_trios_own_thread_is_the_one_that_is_looked_at() -> None:
    assert "trio._core" in await Profiler().processor(0.05)


async def test_memory_is_reported_by_the_line_that_took_it(mock_clock: MockClock) -> None:
    """On a clock that stands still until it was taken."""
    held = []

    async def take() -> None:
        while not tracemalloc.is_tracing():
            await trio.lowlevel.checkpoint()
        held.append(bytearray(1 << 22))
        mock_clock.jump(0.05)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        text = await Profiler().memory(0.05)

    assert "test_profiles.py" in text.splitlines()[1]
    assert not tracemalloc.is_tracing()


async def test_one_profile_at_a_time_and_a_cancelled_one_frees_the_place() -> None:
    profiler = Profiler()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(profiler.memory, 60)
        nursery.start_soon(profiler.processor, 60)
        await trio.testing.wait_all_tasks_blocked()
        for again in (profiler.memory, profiler.processor):
            with pytest.raises(StillRunning):
                await again(1)
        nursery.cancel_scope.cancel()

    assert not tracemalloc.is_tracing()
