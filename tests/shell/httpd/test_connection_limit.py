"""Who is connected to a server, and who makes room for whom when it is full."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.httpd.connection_limit import ConnectionLimit, ConnectionSlot

if TYPE_CHECKING:
    from trio.testing import MockClock


def joins(limit: ConnectionLimit, stack: ExitStack, network: str = "") -> ConnectionSlot:
    slot = stack.enter_context(limit.slot(network))
    assert slot is not None
    return slot


def closed(*slots: ConnectionSlot) -> list[bool]:
    return [one.scope.cancel_called for one in slots]


@pytest.mark.parametrize("needs_proof", [True, False])
async def test_unauthenticated_connections_are_closed_and_others_wait(
    autojump_clock: MockClock, needs_proof: bool
) -> None:
    limit = ConnectionLimit("a server", 3, needs_proof=needs_proof)
    with ExitStack() as stack:
        known, *others = (joins(limit, stack) for _ in range(3))
        known.asks()
        known.admit(for_good=True)
        known.was_answered(404)
        known.waits()
        for leaves in others:
            joins(limit, stack).admit(for_good=True)
            assert leaves.scope.cancel_called

        assert stack.enter_context(limit.slot()) is None
        assert [False] == closed(known)
        assert (3, 2, 1) == (len(limit), limit.made_room, limit.turned_away)
    assert 0 == len(limit)


async def test_clients_with_unreviewed_tokens_are_closed_oldest_first(
    autojump_clock: MockClock,
) -> None:
    limit = ConnectionLimit("a server", 3, needs_proof=True)
    with ExitStack() as stack:
        first, second, silent = (joins(limit, stack) for _ in range(3))
        second.asks()
        first.asks()
        left = []
        for _ in range(3):
            joins(limit, stack)
            left.append(closed(first, second, silent))

        assert [[True, False, False], [True, True, False], [True, True, True]] == left
        assert (3, 3, 0) == (len(limit), limit.made_room, limit.turned_away)


async def test_client_admitted_for_one_answer_stays_until_its_end(autojump_clock: MockClock) -> None:
    limit = ConnectionLimit("a server", 1, needs_proof=True)
    with ExitStack() as stack:
        anonymous = joins(limit, stack)
        anonymous.asks()
        anonymous.admit(for_good=False)
        anonymous.was_answered(200)
        assert stack.enter_context(limit.slot()) is None
        anonymous.waits()
        joins(limit, stack)

        assert [True] == closed(anonymous)


async def test_answered_clients_stay_where_no_credentials_are_required(
    autojump_clock: MockClock,
) -> None:
    limit = ConnectionLimit("a server", 2)
    with ExitStack() as stack:
        served, refused = joins(limit, stack), joins(limit, stack)
        for one in (served, refused):
            one.asks()
        assert stack.enter_context(limit.slot()) is None
        served.was_answered(200)
        refused.was_answered(403)
        for one in (served, refused):
            one.waits()
        joins(limit, stack)

        assert [False, True] == closed(served, refused)


async def test_reconnecting_client_closes_its_own_connections(autojump_clock: MockClock) -> None:
    limit = ConnectionLimit("a server", 3, needs_proof=True)
    with ExitStack() as stack:
        early, *_ = joins(limit, stack, "a"), joins(limit, stack, "b"), joins(limit, stack, "b")
        for _ in range(10):
            joins(limit, stack, "b")

        assert [False] == closed(early)
        assert 10 == limit.made_room


async def test_closed_connection_makes_room_by_itself(autojump_clock: MockClock) -> None:
    limit = ConnectionLimit("a server", 1)
    with limit.slot():
        pass
    with ExitStack() as stack:
        first = joins(limit, stack)
        joins(limit, stack)

        assert ([True], 1) == (closed(first), limit.made_room)


async def test_connection_closed_during_its_answer_is_not_chosen_again(autojump_clock: MockClock) -> None:
    limit = ConnectionLimit("a server", 1, needs_proof=True)
    with ExitStack() as stack:
        leaves = joins(limit, stack)
        leaves.asks()
        joins(limit, stack).admit(for_good=True)
        leaves.waits()

        assert stack.enter_context(limit.slot()) is None


async def test_the_log_is_reported_once_a_minute(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    limit = ConnectionLimit("a server", 1)
    with caplog.at_level(logging.WARNING), ExitStack() as stack:
        for _ in range(3):
            joins(limit, stack)
        await trio.sleep(61)
        joins(limit, stack)

    told = "a server: 1 connections are as many as there may be; unauthenticated ones are closed for others"
    assert [told, told] == caplog.messages
