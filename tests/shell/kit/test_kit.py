"""The Trio helpers that know no Kubernetes: Slot, Gather, every, settle, Backoff."""

import random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trikubelet.kit.backoff import Backoff
from trikubelet.kit.barrier import InvariantBroken
from trikubelet.kit.every import Every
from trikubelet.kit.gather import Gather
from trikubelet.kit.settle import settled
from trikubelet.kit.slot import Slot


async def test_a_slot_keeps_only_the_newest_value() -> None:
    slot: Slot[int] = Slot()
    slot.put(1)
    slot.put(2)

    assert await slot.take() == 2
    assert repr(slot) == "<Slot empty>"


async def test_taking_from_an_empty_slot_waits_for_a_put(nursery: trio.Nursery) -> None:
    slot: Slot[str] = Slot()
    taken: list[str] = []

    async def taker() -> None:
        taken.append(await slot.take())

    nursery.start_soon(taker)
    await wait_all_tasks_blocked()
    assert taken == []
    slot.put("x")
    await wait_all_tasks_blocked()

    assert taken == ["x"]


async def test_a_cancelled_take_loses_nothing() -> None:
    slot: Slot[int] = Slot()
    with trio.move_on_after(0):
        await slot.take()
    slot.put(7)

    assert await slot.take() == 7


async def test_gather_collects_each_name_once_in_order_of_arrival() -> None:
    gather: Gather[str] = Gather()
    gather.add("b", "a")
    gather.add("b")

    assert len(gather) == 2
    assert await gather.collect() == ("b", "a")
    assert len(gather) == 0


async def test_adding_no_names_wakes_no_task(autojump_clock: trio.testing.MockClock) -> None:
    gather: Gather[str] = Gather()
    gather.update([])
    with trio.move_on_after(1) as scope:
        await gather.collect()

    assert scope.cancelled_caught


async def test_every_leaves_missed_passes_out(autojump_clock: trio.testing.MockClock) -> None:
    start = trio.current_time()
    passes: list[float] = []
    async for now in Every(1.0):
        passes.append(round(now - start, 3))
        if len(passes) == 2:
            await trio.sleep(3.5)
        if len(passes) == 4:
            break

    assert passes == [0.0, 1.0, 4.5, 5.5]


async def test_a_settled_call_survives_its_callers_cancellation(autojump_clock: trio.testing.MockClock) -> None:
    done: list[str] = []

    async def call() -> None:
        await trio.sleep(2)
        done.append("created")

    with trio.move_on_after(1) as scope:
        async with settled(5):
            await call()

    assert scope.cancelled_caught
    assert done == ["created"]


async def test_settling_gives_up_at_its_deadline(autojump_clock: trio.testing.MockClock) -> None:
    start = trio.current_time()
    with trio.move_on_after(1):
        async with settled(5):
            await trio.sleep_forever()

    assert trio.current_time() - start == 6


async def test_an_error_of_a_settled_call_is_raised_as_it_is() -> None:
    async def breaks() -> None:
        async with settled(1):
            await trio.lowlevel.checkpoint()
            raise KeyError("x")

    with pytest.raises(KeyError):
        await breaks()


@pytest.mark.parametrize("grouped", [False, True])
async def test_broken_invariant_of_an_abandoned_call_is_raised(
    grouped: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async def call() -> None:
        await trio.sleep(2)
        broken = InvariantBroken("two sandboxes")
        raise ExceptionGroup("calls", [broken]) if grouped else broken

    with pytest.RaisesGroup(InvariantBroken, flatten_subgroups=True), trio.move_on_after(1):
        async with settled(5):
            await call()


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_broken_invariant_is_heard_of_also_in_the_moment_in_which_the_caller_goes(is_cancelled: bool) -> None:
    async def call() -> None:
        async with settled(5):
            await go.wait()
            raise InvariantBroken("two sandboxes")

    for _ in range(40):  # whichever of the two tasks is first
        go = trio.Event()
        with pytest.RaisesGroup(InvariantBroken, flatten_subgroups=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                await trio.testing.wait_all_tasks_blocked()
                go.set()
                if is_cancelled:
                    nursery.cancel_scope.cancel()


async def test_other_error_of_an_abandoned_call_is_dropped(autojump_clock: trio.testing.MockClock) -> None:
    async def call() -> None:
        await trio.sleep(2)
        raise OSError("no")

    with trio.move_on_after(1) as scope:
        async with settled(5):
            await call()

    assert scope.cancelled_caught


async def test_a_call_that_fails_as_it_is_given_up_is_dropped_as_well(autojump_clock: trio.testing.MockClock) -> None:
    async def fails() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OSError("no")

    async def call() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails)
            nursery.start_soon(trio.sleep_forever)

    with trio.move_on_after(1) as scope:
        async with settled(5):
            await call()

    assert scope.cancelled_caught


def test_backoff_doubles_to_its_cap_and_starts_over() -> None:
    backoff = Backoff(0.5, 3.0)

    assert [0.5, 1.0, 2.0, 3.0, 3.0] == [backoff.next_seconds() for _ in range(5)]
    backoff.reset()
    assert backoff.next_seconds() == 0.5


def test_jitter_only_lengthens() -> None:
    backoff = Backoff(10, 10, jitter=0.5, chance=random.Random(1))

    assert all(10 <= backoff.next_seconds() <= 15 for _ in range(50))
