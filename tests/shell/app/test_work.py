"""The work nursery: it goes on for as long as its last task takes, and no longer than it can be of use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.app.work import open_work

if TYPE_CHECKING:
    from trio.testing import MockClock

LAST_SECONDS = 20.0


class Life:
    """One work nursery with a source beside it; when each of them ended, on Trio's clock."""

    def __init__(self) -> None:
        self.broken = trio.Event()
        self.ended: dict[str, float] = {}
        self.scope = trio.CancelScope()

    async def run(self, *, last: bool = True, fails_at: float | None = None) -> None:
        with self.scope:
            async with open_work(self.broken, self._last if last else None) as (beside, work):
                beside.start_soon(self._task, "source")
                work.start_soon(self._task, "work")
                if fails_at is not None:
                    work.start_soon(self._fail, fails_at)

    async def _task(self, name: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.ended[name] = trio.current_time()

    async def _last(self) -> None:
        await trio.sleep(LAST_SECONDS)

    async def _fail(self, seconds: float) -> None:
        await trio.sleep(seconds)
        raise ArithmeticError


async def cancelled_after(seconds: float, life: Life, **how: bool) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: life.run(**how))  # type: ignore[arg-type]
        await trio.sleep(seconds)
        life.scope.cancel()


async def test_sources_end_at_once_and_the_work_after_the_last_task(autojump_clock: MockClock) -> None:
    life = Life()
    await cancelled_after(5, life)

    assert {"source": 5, "work": 5 + LAST_SECONDS} == life.ended


async def test_without_a_last_task_the_work_ends_at_once(autojump_clock: MockClock) -> None:
    life = Life()
    await cancelled_after(5, life, last=False)

    assert {"source": 5, "work": 5} == life.ended


async def test_work_that_has_failed_is_given_no_time(autojump_clock: MockClock) -> None:
    life = Life()
    with pytest.RaisesGroup(ArithmeticError, flatten_subgroups=True):
        await life.run(fails_at=3)

    assert {"source": 3, "work": 3} == life.ended


@pytest.mark.parametrize("ends_before", [True, False])
async def test_a_service_that_breaks_leaves_the_work_no_time(ends_before: bool, autojump_clock: MockClock) -> None:
    life = Life()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(life.run)
        await trio.sleep(5)
        if ends_before:
            life.scope.cancel()
            await trio.sleep(2)
        life.broken.set()
        await trio.lowlevel.checkpoint()
        life.scope.cancel()

    assert trio.current_time() < 5 + LAST_SECONDS
    assert 7 if ends_before else 5 == life.ended["work"]


async def test_a_failure_in_the_block_ends_the_work_at_once(autojump_clock: MockClock) -> None:
    life = Life()
    with pytest.RaisesGroup(ArithmeticError, flatten_subgroups=True):
        async with open_work(life.broken, life._last) as (_, work):
            work.start_soon(life._task, "work")
            await trio.sleep(1)
            raise ArithmeticError

    assert {"work": 1} == life.ended
