"""Answers believed for a while, and one question at a time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trikubelet.kit.expiring_cache import ExpiringCache


class Oracle:
    """Answers with how often it was asked, when it may."""

    def __init__(self) -> None:
        self.asked = 0
        self.open = trio.Event()

    async def ask(self) -> int:
        self.asked += 1
        count = self.asked
        await self.open.wait()
        return count


@pytest.fixture
async def oracle() -> Oracle:
    made = Oracle()
    made.open.set()
    return made


async def test_an_answer_is_believed_for_its_time_and_no_longer(oracle: Oracle, autojump_clock: MockClock) -> None:
    answers = ExpiringCache[int](10, lambda _: 30.0)

    assert 1 == await answers.get("a", oracle.ask)
    await trio.sleep(29.9)
    assert 1 == await answers.get("a", oracle.ask)
    await trio.sleep(0.1)
    assert 2 == await answers.get("a", oracle.ask)


async def test_an_answer_that_is_forgotten_is_asked_for_again(oracle: Oracle, autojump_clock: MockClock) -> None:
    answers = ExpiringCache[int](10, lambda _: 30.0)

    assert 1 == await answers.get("a", oracle.ask)
    answers.forget("a")
    answers.forget("b")  # of which nothing is known
    assert 2 == await answers.get("a", oracle.ask)


async def test_an_answer_without_a_time_is_not_believed_again(oracle: Oracle, autojump_clock: MockClock) -> None:
    answers = ExpiringCache[int](10, lambda _: 0.0)

    assert [1, 2] == [await answers.get("a", oracle.ask) for _ in range(2)]


async def test_concurrent_equal_requests_are_sent_once(oracle: Oracle, autojump_clock: MockClock) -> None:
    oracle.open = trio.Event()
    answers, told = ExpiringCache[int](10, lambda _: 30.0), []

    async def want(key: str) -> None:
        told.append((key, await answers.get(key, oracle.ask)))

    async with trio.open_nursery() as nursery:
        for key in ("a", "b", "a", "a"):
            nursery.start_soon(want, key)
        await wait_all_tasks_blocked()
        assert 2 == oracle.asked
        oracle.open.set()

    by_key = {key: {answer for other, answer in told if other == key} for key in "ab"}
    assert [1, 1] == [len(by_key["a"]), len(by_key["b"])]
    assert "0 requested" in repr(answers)


async def test_failed_or_cancelled_request_is_retried_by_the_next_waiter(
    oracle: Oracle, autojump_clock: MockClock
) -> None:
    answers = ExpiringCache[int](10, lambda _: 30.0)
    gate = trio.Event()

    async def fail() -> int:
        await gate.wait()
        raise ValueError("no")

    async def failing() -> None:
        with pytest.raises(ValueError, match="no"):
            await answers.get("a", fail)

    async def hung() -> None:
        with trio.move_on_after(1) as scope:
            await answers.get("b", trio.sleep_forever)
        assert scope.cancelled_caught

    async def wanting(key: str) -> None:
        assert await answers.get(key, oracle.ask) in (1, 2)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(failing)
        nursery.start_soon(hung)
        await wait_all_tasks_blocked()
        nursery.start_soon(wanting, "a")
        nursery.start_soon(wanting, "b")
        await wait_all_tasks_blocked()
        assert 0 == oracle.asked
        gate.set()

    assert 2 == oracle.asked
    assert "0 requested" in repr(answers)


async def test_only_so_many_answers_are_kept_and_those_in_use_longest(
    oracle: Oracle, autojump_clock: MockClock
) -> None:
    answers = ExpiringCache[int](2, lambda _: 30.0)

    assert [1, 2, 1, 3] == [await answers.get(key, oracle.ask) for key in ("a", "b", "a", "c")]
    assert [1, 3, 4] == [await answers.get(key, oracle.ask) for key in ("a", "c", "b")]
