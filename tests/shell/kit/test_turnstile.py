"""The turnstile: order among those who come together, and no long wait behind those who stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kit.turnstile import Turnstile

if TYPE_CHECKING:
    from trio.testing import MockClock


async def times_inside(turnstile: Turnstile, seconds: list[float]) -> list[tuple[float, float]]:
    """When each of those who come together, one step after another, went in and came out."""
    seen: dict[int, tuple[float, float]] = {}

    async def go(number: int, stay: float) -> None:
        async with turnstile.turn():
            went_in = trio.current_time() - began
            await trio.sleep(stay)
        seen[number] = (went_in, trio.current_time() - began)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number, stay in enumerate(seconds):
            nursery.start_soon(go, number, stay)
            await trio.testing.wait_all_tasks_blocked()
    return [seen[number] for number in range(len(seconds))]


async def test_concurrent_callers_enter_in_their_order(autojump_clock: MockClock) -> None:
    seen = await times_inside(Turnstile(2, 1.0), [0.25, 0.25, 0.25, 0.25, 0.25])
    assert [0, 0, 0.25, 0.25, 0.5] == pytest.approx([went_in for went_in, _ in seen])


async def test_wait_behind_slow_callers_is_bounded(autojump_clock: MockClock) -> None:
    seen = await times_inside(Turnstile(2, 1.0), [60, 60, 1, 1, 1])
    assert [0, 0, 1, 1, 1] == pytest.approx([went_in for went_in, _ in seen])


async def test_slow_caller_delays_another_only_once(autojump_clock: MockClock) -> None:
    turnstile = Turnstile(1, 1.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(times_inside, turnstile, [60.0])
        await trio.testing.wait_all_tasks_blocked()
        assert [(1.0, 1.0)] == await times_inside(turnstile, [0])
        assert [(0.0, 0.0)] == await times_inside(turnstile, [0])
        nursery.cancel_scope.cancel()


async def test_a_turn_given_up_or_failed_in_is_another_s(autojump_clock: MockClock) -> None:
    turnstile = Turnstile(1, 1.0)
    with trio.move_on_after(0.5):
        async with turnstile.turn():
            await trio.sleep_forever()
    with pytest.raises(KeyError):
        async with turnstile.turn():
            raise KeyError
    async with turnstile.turn():
        with trio.move_on_after(0.5):
            async with turnstile.turn():
                pytest.fail("there is one place")
    assert [(0.0, 0.0)] == await times_inside(turnstile, [0])
