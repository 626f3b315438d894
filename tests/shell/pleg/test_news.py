"""What wakes a pod's worker: a start or death that a list tells, and a second look that shows something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.pleg.test_pleg import CREATED, EXITED, RUNNING, Shelf, watching
from trikubelet.kit.instant import instant
from trikubelet.model.runtime import ContainerStatus, HeldResources, PodObservation
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.pleg.cache import PodCache
from trikubelet.testing.replies import container_reply

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.model.runtime import Undecoded


@pytest.mark.parametrize(("stays", "woken"), [(True, ["a"]), (False, [])])
async def test_a_second_look_wakes_if_it_shows_something_else(
    stays: bool, woken: list[str], autojump_clock: MockClock
) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        shelf.gates = {"slow": trio.Event(), "late": trio.Event()}
        shelf.containers["a"]["slow"] = CREATED
        await trio.sleep(1.1)
        shelf.containers["a"]["late"] = CREATED  # while the pod is inspected without it
        asked = instant()
        await trio.sleep(1.1)
        shelf.gates["slow"].set()
        await trio.testing.wait_all_tasks_blocked()  # now it is inspected again, with it
        if not stays:
            del shelf.containers["a"]["late"]
        shelf.gates["late"].set()

        assert {"c", "slow", "late"} - (set() if stays else {"late"}) == {
            c.id for c in (await watch.cache.newer_than("a", asked)).containers
        }
        assert woken == await watch.wakes()


async def test_change_outside_of_lists_is_seen_by_an_inspection(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        shelf.resources = HeldResources(100_000, 10_000, 102)
        watch.pleg.request_relist("a")
        await trio.sleep(5)
        assert (None, []) == (watch.cache.get("a").containers[0].resources, await watch.wakes())
        watch.pleg.request_inspection("a")
        await trio.sleep(0.1)
        assert (shelf.resources, ["a"]) == (watch.cache.get("a").containers[0].resources, await watch.wakes())
        watch.pleg.request_inspection("a")
        await trio.sleep(0.1)

        assert [] == await watch.wakes()


async def test_an_inspection_that_had_begun_before_it_was_asked_for_does_not_answer(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        shelf.gates["c"] = trio.Event()
        watch.pleg.request_inspection("a")
        await trio.sleep(0.1)
        seen = len(shelf.inspected)
        watch.pleg.request_inspection("a")
        shelf.gates.pop("c").set()
        await trio.sleep(0.1)

        assert seen + 1 == len(shelf.inspected)
        await trio.sleep(5)
        assert seen + 1 == len(shelf.inspected)


async def test_a_death_is_reported_with_the_list_that_tells_it_even_if_the_cache_knew(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dead(id_: str) -> Undecoded[ContainerStatus]:
        return container_reply(ContainerStatus(id_, id_, 0, EXITED, 1), shelf.chance)

    shelf = Shelf()
    shelf.containers = {"a": {"c": CREATED}}
    monkeypatch.setattr(shelf, "container_status", dead)  # it has started and died since it was listed
    async with watching(shelf) as watch:
        assert [] == await watch.wakes()
        assert {"c": EXITED} == watch.states("a")
        shelf.containers["a"]["c"] = EXITED
        await trio.sleep(1)

        assert ["a"] == await watch.wakes()
        assert ["a"] == await watch.deaths()


async def test_the_same_again_after_an_error_is_news(autojump_clock: MockClock) -> None:
    cache = PodCache()
    assert cache.put(PodObservation("a", name="web", observed_at=1.0))
    assert not cache.put(PodObservation("a", name="web", observed_at=2.0))
    cache.put_error("a", 3.0, RuntimeFailure("broken"))

    assert cache.put(PodObservation("a", name="web", observed_at=4.0))
    assert not cache.put(PodObservation("a", name="web", observed_at=5.0))


async def test_an_observation_that_lost_a_race_is_no_news(autojump_clock: MockClock) -> None:
    cache = PodCache()
    cache.put(PodObservation("a", name="web", observed_at=2.0))

    assert not cache.put(PodObservation("a", name="another", observed_at=1.0))


async def test_nothing_where_nothing_was_known_is_no_news(autojump_clock: MockClock) -> None:
    assert not PodCache().put(PodObservation("a", observed_at=1.0))
