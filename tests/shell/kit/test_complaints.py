"""What fails again and again is said once, and once an hour; what is remembered of it has a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kit.complaints import Complaints

if TYPE_CHECKING:
    from trio.testing import MockClock


async def test_each_is_said_once_and_once_an_hour_while_it_goes_on(autojump_clock: MockClock) -> None:
    complaints, said = Complaints(), []
    for minute in range(121):
        said += [(minute, what) for what in ("a", "b") if (what == "a" or minute > 30) and complaints.may_say(what)]
        await trio.sleep(60)

    assert [(0, "a"), (31, "b"), (60, "a"), (91, "b"), (120, "a")] == said


async def test_what_worked_meanwhile_is_said_at_once() -> None:
    complaints = Complaints()
    assert complaints.may_say("a")
    complaints.works_again("a")
    complaints.works_again("never complained of")

    assert complaints.may_say("a")


async def test_what_nobody_meets_any_more_is_forgotten(autojump_clock: MockClock) -> None:
    complaints = Complaints()
    for number in range(100):
        complaints.may_say(f"container {number}")
        await trio.sleep(60)

    assert 60 == len(complaints)


async def test_of_too_many_it_is_said_once_that_there_are_others(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    complaints = Complaints(kept_max=3)
    said = [[what for what in "abcde" if complaints.may_say(what)] for _ in range(3)]

    assert [["a", "b", "c"], [], []] == said
    assert 3 == len(complaints)
    (line,) = caplog.messages
    assert line.startswith("More than 3 things fail of which each is said once an hour; d and others")

    await trio.sleep(1800)
    complaints.works_again("b")
    assert ["d"] == [what for what in "acdea" if complaints.may_say(what)]
    await trio.sleep(1801)
    assert ["e", "a"] == [what for what in "deac" if complaints.may_say(what)]
    assert 2 == len(caplog.messages)
