"""Who is connected to a server, and who makes room for whom when it is full."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

import trio

from trikubelet.httpd.connection_limit import ConnectionLimit, ConnectionSlot

if TYPE_CHECKING:
    import pytest
    from trio.testing import MockClock


def joins(limit: ConnectionLimit, stack: ExitStack) -> ConnectionSlot:
    slot = stack.enter_context(limit.slot())
    assert slot is not None
    return slot


async def test_the_stranger_who_has_been_silent_for_longest_goes(autojump_clock: MockClock) -> None:
    limit = ConnectionLimit("a server", 3)
    with ExitStack() as stack:
        first, second, third = (joins(limit, stack) for _ in range(3))
        first.asks()
        first.was_answered(401)
        first.waits()
        left = []
        for _ in range(3):
            joins(limit, stack)
            left.append([one.scope.cancel_called for one in (first, second, third)])

        assert [[False, True, False], [False, True, True], [True, True, True]] == left
        assert (3, 3, 0) == (len(limit), limit.made_room, limit.turned_away)
    assert 0 == len(limit)


async def test_who_is_known_or_being_answered_stays_and_others_find_no_room(autojump_clock: MockClock) -> None:
    limit = ConnectionLimit("a server", 2)
    with ExitStack() as stack:
        known, asking = joins(limit, stack), joins(limit, stack)
        for one in (known, asking):
            one.asks()
        known.was_answered(200)
        known.waits()

        assert stack.enter_context(limit.slot()) is None
        assert (2, 0, 1) == (len(limit), limit.made_room, limit.turned_away)
        asking.was_answered(403)
        asking.waits()
        joins(limit, stack)
        assert asking.scope.cancel_called


async def test_the_log_is_reported_once_a_minute(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    limit = ConnectionLimit("a server", 1)
    with caplog.at_level(logging.WARNING), ExitStack() as stack:
        for _ in range(3):
            joins(limit, stack)
        await trio.sleep(61)
        joins(limit, stack)

    told = "a server: 1 connections are as many as there may be; idle unauthenticated ones are closed for others"
    assert [told, told] == caplog.messages
