"""The fault barrier: what it tells, what it keeps, and what it lets through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kit.barrier import Barrier, InvariantBroken, message_of

if TYPE_CHECKING:
    from trio.testing import MockClock


async def fails_when_cancelled(error: Exception) -> None:
    try:
        await trio.sleep_forever()
    finally:
        raise error


async def side_by_side(error: Exception) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fails_when_cancelled, error)
        nursery.start_soon(trio.sleep_forever)


def test_what_its_block_raises_is_reported_and_kept() -> None:
    told: list[Exception] = []
    oops = KeyError("oops")
    with Barrier(told.append) as barrier:
        raise oops

    assert [oops] == told
    assert oops is barrier.fault


def test_a_block_that_ends_well_has_no_fault() -> None:
    told: list[Exception] = []
    with Barrier(told.append) as barrier:
        pass

    assert [] == told
    assert barrier.fault is None
    assert message_of(barrier.fault) == ""


def test_of_a_group_of_one_that_one_is_told() -> None:
    told: list[Exception] = []
    oops = ValueError("oops")
    with Barrier(told.append):
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [oops])])

    assert [oops] == told


async def test_a_fault_beside_a_cancellation_is_reported_and_only_the_cancellation_goes_on(
    autojump_clock: MockClock,
) -> None:
    told: list[Exception] = []
    oops = ValueError("oops")
    with trio.move_on_after(1) as scope:
        with Barrier(told.append):
            await side_by_side(oops)
        told.append(AssertionError("the block was left as if nobody had cancelled it"))

    assert scope.cancelled_caught
    assert [oops] == told


async def test_a_cancellation_alone_is_no_fault(autojump_clock: MockClock) -> None:
    told: list[Exception] = []
    with trio.move_on_after(1) as scope, Barrier(told.append):
        await trio.sleep_forever()

    assert scope.cancelled_caught
    assert [] == told


def test_an_order_to_end_the_process_goes_on_without_the_fault_beside_it() -> None:
    told: list[Exception] = []
    oops = ValueError("oops")
    with pytest.RaisesGroup(KeyboardInterrupt), Barrier(told.append):
        raise BaseExceptionGroup("both", [oops, KeyboardInterrupt()])

    assert [oops] == told


async def test_a_broken_invariant_goes_through_also_beside_a_cancellation(autojump_clock: MockClock) -> None:
    told: list[Exception] = []
    with pytest.RaisesGroup(InvariantBroken), trio.move_on_after(1), Barrier(told.append):
        await side_by_side(InvariantBroken("two writers"))

    assert [] == told


@pytest.mark.parametrize(("expected", "fault"), [("no", ValueError("no")), ("TooSlowError", trio.TooSlowError())])
def test_a_fault_without_a_message_is_named_by_its_kind(expected: str, fault: Exception) -> None:
    assert expected == message_of(fault)
