"""What is made of a server that did not do what it was asked: an outage, a no, or neither."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kit.outage import Outage
from trikubelet.model.api_errors import (
    ApiBusy,
    ApiError,
    ApiFailure,
    ApiLost,
    ApiUnreachable,
    Conflict,
    Forbidden,
    Invalid,
    NothingToShow,
    ObjectExists,
    ObjectMissing,
    Refused,
    Unauthorized,
)
from trikubelet.ports.request_outcomes import RequestOutcomes

if TYPE_CHECKING:
    from trio.testing import MockClock


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("is unreachable", ApiUnreachable),
        ("is unreachable", ApiLost),
        ("is unreachable", trio.TooSlowError),
        ("answers with errors", ApiBusy),
        ("answers with errors", ApiFailure),
    ],
)
async def test_a_server_that_is_away_or_fails_is_an_outage_of_its_kind(
    how: str, kind: type[ApiError], autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage("API server")

    assert RequestOutcomes("asking", outage).failed(kind("x"))
    assert 0 == outage.since
    assert 1 == len(caplog.messages)
    assert caplog.messages[0].startswith(f"API server {how}: asking: ")


@pytest.mark.parametrize("kind", [Forbidden, Invalid, Refused])
async def test_a_no_ends_an_outage_and_is_said_once_a_minute(
    kind: type[ApiError], autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage("API server")
    outcomes = RequestOutcomes("asking", outage)
    outcomes.failed(ApiLost("x"))
    caplog.clear()
    for _ in range(120):
        assert not outcomes.failed(kind("not you"))
        await trio.sleep(1)

    assert outage.since is None
    assert ["The API server refuses asking: not you; retrying until it accepts"] * 2 == caplog.messages


@pytest.mark.parametrize("kind", [Conflict, ObjectExists, ObjectMissing])
async def test_a_race_that_was_lost_ends_an_outage_and_is_said_once_it_is_lost_twice_in_a_row(
    kind: type[ApiError], autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage("API server")
    outcomes = RequestOutcomes("asking", outage)
    for _ in range(120):
        outcomes.failed(ApiLost("x"))
        caplog.clear()
        assert not outcomes.failed(kind("too late"))
        assert ([], None) == (caplog.messages, outage.since)
        outcomes.failed(kind("too late"))
        caplog.clear()
        outcomes.worked()
        outcomes.failed(kind("too late"))
        assert [] == caplog.messages
        await trio.sleep(60)
    outcomes.failed(kind("too late again"))

    assert ["The API server refuses asking: too late again; retrying until it accepts"] == caplog.messages


async def test_what_to_show_is_our_own_problem_and_a_server_that_does_not_know_it_is_there(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    outage = Outage("API server")
    outcomes = RequestOutcomes("asking", outage)
    outcomes.failed(ApiLost("x"))
    await trio.sleep(7)
    caplog.clear()

    assert outcomes.failed(NothingToShow("no token"))
    assert not outcomes.failed(Unauthorized("Unauthorized"))
    assert outage.since is None
    outage.worked()
    assert [
        "Cannot reach API server because of a local failure: asking: no token",
        "API server is back after 7 s and 1 failures",
    ] == caplog.messages
