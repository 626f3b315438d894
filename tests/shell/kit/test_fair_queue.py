"""What waits by owner: whose turn it is, what goes where there is too much, and places that are given so."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from trikubelet.kit.fair_queue import Crowded, FairPlaces, FairQueue

if TYPE_CHECKING:
    from trio.testing import MockClock


def queue(*items: str) -> FairQueue[str]:
    """Items of which the first letter is the owner."""
    made: FairQueue[str] = FairQueue()
    for item in items:
        made.add(item[0], item)
    return made


def test_each_owner_has_a_turn_and_within_one_it_goes_by_age() -> None:
    waiting = queue("a1", "a2", "a3", "b1", "c1", "b2")

    assert ["a1", "b1", "c1", "a2", "b2", "a3", None] == [waiting.next_in_turn() for _ in range(7)]


def test_oldest_entry_of_the_largest_owner_is_dropped_first() -> None:
    waiting = queue("a1", "b1", "b2", "c1", "b3")

    assert ["b1", "b2", "a1", "b3", "c1", None] == [waiting.of_the_largest() for _ in range(6)]


def test_what_is_added_twice_is_there_once_and_what_is_not_there_cannot_be_taken_out() -> None:
    waiting = queue("a1", "a1")

    assert (1, False, False) == (len(waiting), waiting.discard("a", "a2"), waiting.discard("b", "a1"))
    assert (True, False, 0) == (waiting.discard("a", "a1"), waiting.discard("a", "a1"), len(waiting))


@given(st.lists(st.tuples(st.sampled_from("+-tl"), st.sampled_from("abc"), st.integers(0, 5))))
def test_it_holds_what_was_put_in_and_not_taken_out(steps: list[tuple[str, str, int]]) -> None:
    waiting: FairQueue[str] = FairQueue()
    inside: set[str] = set()
    for what, owner, number in steps:
        item = f"{owner}{number}"
        if what == "+":
            waiting.add(owner, item)
            inside.add(item)
        elif what == "-":
            assert (item in inside) == waiting.discard(owner, item)
            inside.discard(item)
        else:
            most = max(Counter(one[0] for one in inside).values(), default=0)
            has = Counter(one[0] for one in inside)
            taken = waiting.next_in_turn() if what == "t" else waiting.of_the_largest()
            assert (taken in inside) if inside else taken is None
            if taken is not None:
                assert what == "t" or has[taken[0]] == most
                inside.discard(taken)
        assert len(inside) == len(waiting)


class Crowd:
    """Those who want a place, and in which order they got one or were sent away."""

    def __init__(self, places: FairPlaces) -> None:
        self.places = places
        self.told: list[str] = []
        self.scopes: dict[str, trio.CancelScope] = {}

    async def wants(self, who: str) -> None:
        with trio.CancelScope() as self.scopes[who]:
            try:
                async with self.places.place(who[0]):
                    self.told.append(who)
                    await trio.sleep(1)
            except Crowded:
                self.told.append(f"not {who}")


async def test_places_are_given_to_owners_in_turn(autojump_clock: MockClock) -> None:
    crowd = Crowd(FairPlaces(1, 10))
    async with trio.open_nursery() as nursery:
        for who in ("a0", "a1", "a2", "a3", "b1", "b2"):
            nursery.start_soon(crowd.wants, who)
            await wait_all_tasks_blocked()

    assert ["a0", "a1", "b1", "a2", "b2", "a3"] == crowd.told
    assert 6 == trio.current_time()


async def test_owner_with_most_waiting_entries_is_rejected(autojump_clock: MockClock) -> None:
    crowd = Crowd(FairPlaces(1, 2))
    async with trio.open_nursery() as nursery:
        for who in ("a0", "a1", "a2", "b1", "a3"):
            nursery.start_soon(crowd.wants, who)
            await wait_all_tasks_blocked()

    assert ["a0", "not a1", "not a2", "a3", "b1"] == crowd.told


async def test_full_queue_without_waiting_room_rejects_at_once(autojump_clock: MockClock) -> None:
    places = FairPlaces(1, 0)
    async with places.place("a"):
        with pytest.raises(Crowded):
            async with places.place("b"):
                pytest.fail("there was none")
    async with places.place("b"):
        assert 0 == trio.current_time()


async def test_waiter_without_a_turn_in_time_is_rejected(
    autojump_clock: MockClock,
) -> None:
    places = FairPlaces(1, 10)
    async with places.place("a"):
        with pytest.raises(Crowded, match="no place became free before the deadline"):
            async with places.place("b", until=5):
                pytest.fail("there was none")
        assert 5 == trio.current_time()
    async with places.place("b", until=5):
        assert 5 == trio.current_time(), "where one is free nobody waits"


async def test_cancelled_waiter_gets_no_place(autojump_clock: MockClock) -> None:
    crowd = Crowd(FairPlaces(1, 10))
    async with trio.open_nursery() as nursery:
        for who in ("a0", "b1", "c1"):
            nursery.start_soon(crowd.wants, who)
            await wait_all_tasks_blocked()
        crowd.scopes["b1"].cancel()

    assert ["a0", "c1"] == crowd.told


async def test_place_given_to_a_cancelled_waiter_goes_to_others(
    autojump_clock: MockClock,
) -> None:
    crowd = Crowd(FairPlaces(1, 10))
    async with trio.open_nursery() as nursery, crowd.places.place("a"):
        for who in ("b1", "c1"):
            nursery.start_soon(crowd.wants, who)
            await wait_all_tasks_blocked()
        crowd.scopes["b1"].cancel()

    assert ["c1"] == crowd.told
