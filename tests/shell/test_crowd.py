"""Who is connected to a server, and who makes room for whom when it is full."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

import trio

from trikubelet.httpd.crowd import Crowd, Place

if TYPE_CHECKING:
    import pytest
    from trio.testing import MockClock


def joins(crowd: Crowd, stack: ExitStack) -> Place:
    place = stack.enter_context(crowd.joined())
    assert place is not None
    return place


async def test_the_stranger_who_has_been_silent_for_longest_goes(autojump_clock: MockClock) -> None:
    crowd = Crowd("a server", 3)
    with ExitStack() as stack:
        first, second, third = (joins(crowd, stack) for _ in range(3))
        first.asks()
        first.was_answered(401)
        first.waits()
        left = []
        for _ in range(3):
            joins(crowd, stack)
            left.append([one.scope.cancel_called for one in (first, second, third)])

        assert [[False, True, False], [False, True, True], [True, True, True]] == left
        assert (3, 3, 0) == (len(crowd), crowd.made_room, crowd.turned_away)
    assert 0 == len(crowd)


async def test_who_is_known_or_being_answered_stays_and_others_find_no_room(autojump_clock: MockClock) -> None:
    crowd = Crowd("a server", 2)
    with ExitStack() as stack:
        known, asking = joins(crowd, stack), joins(crowd, stack)
        for one in (known, asking):
            one.asks()
        known.was_answered(200)
        known.waits()

        assert stack.enter_context(crowd.joined()) is None
        assert (2, 0, 1) == (len(crowd), crowd.made_room, crowd.turned_away)
        asking.was_answered(403)
        asking.waits()
        joins(crowd, stack)
        assert asking.scope.cancel_called


async def test_the_log_is_told_once_a_minute(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    crowd = Crowd("a server", 1)
    with caplog.at_level(logging.WARNING), ExitStack() as stack:
        for _ in range(3):
            joins(crowd, stack)
        await trio.sleep(61)
        joins(crowd, stack)

    told = "a server: 1 connections are as many as there may be; idle unauthenticated ones are closed for others"
    assert [told, told] == caplog.messages
