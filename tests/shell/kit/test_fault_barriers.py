"""Bugs about single objects: each said by name, once an hour at most, and no more remembered than is needed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kit.barrier import InvariantBroken
from trikubelet.kit.fault_barriers import REMEMBERED_MAX, SILENCE_SECONDS, FaultBarriers

if TYPE_CHECKING:
    from trio.testing import MockClock

log = logging.getLogger("test")


def barriers() -> FaultBarriers:
    return FaultBarriers(log, "%s: a bug in a test")


def meet(met: FaultBarriers, who: str, error: Exception | None = None) -> None:
    with met.of(who):
        raise error or ValueError("oops")


async def test_a_bug_is_said_by_name_and_then_once_an_hour(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    met = barriers()
    for _ in range(100):
        meet(met, "Pod default/web")
    assert ["Pod default/web: a bug in a test"] == caplog.messages
    assert "oops" in caplog.text  # with its traceback

    await trio.sleep(SILENCE_SECONDS + 1)
    meet(met, "Pod default/web")
    assert 2 == len(caplog.messages)
    assert 101 == met.count


async def test_another_object_and_another_bug_are_said_at_once(caplog: pytest.LogCaptureFixture) -> None:
    met = barriers()
    meet(met, "Pod default/web")
    meet(met, "Pod default/db")
    meet(met, "Pod default/web", KeyError("x"))

    assert 3 == len(caplog.messages)


async def test_second_listener_is_called_as_often() -> None:
    met, told = barriers(), list[str]()
    for _ in range(2):
        with met.of("Pod default/web", told.append):
            raise ValueError("oops")

    assert ["a bug in the node's agent: ValueError: oops"] == told


async def test_of_too_many_none_is_said_twice_within_the_hour(caplog: pytest.LogCaptureFixture) -> None:
    met = barriers()
    for number in range(REMEMBERED_MAX + 2):
        meet(met, f"Pod default/{number}")
    assert REMEMBERED_MAX + 1 == len(caplog.messages)
    assert caplog.messages[-1].startswith(f"More than {REMEMBERED_MAX} operations fail")
    caplog.clear()

    for number in range(REMEMBERED_MAX + 2):
        meet(met, f"Pod default/{number}")
    assert [] == caplog.messages


async def test_a_broken_invariant_is_let_through() -> None:
    with pytest.raises(InvariantBroken):
        meet(barriers(), "Pod default/web", InvariantBroken("x"))
