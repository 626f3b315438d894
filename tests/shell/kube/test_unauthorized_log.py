"""What is said while the API server does not know this node: once, then once a minute, and that it knows it again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.kube.unauthorized_log import UnauthorizedLog
from trikubelet.model.api_errors import Unauthorized

if TYPE_CHECKING:
    from trio.testing import MockClock


@pytest.fixture(autouse=True)
def everything_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """The end of it is said quietly."""
    caplog.set_level(logging.INFO)


async def test_it_is_said_once_a_minute_and_how_it_ended(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    unauthorized_log = UnauthorizedLog()
    unauthorized_log.accepted()
    for number in range(121):
        unauthorized_log.rejected(Unauthorized("no"), f"Shown: {number}")
        await trio.sleep(1)
    unauthorized_log.accepted()
    unauthorized_log.accepted()

    assert [
        *(f"The API server answers, but does not know this node (no). Shown: {number}" for number in (0, 60, 120)),
        "The API server knows this node again, after 121 s and 121 requests",
    ] == caplog.messages


async def test_coming_and_going_is_said_twice_a_minute_at_most(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    unauthorized_log = UnauthorizedLog()
    for _ in range(60):
        unauthorized_log.rejected(Unauthorized("no"), "Shown: this")
        unauthorized_log.accepted()
        await trio.sleep(1)

    assert [
        "The API server answers, but does not know this node (no). Shown: this",
        "The API server knows this node again, after 0 s and 1 requests",
    ] == caplog.messages
