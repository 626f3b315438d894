"""What fails again and again is said once, and once an hour; what is remembered of it has a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kit.failure_log import FailureLog

if TYPE_CHECKING:
    from trio.testing import MockClock


async def test_each_is_said_once_and_once_an_hour_while_it_goes_on(autojump_clock: MockClock) -> None:
    failure_log, said = FailureLog(), []
    for minute in range(121):
        said += [(minute, what) for what in ("a", "b") if (what == "a" or minute > 30) and failure_log.may_log(what)]
        await trio.sleep(60)

    assert [(0, "a"), (31, "b"), (60, "a"), (91, "b"), (120, "a")] == said


async def test_what_worked_meanwhile_is_said_at_once() -> None:
    failure_log = FailureLog()
    assert failure_log.may_log("a")
    failure_log.works_again("a")
    failure_log.works_again("never complained of")

    assert failure_log.may_log("a")


async def test_failures_that_stopped_are_forgotten(autojump_clock: MockClock) -> None:
    failure_log = FailureLog()
    for number in range(100):
        failure_log.may_log(f"container {number}")
        await trio.sleep(60)

    assert 60 == len(failure_log)


async def test_of_too_many_it_is_said_once_that_there_are_others(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    failure_log = FailureLog(kept_max=3)
    said = [[what for what in "abcde" if failure_log.may_log(what)] for _ in range(3)]

    assert [["a", "b", "c"], [], []] == said
    assert 3 == len(failure_log)
    (line,) = caplog.messages
    assert line.startswith("More than 3 operations fail, each logged once an hour; d and others")

    await trio.sleep(1800)
    failure_log.works_again("b")
    assert ["d"] == [what for what in "acdea" if failure_log.may_log(what)]
    await trio.sleep(1801)
    assert ["e", "a"] == [what for what in "deac" if failure_log.may_log(what)]
    assert 2 == len(caplog.messages)
