"""The work queue and the breaker before the server: who goes next, and when nobody does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kit.backoff import Backoff
from trikubelet.kit.circuit_breaker import CircuitBreaker
from trikubelet.kit.outage import Outage
from trikubelet.model.api_errors import (
    RETRY_AFTER_SECONDS_MAX,
    ApiBusy,
    ApiFailure,
    ApiLost,
    ApiUnreachable,
    NothingToShow,
    Unauthorized,
)
from trikubelet.model.bounds import Bounds
from trikubelet.status.work_queue import WorkItem, WorkQueue, answer_within

if TYPE_CHECKING:
    from trio.testing import MockClock


def work_queue(served_max: int = 1) -> WorkQueue[str]:
    return WorkQueue("asking", served_max, Outage("The server"), Bounds(), random.Random(1))


async def next_names(of: WorkQueue[str], *, within: float = 0.001) -> list[str]:
    """Return the names that get a turn soon, each done at once."""
    names = []
    with trio.move_on_after(within):
        while True:
            item = await of.get()
            names.append(item.name)
            of.done(item.name)
    return names


async def test_urgent_names_go_first_and_then_the_longest_waiting(autojump_clock: MockClock) -> None:
    it = work_queue()
    for name in ("a", "b", "c"):
        it.add(name)
    it.add("d", urgent=True)
    it.add("b", urgent=True)
    it.add("a")
    assert 4 == it.waiting
    assert ["d", "b", "a", "c"] == await next_names(it)


async def test_what_was_urgent_stays_so(autojump_clock: MockClock) -> None:
    it = work_queue()
    it.add("a")
    it.add("b", urgent=True)
    it.add("b")
    assert ["b", "a"] == await next_names(it)


async def test_an_item_knows_since_when_it_has_waited(autojump_clock: MockClock) -> None:
    it = work_queue()
    it.add("a")
    await trio.sleep(5)
    it.add("a", urgent=True)
    assert WorkItem("a", trio.current_time() - 5) == await it.get()


async def test_a_name_is_served_once_at_a_time_and_again_when_it_was_wanted_meanwhile(
    autojump_clock: MockClock,
) -> None:
    it = work_queue(served_max=2)
    it.add("a")
    item = await it.get()
    it.add("a")
    it.add("b")
    assert ["b"] == await next_names(it)
    assert it.is_waiting("a")
    assert {"a"} == it.served
    it.done(item.name)
    assert ["a"] == await next_names(it)


async def test_no_more_are_served_than_may_be(autojump_clock: MockClock) -> None:
    it = work_queue(served_max=2)
    for name in ("a", "b", "c"):
        it.add(name)
    await it.get()
    await it.get()
    with pytest.raises(trio.TooSlowError), trio.fail_after(1000):
        await it.get()


@pytest.mark.parametrize(
    "error", [ApiUnreachable("x"), ApiBusy("x"), Unauthorized("x"), NothingToShow("x")], ids=lambda e: type(e).__name__
)
async def test_where_nothing_was_asked_the_same_may_try_again(error: ApiUnreachable, autojump_clock: MockClock) -> None:
    it = work_queue()
    it.add("a")
    it.failed("a", error)
    assert [] == await next_names(it)
    assert ["a"] == await next_names(it, within=0.31)


@pytest.mark.parametrize("error", [ApiLost("x"), ApiFailure("x")], ids=repr)
async def test_where_it_may_be_the_name_others_try_before_it(error: ApiLost, autojump_clock: MockClock) -> None:
    it = work_queue()
    it.add("a")
    it.add("b")
    it.failed("a", error)
    assert ["b"] == await next_names(it, within=0.9)
    assert ["a"] == await next_names(it, within=0.7)


@pytest.mark.parametrize("error", [ApiLost("x"), ApiFailure("x")], ids=repr)
async def test_repeatedly_failing_name_stops_no_other(error: ApiLost, autojump_clock: MockClock) -> None:
    it = work_queue()
    assert 1 == it.failed("a", error)
    it.answered("b")
    assert [2, 3, 4] == [it.failed("a", error) for _ in range(3)]
    it.add("b")
    assert ["b"] == await next_names(it)
    it.forget("a")
    assert 1 == it.failed("a", error)


async def test_pauses_grow_without_answers_and_the_newest_name_tries_first(
    autojump_clock: MockClock,
) -> None:
    it = work_queue(served_max=8)
    for name in ("a", "b", "c"):
        it.add(name)
        it.failed(name, ApiFailure("x"))
        await trio.sleep(10)
    it.add("d")
    it.add("e")
    assert "e" == (await it.get()).name
    it.done("e")
    assert "d" == (await it.get()).name
    it.failed("d", ApiFailure("x"))
    it.done("d")
    began = trio.current_time()
    await it.get()
    assert 1.6 <= trio.current_time() - began <= 2.4  # the fourth pause of the breaker


async def test_names_that_failed_before_hold_half_of_the_places(autojump_clock: MockClock) -> None:
    it = work_queue(served_max=8)
    for number in range(20):
        it.failed(f"bad-{number}", ApiFailure("x"))
        it.add(f"bad-{number}")
    it.answered("good")
    await trio.sleep(10)
    hung = {(await it.get()).name for _ in range(4)}
    it.add("good")
    assert ["good"] == await next_names(it)
    assert hung == it.served
    it.done(hung.pop())
    assert (await it.get()).name.startswith("bad-")


async def test_a_no_concerns_its_name_alone_and_is_counted(autojump_clock: MockClock) -> None:
    it = work_queue()
    it.add("a")
    it.add("b")
    assert [1, 2, 3] == [it.refused("a") for _ in range(3)]
    assert ["b"] == await next_names(it)
    assert ["a"] == await next_names(it, within=6.1)
    it.answered("a")
    assert 1 == it.refused("a")


async def test_a_name_may_have_to_rest_after_an_answer_and_the_others_need_not(autojump_clock: MockClock) -> None:
    it = work_queue()
    it.answered("a", 5.0)
    it.add("a")
    it.add("b")
    assert ["b"] == await next_names(it, within=4.9)
    assert ["a"] == await next_names(it, within=0.2)


async def test_what_is_forgotten_begins_with_the_first_pause(autojump_clock: MockClock) -> None:
    it = work_queue()
    for _ in range(5):
        it.refused("a")
    it.keep({"a"})
    assert 6 == it.refused("a")
    it.keep({"b"})
    assert 1 == it.refused("a")
    it.forget("a")
    assert 1 == it.refused("a")


async def test_of_what_is_forgotten_nothing_is_remembered(autojump_clock: MockClock) -> None:
    it = work_queue()
    it.refused("a")
    it.forget("a")
    it.add("a")
    assert ["a"] == await next_names(it)


@pytest.mark.parametrize(
    ("after", "expected"),
    [(20.0, 20.0), (3600.0, RETRY_AFTER_SECONDS_MAX), (float("9" * 400), RETRY_AFTER_SECONDS_MAX)],
)
async def test_pauses_of_all_names_are_at_most_half_a_minute(
    after: float, expected: float, autojump_clock: MockClock
) -> None:
    it = work_queue()
    it.failed("a", ApiBusy("maintenance", after=after))
    it.add("b")
    assert [] == await next_names(it, within=expected - 0.1)
    assert ["b"] == await next_names(it, within=0.2)


async def test_skipped_back_off_ends_the_wait_and_keeps_growing(autojump_clock: MockClock) -> None:
    it = work_queue()
    it.add("a")
    assert [1, 2, 3] == [it.refused("a") for _ in range(3)]
    it.skip_backoff("a")
    assert ["a"] == await next_names(it)
    assert 4 == it.refused("a")


async def test_of_names_that_are_gone_nothing_stays(autojump_clock: MockClock) -> None:
    it = work_queue()
    for number in range(100):
        it.refused(f"pod-{number}")
        it.answered(f"other-{number}", 60.0)
    it.keep(())

    remembered = [value for value in vars(it).values() if isinstance(value, dict | set)]
    assert [0] * len(remembered) == [len(value) for value in remembered]
    assert len(remembered) > 3


async def test_no_answer_in_time_is_a_lost_one(autojump_clock: MockClock) -> None:
    with pytest.raises(ApiLost, match="no answer within 30s"), answer_within(30.0):
        await trio.sleep(31)


# ---- the breaker ----


async def test_a_shut_gate_lets_one_try_and_an_open_one_all(autojump_clock: MockClock) -> None:
    breaker = CircuitBreaker(Backoff(1.0, 4.0), 8)
    assert 8 == breaker.requests_max
    breaker.failed()
    assert (1, trio.current_time() + 1.0) == (breaker.requests_max, breaker.blocked_until)
    breaker.answered()
    assert 8 == breaker.requests_max
    assert breaker.blocked_until < trio.current_time()


async def test_pauses_grow_and_begin_again_after_an_answer(autojump_clock: MockClock) -> None:
    breaker = CircuitBreaker(Backoff(1.0, 4.0), 8)
    pauses = []
    for _ in range(4):
        breaker.failed()
        pauses.append(breaker.blocked_until - trio.current_time())
        await trio.sleep_until(breaker.blocked_until)
    breaker.answered()
    breaker.failed()
    assert [1.0, 2.0, 4.0, 4.0, 1.0] == [*pauses, breaker.blocked_until - trio.current_time()]


async def test_what_was_asked_before_a_pause_does_not_lengthen_it(autojump_clock: MockClock) -> None:
    breaker = CircuitBreaker(Backoff(1.0, 4.0), 8)
    for _ in range(8):
        breaker.failed()
    assert trio.current_time() + 1.0 == breaker.blocked_until


async def test_the_servers_own_wish_is_kept_when_it_is_longer(autojump_clock: MockClock) -> None:
    breaker = CircuitBreaker(Backoff(1.0, 4.0), 8)
    breaker.failed(30.0)
    assert trio.current_time() + 30.0 == breaker.blocked_until
    await trio.sleep(31)
    breaker.failed(0.5)
    assert trio.current_time() + 2.0 == breaker.blocked_until
