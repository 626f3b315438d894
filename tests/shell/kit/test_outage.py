"""What is said of something that is away: on virtual time, so that minutes can be told apart."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kit.answered_failure import AnsweredFailure
from trikubelet.kit.local_failure import LocalFailure
from trikubelet.kit.outage import Outage

if TYPE_CHECKING:
    from trio.testing import MockClock


@pytest.fixture(autouse=True)
def everything_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """Back is said quietly."""
    caplog.set_level(logging.INFO)


async def test_the_first_failure_and_the_first_success_are_said(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage("server")

    outage.worked()
    assert [] == caplog.messages
    outage.failed("asking", OSError("no"))
    assert 0 == outage.since
    await trio.sleep(7)
    outage.failed("asking", OSError("no"))
    outage.worked()
    outage.worked()

    assert ["server is unreachable: asking: no", "server is back after 7 s and 2 failures"] == caplog.messages
    assert outage.since is None


async def test_a_long_outage_is_said_once_a_minute(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage("server")

    for _ in range(600):
        outage.failed("asking", OSError("no"))
        await trio.sleep(1)

    assert 10 == len(caplog.messages)
    assert "server is unreachable for 540 s, 541 failures; the last: asking: no" == caplog.messages[-1]


async def test_errors_that_it_answers_with_are_said_as_such(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage("server")

    outage.failed("asking", AnsweredFailure("no"))
    await trio.sleep(60)
    outage.failed("asking", AnsweredFailure("no"))
    await trio.sleep(60)
    outage.failed("asking", OSError("no"))

    assert [
        "server answers with errors: asking: no",
        "server answers with errors for 60 s, 2 failures; the last: asking: no",
        "server is unreachable for 120 s, 3 failures; the last: asking: no",
    ] == caplog.messages


async def test_coming_and_going_is_said_twice_a_minute_at_most(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage("server")

    for _ in range(600):
        outage.failed("asking", OSError("no"))
        outage.worked()
        await trio.sleep(1)

    assert 20 == len(caplog.messages)


async def test_waiter_is_notified_of_the_first_success_after_a_failure(autojump_clock: MockClock) -> None:
    outage, told = Outage("server"), []
    with outage.listening(lambda: told.append(outage.since)):
        outage.worked()
        assert [] == told
        outage.failed("asking", OSError("no"))
        outage.failed("asking", OSError("no"))
        outage.worked()
        outage.worked()
        assert [None] == told

    outage.failed("asking", OSError("no"))
    outage.worked()
    assert [None] == told


async def test_a_deadline_that_has_passed_is_said_in_words(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage("server")
    try:
        with trio.fail_after(1):
            await trio.sleep_forever()
    except trio.TooSlowError as error:
        outage.failed("asking", error)

    assert ["server is unreachable: asking: no answer in time"] == caplog.messages


async def test_local_failure_is_said_as_that_and_is_no_outage(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage("server")
    returns: list[float] = []
    with outage.listening(lambda: returns.append(trio.current_time())):
        for _ in range(90):
            outage.failed("asking", LocalFailure("no more files"))
            await trio.sleep(1)
        assert outage.since is None
        outage.worked()

    assert 2 * ["Cannot reach server because of a local failure: asking: no more files"] == caplog.messages
    assert [] == returns
