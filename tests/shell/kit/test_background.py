"""Tasks in the background: begun from synchronous code while somebody holds them, and never after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kit.background import BackgroundTasks
from trikubelet.kit.keyed_tasks import KeyedTasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.testing import MockClock


async def test_they_run_beside_each_other_until_cancelled(autojump_clock: MockClock) -> None:
    tasks, done = BackgroundTasks(), []

    async def work(name: str, seconds: float) -> None:
        await trio.sleep(seconds)
        done.append(name)

    async with trio.open_nursery() as nursery:
        await nursery.start(tasks.run)
        for name, seconds in (("slow", 2.0), ("quick", 1.0), ("never", 9.0)):
            tasks.start_soon(work, name, seconds)
        await trio.sleep(3.0)
        nursery.cancel_scope.cancel()

    assert ["quick", "slow"] == done


async def test_the_end_of_a_block_waits_for_them(autojump_clock: MockClock) -> None:
    began, tasks = trio.current_time(), BackgroundTasks()
    async with tasks.held():
        tasks.start_soon(trio.sleep, 5.0)

    assert 5.0 == pytest.approx(trio.current_time() - began)


async def test_starting_a_task_before_the_nursery_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="run was not started"):
        BackgroundTasks().start_soon(trio.sleep, 1.0)


def _tasks() -> tuple[Callable[..., object], Callable[[], object]]:
    tasks = BackgroundTasks()
    return tasks.run, lambda: tasks.start_soon(trio.sleep, 1.0)


def _keyed_tasks() -> tuple[Callable[..., object], Callable[[], object]]:
    tasks = KeyedTasks(slots=1, hung_seconds=1.0)
    return tasks.run, lambda: tasks.begin("a", trio.lowlevel.checkpoint)


@pytest.mark.parametrize("make", [_tasks, _keyed_tasks])
@pytest.mark.parametrize("steps", range(4))
async def test_cancelled_task_starts_nothing_without_an_error(
    make: Callable[[], tuple[Callable[..., object], Callable[[], object]]], steps: int
) -> None:
    """A nursery is closed some steps before whoever opened it is through with it: there must be no gap."""
    run, begin = make()
    async with trio.open_nursery() as nursery:
        await nursery.start(run)
        nursery.cancel_scope.cancel()
        for _ in range(steps):
            await trio.lowlevel.cancel_shielded_checkpoint()
        begin()
