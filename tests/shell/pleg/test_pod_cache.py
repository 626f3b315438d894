"""PodCache: what counts as newer, and who waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.model.runtime import ContainerState, ContainerStatus, PodObservation
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.pleg.cache import PodCache

if TYPE_CHECKING:
    from trio.testing import MockClock


def seen(uid: str, at: float, *names: str) -> PodObservation:
    containers = tuple(ContainerStatus(name, name, 0, ContainerState.RUNNING, 0) for name in names)
    return PodObservation(uid, containers=containers, observed_at=at)


async def is_ready(cache: PodCache, uid: str, time: float) -> bool:
    with trio.move_on_after(1) as scope:
        await cache.newer_than(uid, time)
    return not scope.cancelled_caught


async def test_an_unknown_pod_is_empty_and_a_list_speaks_for_it(autojump_clock: MockClock) -> None:
    cache = PodCache()
    assert PodObservation("a") == cache.get("a")
    assert not await is_ready(cache, "a", 0.0)
    cache.listed(1.0, ())

    assert PodObservation("a", observed_at=1.0) == await cache.newer_than("a", 0.0)


@pytest.mark.parametrize(("time", "newer"), [(0.9, True), (1.0, False), (1.1, False)])
async def test_newer_means_strictly_later(time: float, newer: bool, autojump_clock: MockClock) -> None:
    listed, put = PodCache(), PodCache()
    listed.listed(1.0, ())
    put.put(seen("a", 1.0, "c"))

    assert newer is await is_ready(listed, "a", time)
    assert newer is await is_ready(put, "a", time)


async def test_a_list_does_not_speak_for_a_pod_under_inspection(autojump_clock: MockClock) -> None:
    cache = PodCache()
    cache.put(seen("a", 1.0, "c"))
    cache.listed(2.0, {"a"})
    assert not await is_ready(cache, "a", 1.5)
    cache.put(seen("a", 1.2, "c"), is_newest=False)
    assert not await is_ready(cache, "a", 1.5)
    cache.put(seen("a", 2.0, "c", "d"))

    assert 2 == len((await cache.newer_than("a", 1.5)).containers)


async def test_an_older_observation_does_not_replace_a_newer_one(autojump_clock: MockClock) -> None:
    cache = PodCache()
    cache.put(seen("a", 2.0, "new"))
    cache.put(seen("a", 1.0, "old"))

    assert ["new"] == [c.name for c in cache.get("a").containers]


async def test_a_failed_inspection_is_raised_and_keeps_what_was_known(autojump_clock: MockClock) -> None:
    cache = PodCache()
    cache.put(seen("a", 1.0, "c"))
    cache.put_error("a", 2.0, RuntimeFailure("broken"))
    with pytest.raises(RuntimeFailure, match="broken"):
        await cache.newer_than("a", 1.5)
    assert ["c"] == [c.name for c in cache.get("a").containers]
    cache.put(seen("a", 3.0, "c"))

    assert 3.0 == (await cache.newer_than("a", 1.5)).observed_at


async def test_the_error_of_an_inspection_begun_before_is_not_raised_whatever_was_listed_since(
    autojump_clock: MockClock,
) -> None:
    cache = PodCache()
    cache.listed(3.0, {"a"})
    cache.put_error("a", 1.0, RuntimeFailure("broken"))
    assert not await is_ready(cache, "a", 2.0)
    cache.put(seen("a", 4.0, "c"))

    assert 4.0 == (await cache.newer_than("a", 2.0)).observed_at


async def test_only_waiters_of_an_observed_pod_are_woken(autojump_clock: MockClock) -> None:
    cache = PodCache()
    got: list[str] = []

    async def wait(uid: str) -> None:
        await cache.newer_than(uid, 1.0)
        got.append(uid)

    async with trio.open_nursery() as nursery:
        for uid in ("a", "a", "b"):
            nursery.start_soon(wait, uid)
        await trio.testing.wait_all_tasks_blocked()
        cache.put(seen("a", 2.0, "c"))
        await trio.testing.wait_all_tasks_blocked()
        assert ["a", "a"] == got
        assert "1 awaited" in repr(cache)
        cache.listed(3.0, ())

    assert ["a", "a", "b"] == got


async def test_a_pod_of_which_nothing_is_left_takes_memory_until_the_next_list(autojump_clock: MockClock) -> None:
    cache = PodCache()
    cache.put(seen("a", 1.0, "c"))
    cache.put(seen("a", 2.0))
    assert 2.0 == (await cache.newer_than("a", 1.5)).observed_at
    assert 1 == len(cache)
    cache.listed(3.0, ())

    assert 0 == len(cache)
    assert [] == list(cache)


async def test_a_pod_that_came_back_before_the_next_list_stays(autojump_clock: MockClock) -> None:
    cache = PodCache()
    cache.put(seen("a", 1.0))
    cache.put(seen("a", 2.0, "c"))
    cache.listed(3.0, ())

    assert ["c"] == [c.name for c in cache.get("a").containers]
