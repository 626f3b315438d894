"""PLEG: which pods it wakes, what it puts into the cache, and that no list or inspection has the wrong last word."""

from __future__ import annotations

import math
import random
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.core.names import container_labels, pod_labels
from trikubelet.core.relist import Relist
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.kit.gather import Gather
from trikubelet.kit.instant import instant
from trikubelet.kit.klog import level
from trikubelet.model.bounds import Bounds
from trikubelet.model.runtime import ContainerState, ContainerStatus, HeldResources, SandboxState, SandboxStatus
from trikubelet.model.runtime_errors import NotFound, NotImplementedByRuntime, RuntimeFailure, RuntimeUnavailable
from trikubelet.pleg.cache import PodCache
from trikubelet.pleg.pleg import Pleg
from trikubelet.pleg.problem_reports import EVENTS_MAX, KINDS_MAX, REMEDY
from trikubelet.status.recorder import EventRecorder
from trikubelet.testing.builders import pod
from trikubelet.testing.memory_host import VirtualClock
from trikubelet.testing.replies import container_reply, sandbox_reply
from trikubelet.testing.side_by_side import statuses_side_by_side

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from trio.testing import MockClock

    from trikubelet.model.runtime import Undecoded

RUNNING, EXITED, CREATED, UNKNOWN = (
    ContainerState.RUNNING,
    ContainerState.EXITED,
    ContainerState.CREATED,
    ContainerState.UNKNOWN,
)
READY, NOTREADY = SandboxState.READY, SandboxState.NOTREADY
BOUNDS = Bounds(runtime_call_seconds_max=30)


class Shelf:
    """A runtime that has what a test puts on it: UID → id → state. Calls can be told to fail or to wait."""

    def __init__(self) -> None:
        self.chance = random.Random(0)
        self.containers: dict[str, dict[str, ContainerState]] = {}
        self.sandboxes: dict[str, dict[str, tuple[SandboxState, tuple[str, ...]]]] = {}
        self.failing: set[str] = set()
        self.gates: dict[str, trio.Event] = {}
        self.inspected: list[str] = []
        self.listed: list[str | None] = []
        self.lists_fail = False
        self.unlabelled: set[str] = set()
        self.resources: HeldResources | None = None

    async def _pass(self, what: str) -> None:
        if what in self.gates:
            await self.gates[what].wait()
        await trio.lowlevel.checkpoint()
        if what in self.failing:
            raise RuntimeFailure(f"no {what}")

    async def wait_connected(self) -> None:
        await trio.lowlevel.checkpoint()
        if "connection" in self.gates:
            await self.gates["connection"].wait()

    async def list_sandboxes(self, uid: str | None = None) -> Sequence[bytes]:
        await self.wait_connected()
        if self.lists_fail:
            raise RuntimeUnavailable("nobody there")
        self.listed.append(uid)
        items = [
            pb.PodSandbox(
                id=id_,
                state=state.value,
                labels={} if id_ in self.unlabelled else pod_labels(pod(u, uid=u)),  # type: ignore[arg-type]
                metadata=pb.PodSandboxMetadata(name=u, uid=u, namespace="default"),
            )
            for u, boxes in self.sandboxes.items()
            if uid in (None, u)
            for id_, (state, _) in boxes.items()
            if uid is None or id_ not in self.unlabelled  # runtimes look at the label alone
        ]
        return [pb.ListPodSandboxResponse(items=items).SerializeToString()]

    async def list_containers(self, uid: str | None = None) -> Sequence[bytes]:
        items = [
            pb.Container(
                id=id_,
                state=state.value,
                pod_sandbox_id=next(iter(self.sandboxes.get(u, ())), ""),
                labels={} if id_ in self.unlabelled else container_labels(pod(u, uid=u), id_),  # type: ignore[arg-type]
                metadata=pb.ContainerMetadata(name=id_),
            )
            for u, states in self.containers.items()
            if uid in (None, u)
            for id_, state in states.items()
            if uid is None or id_ not in self.unlabelled
        ]
        reply = [pb.ListContainersResponse(containers=items).SerializeToString()]
        await self._pass(f"list {uid}" if uid else "list")
        return reply

    async def sandbox_status(self, id_: str) -> Undecoded[SandboxStatus]:
        self.inspected.append(id_)
        await self._pass(id_)
        for uid, boxes in self.sandboxes.items():
            if id_ in boxes:
                state, ips = boxes[id_]
                return sandbox_reply(SandboxStatus(id_, uid, uid, "default", 0, state, 1, ips), self.chance)
        raise NotFound(id_)

    async def container_status(self, id_: str) -> Undecoded[ContainerStatus]:
        self.inspected.append(id_)
        await self._pass(id_)
        for states in self.containers.values():
            if id_ in states:
                status = ContainerStatus(id_, id_, 0, states[id_], 1, resources=self.resources)
                return container_reply(status, self.chance)
        raise NotFound(id_)

    statuses = statuses_side_by_side

    @asynccontextmanager
    async def events(self) -> AsyncIterator[object]:
        raise NotImplementedByRuntime("no events")
        yield


def sandbox_list(id_: str) -> bytes:
    """A list that has a sandbox of that id twice."""
    one = pb.PodSandbox(id=id_, metadata=pb.PodSandboxMetadata(name="a", uid="a", namespace="default"))
    return pb.ListPodSandboxResponse(items=[one, one]).SerializeToString()


class Watch:
    """A PLEG at work, and what it told whom."""

    def __init__(self, shelf: Shelf, bounds: Bounds) -> None:
        self.cache = PodCache()
        self.woken: Gather[str] = Gather()
        self.died: Gather[str] = Gather()
        self.events = EventRecorder(VirtualClock(), events_kept_max=100)
        to = (self.cache, self.woken, self.died)
        self.pleg = Pleg(shelf, *to, bounds, events=self.events)  # type: ignore[arg-type]

    async def wakes(self) -> list[str]:
        """Return the pods that were woken since the last call."""
        await trio.testing.wait_all_tasks_blocked()
        return sorted(await self.woken.collect()) if self.woken else []

    async def deaths(self) -> list[str]:
        """In whom something died since last asked."""
        await trio.testing.wait_all_tasks_blocked()
        return sorted(await self.died.collect()) if self.died else []

    def states(self, uid: str) -> dict[str, ContainerState]:
        """Return the cached state of a pod's containers."""
        return {c.id: c.state for c in self.cache.get(uid).containers}


@asynccontextmanager
async def watching(shelf: Shelf, bounds: Bounds = BOUNDS) -> AsyncIterator[Watch]:
    watch = Watch(shelf, bounds)
    async with trio.open_nursery() as nursery:
        await nursery.start(watch.pleg.run)
        yield watch
        nursery.cancel_scope.cancel()


# ---- what a list leads to ----


async def test_start_and_death_wake_a_pod_and_no_change_wakes_none(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {
        "1234": {"c1": EXITED, "c2": RUNNING, "c3": UNKNOWN},
        "4567": {"c1b": EXITED},
        "9": {"c": CREATED},
    }
    async with watching(shelf) as watch:
        assert ["1234", "4567"] == await watch.wakes()
        assert ["1234", "4567"] == await watch.deaths()
        await trio.sleep(5)
        assert [] == await watch.wakes()
        shelf.containers = {"1234": {"c2": EXITED, "c3": RUNNING}, "4567": {"c4": RUNNING}, "9": {"c": CREATED}}
        await trio.sleep(1)
        assert ["1234", "4567"] == await watch.wakes()
        assert ["1234"] == await watch.deaths()

        assert {"c2": EXITED, "c3": RUNNING} == watch.states("1234")


async def test_sandboxes_count_like_containers(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.sandboxes = {"a": {"s1": (READY, ("10.0.0.1",))}}
    async with watching(shelf) as watch:
        assert ["a"] == await watch.wakes()
        shelf.sandboxes["a"]["s1"] = (NOTREADY, ())
        await trio.sleep(1)

        assert ["a"] == await watch.deaths()


@pytest.mark.parametrize(("before", "dies"), [(RUNNING, True), (EXITED, False)])
async def test_what_vanished_died_if_it_was_alive(
    before: ContainerState, dies: bool, autojump_clock: MockClock
) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": before}}
    async with watching(shelf) as watch:
        await watch.wakes()
        await watch.deaths()
        await trio.sleep(3)
        shelf.containers = {}
        await trio.sleep(1)

        assert (["a"] if dies else []) == await watch.wakes()
        assert {} == watch.states("a")


async def test_a_pod_that_is_gone_leaves_the_cache(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {f"p{n}": {f"c{n}": EXITED} for n in range(20)}
    async with watching(shelf) as watch:
        await watch.wakes()
        assert 20 == len(watch.cache)
        shelf.containers = {}
        await trio.sleep(5)

        assert 0 == len(watch.cache)
        assert not watch.pleg.may_have("p1")


async def test_a_failed_inspection_is_reported_and_repeated_until_it_succeeds(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"one": {"c1": RUNNING}, "two": {"c2": RUNNING}}
    shelf.failing = {"c2"}
    async with watching(shelf) as watch:
        assert ["one"] == await watch.wakes()
        with pytest.raises(RuntimeFailure, match="no c2"):
            await watch.cache.newer_than("two", -math.inf)
        shelf.inspected.clear()
        shelf.failing.clear()
        await trio.sleep(1)

        assert ["two"] == await watch.wakes()
        assert {"c2": RUNNING} == watch.states("two")
        assert ["c2"] == shelf.inspected


async def test_a_repeated_inspection_without_news_wakes_the_pod_once(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        shelf.containers["a"]["new"] = CREATED  # a change to look at, and no event
        shelf.failing = {"c"}
        watch.pleg.request_relist("a")
        await trio.sleep(0.5)
        assert [] == await watch.wakes()
        shelf.failing.clear()
        await trio.sleep(1)
        assert ["a"] == await watch.wakes()
        await trio.sleep(5)

        assert [] == await watch.wakes()


async def test_what_vanishes_between_list_and_inspection_is_left_out(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING, "gone": RUNNING}}
    shelf.gates["gone"] = trio.Event()
    async with watching(shelf) as watch:
        await trio.testing.wait_all_tasks_blocked()
        del shelf.containers["a"]["gone"]
        shelf.gates["gone"].set()
        await watch.wakes()

        assert {"c": RUNNING} == watch.states("a")


@pytest.mark.parametrize("ips", [("10.0.0.1",), ("10.0.0.1", "fd00::1")])
async def test_a_pod_that_has_just_stopped_still_says_where_it_was(
    ips: tuple[str, ...], autojump_clock: MockClock
) -> None:
    shelf = Shelf()
    shelf.sandboxes, shelf.containers = {"a": {"s": (READY, ips)}}, {"a": {"c": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        shelf.sandboxes["a"]["s"] = (NOTREADY, ())
        shelf.containers["a"]["c"] = EXITED
        await trio.sleep(1)
        await watch.wakes()

        assert ips == watch.cache.get("a").ips


async def test_hung_pod_delays_only_itself(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"hung": {"h": RUNNING}, **{f"p{n}": {f"c{n}": RUNNING} for n in range(50)}}
    shelf.gates["h"] = trio.Event()
    async with watching(shelf) as watch:
        assert 50 == len(await watch.wakes())
        for _ in range(3):
            await trio.sleep(1)
            await watch.cache.newer_than("p1", trio.current_time() - 1.5)
        with trio.move_on_after(5) as scope:
            await watch.cache.newer_than("hung", -math.inf)
        assert scope.cancelled_caught
        shelf.gates["h"].set()

        assert {"h": RUNNING} == {c.id: c.state for c in (await watch.cache.newer_than("hung", -math.inf)).containers}


async def test_an_inspection_that_hangs_is_given_up_in_the_end(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"hung": {"h": RUNNING}}
    shelf.gates["h"] = trio.Event()
    async with watching(shelf) as watch:
        with pytest.raises(trio.TooSlowError):
            await watch.cache.newer_than("hung", -math.inf)

        assert 30 <= trio.current_time() < 31


async def test_pods_that_hang_give_their_places_to_others(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {f"p{n}": {f"c{n}": RUNNING} for n in range(7)}
    shelf.gates = {f"c{n}": trio.Event() for n in range(3)}
    bounds = Bounds(inspections_max=3, inspection_hung_seconds=10, runtime_call_seconds_max=30)
    async with watching(shelf, bounds) as watch:
        await trio.sleep(9)
        assert [] == await watch.wakes()
        await trio.sleep(2)
        assert ["p3", "p4", "p5", "p6"] == await watch.wakes()
        assert (3, 0) == (watch.pleg.figures().inspections_running, watch.pleg.figures().inspections_waiting)
        assert 11 == watch.pleg.figures().oldest_inspection_seconds
        assert "cannot inspect default/p0 (11s: no answer yet), default/p1 (11s: " in (watch.pleg.remark() or "")


async def test_a_pod_that_was_asked_for_is_inspected_before_those_that_only_changed(
    autojump_clock: MockClock,
) -> None:
    shelf = Shelf()
    shelf.containers = {f"p{n}": {f"c{n}": RUNNING} for n in range(4)}
    shelf.gates = {"c0": trio.Event()}
    async with watching(shelf, Bounds(inspections_max=1)) as watch:
        await trio.testing.wait_all_tasks_blocked()
        watch.pleg.request_relist("p3")
        await trio.testing.wait_all_tasks_blocked()
        shelf.gates["c0"].set()
        await trio.testing.wait_all_tasks_blocked()

        assert ["c0", "c3", "c1", "c2"] == shelf.inspected


async def test_a_hundred_pods_are_seen_after_the_latency_of_four_calls_and_the_first_after_one(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Shelf._pass

    async def slow(self: Shelf, what: str) -> None:
        await trio.sleep(0 if what.startswith("list") else 0.05)
        await honest(self, what)

    monkeypatch.setattr(Shelf, "_pass", slow)
    shelf = Shelf()
    async with watching(shelf) as watch:
        shelf.sandboxes = {f"p{n}": {f"s{n}": (READY, ())} for n in range(100)}
        shelf.containers = {f"p{n}": {f"c{n}": RUNNING, f"d{n}": RUNNING} for n in range(100)}
        await trio.sleep(1.04)
        assert 0 == len(watch.cache)
        await trio.sleep(0.02)
        assert 32 == len(watch.cache)
        await trio.sleep(0.15)

        assert 100 == len(watch.cache)


async def test_no_more_pods_are_inspected_at_a_time_than_the_bound_allows(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {f"p{n}": {f"c{n}": RUNNING} for n in range(20)}
    shelf.gates = {f"c{n}": trio.Event() for n in range(20)}
    async with watching(shelf, Bounds(inspections_max=3)):
        await trio.testing.wait_all_tasks_blocked()

        assert 3 == len(shelf.inspected)


# ---- on demand ----


async def test_a_look_at_one_pod_lists_only_it_and_lets_its_worker_go_on(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}, "b": {"d": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        await trio.sleep(0.3)
        acted = instant()
        watch.pleg.request_relist("a")
        watch.pleg.request_relist("a")
        seen = await watch.cache.newer_than("a", acted)
        assert acted < seen.observed_at
        assert 0.3 == pytest.approx(trio.current_time())
        assert ["a"] == shelf.listed[-1:]
        assert [] == await watch.wakes()
        with trio.move_on_after(0.1) as scope:
            await watch.cache.newer_than("b", acted)
        assert scope.cancelled_caught

        await watch.cache.newer_than("b", acted)
    assert 1.0 == pytest.approx(trio.current_time())


async def test_a_look_that_a_full_list_has_answered_already_is_skipped(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}}
    async with watching(shelf, Bounds(pod_relists_max=1)) as watch:
        await watch.wakes()
        shelf.gates["list hung"] = trio.Event()
        watch.pleg.request_relist("hung")
        await trio.sleep(0.5)
        acted = instant()
        watch.pleg.request_relist("a")  # waits: the only place is taken
        await trio.sleep(1)
        assert acted < (await watch.cache.newer_than("a", -math.inf)).observed_at or watch.cache._listed_at > acted
        shelf.gates["list hung"].set()
        await trio.testing.wait_all_tasks_blocked()

        assert "a" not in shelf.listed


async def test_a_look_asked_for_before_a_full_list_began_waits_for_it(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        await trio.sleep(0.9)
        watch.pleg.request_relist("a")
        watch.pleg._dispatcher._due = trio.current_time()  # both fall due at the same moment
        shelf.gates["list"] = trio.Event()
        await trio.sleep(0.5)
        assert "a" not in shelf.listed
        shelf.gates["list"].set()
        await trio.sleep(0.3)

        assert "a" not in shelf.listed


async def test_a_look_during_an_inspection_is_renewed_when_it_is_over(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}}
    shelf.gates["c"] = trio.Event()
    async with watching(shelf) as watch:
        await trio.testing.wait_all_tasks_blocked()
        acted = instant()
        watch.pleg.request_relist("a")
        await trio.testing.wait_all_tasks_blocked()
        shelf.gates["c"].set()
        seen = await watch.cache.newer_than("a", acted)

        assert acted < seen.observed_at
    assert 0.0 == pytest.approx(trio.current_time())


async def test_a_look_that_meets_the_inspection_of_an_older_list_is_renewed(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c1": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        shelf.gates = {"list": trio.Event(), "list a": trio.Event(), "c2": trio.Event()}
        shelf.containers["a"]["c2"] = RUNNING
        await trio.sleep(1.1)  # a full list is under way
        acted = instant()
        watch.pleg.request_relist("a")
        for gate in ("list", "list a", "c2"):
            await trio.testing.wait_all_tasks_blocked()
            shelf.gates[gate].set()
        seen = await watch.cache.newer_than("a", acted)

        assert acted < seen.observed_at
    assert 1.1 == pytest.approx(trio.current_time())


# ---- who has the last word ----


async def test_what_a_newer_list_saw_is_not_lost_to_an_older_inspection(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c1": RUNNING}}
    shelf.gates["c1"] = trio.Event()
    async with watching(shelf) as watch:
        await trio.sleep(0.5)
        acted = instant()
        shelf.containers["a"]["c2"] = RUNNING
        await trio.sleep(1)  # a full list sees c2 while c1 is still being inspected
        shelf.gates["c1"].set()
        seen = await watch.cache.newer_than("a", acted)

        assert {"c1", "c2"} == {c.id for c in seen.containers}


async def test_a_slow_look_does_not_take_back_what_a_full_list_saw_since(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c1": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        shelf.gates["list a"] = trio.Event()
        watch.pleg.request_relist("a")
        await trio.sleep(0.1)
        shelf.containers["a"]["c2"] = RUNNING
        await trio.sleep(1)
        shelf.gates["list a"].set()
        await trio.testing.wait_all_tasks_blocked()

        assert {"c1", "c2"} == set(watch.states("a"))
        assert 2 == len(getattr(watch.pleg.pod("a"), "containers", ()))


async def test_a_slow_full_list_does_not_take_back_what_a_look_saw_since(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c1": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        shelf.gates["list"] = trio.Event()
        await trio.sleep(1.1)  # a full list is under way
        shelf.containers["a"]["c2"] = RUNNING
        acted = instant()
        watch.pleg.request_relist("a")
        seen = await watch.cache.newer_than("a", acted)
        assert {"c1", "c2"} == {c.id for c in seen.containers}
        shelf.gates["list"].set()
        await trio.testing.wait_all_tasks_blocked()

        assert {"c1", "c2"} == set(watch.states("a"))
        assert 2 == len(getattr(watch.pleg.pod("a"), "containers", ()))


@pytest.mark.parametrize("unlabelled", ["stray", "s"])
async def test_a_pod_with_something_that_its_label_does_not_find_is_seen_by_full_lists_alone(
    unlabelled: str, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level(2), logger="trikubelet.pleg.pleg")
    shelf = Shelf()
    shelf.sandboxes = {"a": {"s": (READY, ())}}
    shelf.containers = {"a": {"c": RUNNING, "stray": RUNNING}}
    shelf.unlabelled = {unlabelled}
    async with watching(shelf) as watch:
        await watch.wakes()
        await trio.sleep(0.3)
        shelf.containers["a"]["c"], acted = EXITED, instant()
        watch.pleg.request_relist("a")
        seen = await watch.cache.newer_than("a", acted)
        assert {"c": EXITED, "stray": RUNNING} == {c.id: c.state for c in seen.containers}
        assert "a" not in shelf.listed
        acted = instant()
        watch.pleg.request_inspection("a")
        shelf.inspected.clear()
        await watch.cache.newer_than("a", acted)
        assert {"s", "c", "stray"} == set(shelf.inspected)

    assert "Removed" not in caplog.text
    assert 2.0 == pytest.approx(trio.current_time())


async def test_on_demand_relist_is_dropped_if_its_pod_got_a_stray_container(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level(2), logger="trikubelet.pleg.pleg")
    shelf = Shelf()
    shelf.sandboxes, shelf.containers = {"a": {"s": (READY, ())}}, {"a": {"c": RUNNING}}
    shelf.unlabelled = {"stray"}
    async with watching(shelf) as watch:
        await watch.wakes()
        shelf.containers["a"]["stray"] = RUNNING
        shelf.gates = {"list": trio.Event(), "list a": trio.Event()}
        await trio.sleep(1.1)  # a full list with it is under way
        watch.pleg.request_relist("a")
        await trio.sleep(1.1)  # and then a newer one without it
        assert "a" == shelf.listed[-1]
        shelf.gates["list"].set()
        await trio.testing.wait_all_tasks_blocked()
        shelf.gates["list a"].set()
        await trio.sleep(5)

        assert {"c", "stray"} == set(watch.states("a"))
    assert "Removed" not in caplog.text


async def test_a_full_list_that_fails_after_a_look_overtook_it_takes_nothing_from_the_next(
    autojump_clock: MockClock,
) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        shelf.gates["list"] = trio.Event()
        await trio.sleep(2.1)  # a full list is under way
        watch.pleg.request_relist("a")
        await trio.testing.wait_all_tasks_blocked()
        assert ["a"] == shelf.listed[-1:]
        shelf.failing = {"list"}
        shelf.gates.pop("list").set()
        await trio.testing.wait_all_tasks_blocked()
        shelf.failing.clear()
        shelf.containers["a"]["new"] = RUNNING
        shelf.listed.clear()
        await trio.sleep(2)

        assert {"c", "new"} == set(watch.states("a"))
        assert {None} == set(shelf.listed)


async def test_what_an_overtaken_inspection_brought_does_not_pass_for_what_was_recorded(
    autojump_clock: MockClock,
) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c1": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        shelf.gates["c1"] = trio.Event()
        shelf.containers["a"]["c2"] = CREATED
        watch.pleg.request_relist("a")
        await trio.sleep(0.5)  # an inspection has seen c2 and waits for c1 ...
        shelf.containers["a"]["c3"] = CREATED
        await trio.sleep(1)  # ... while a full list has seen c3
        del shelf.containers["a"]["c2"], shelf.containers["a"]["c3"]  # as it was recorded
        acted = instant()
        shelf.gates["c1"].set()
        seen = await watch.cache.newer_than("a", acted)

        assert ["c1"] == [c.id for c in seen.containers]


@pytest.mark.parametrize("missing", [{"c"}, {"c", "d"}])
async def test_a_pod_that_waits_for_its_inspection_is_asked_for_as_the_newest_list_has_it(
    missing: set[str], autojump_clock: MockClock
) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING, "d": RUNNING}, "b": {"e": RUNNING}}
    async with watching(shelf, replace(BOUNDS, inspections_max=1)) as watch:
        await trio.sleep(0.5)
        shelf.gates["slow"] = trio.Event()
        shelf.containers["b"]["slow"] = CREATED
        await trio.sleep(1)  # the only place is taken
        all_of_it = shelf.containers["a"]
        shelf.containers["a"] = {id_: state for id_, state in all_of_it.items() if id_ not in missing}
        await trio.sleep(1)  # one list is without them ...
        assert ["a"] == list(watch.pleg._pods.due)
        shelf.containers["a"] = all_of_it
        await trio.sleep(1)  # ... and the next has them again, as they were
        shelf.gates["slow"].set()
        await trio.sleep(5)

        assert {"c": RUNNING, "d": RUNNING} == watch.states("a")
        assert [] == await watch.deaths()


async def test_a_pod_that_waits_with_a_look_of_its_own_is_asked_for_as_a_newer_full_list_has_it(
    autojump_clock: MockClock,
) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}, "b": {}}
    async with watching(shelf, replace(BOUNDS, inspections_max=1)) as watch:
        await trio.sleep(0.5)
        shelf.gates["slow"] = trio.Event()
        shelf.containers["b"]["slow"] = CREATED
        await trio.sleep(1)  # the only place is taken
        shelf.containers["a"]["d"] = RUNNING
        watch.pleg.request_relist("a")
        await trio.sleep(0.1)
        assert ["a"] == list(watch.pleg._pods.due)
        shelf.containers["a"]["e"] = RUNNING
        await trio.sleep(1)  # a full list has it
        shelf.gates["slow"].set()
        await trio.sleep(5)

        assert {"c": RUNNING, "d": RUNNING, "e": RUNNING} == watch.states("a")


async def test_what_happened_to_a_pod_is_asked_for_when_its_turn_comes_and_not_with_every_list(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    change = Relist.change
    monkeypatch.setattr(Relist, "change", lambda relist, uid: asked.append(uid) or change(relist, uid))
    shelf = Shelf()
    shelf.containers = {f"u{number}": {f"c{number}": RUNNING} for number in range(9)}
    shelf.gates["c0"] = trio.Event()
    async with watching(shelf, replace(BOUNDS, inspections_max=1)) as watch:
        await trio.sleep(5)
        assert {"u0"} == set(asked)
        shelf.gates["c0"].set()
        await trio.sleep(1)

        assert [{f"c{number}": RUNNING} for number in range(9)] == [watch.states(f"u{number}") for number in range(9)]


async def test_two_looks_at_one_pod_do_not_overlap(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c1": CREATED}}
    async with watching(shelf) as watch:
        await trio.testing.wait_all_tasks_blocked()
        shelf.gates["list a"] = trio.Event()
        watch.pleg.request_relist("a")
        await trio.testing.wait_all_tasks_blocked()
        watch.pleg.request_relist("a")
        await trio.testing.wait_all_tasks_blocked()
        assert 1 == shelf.listed.count("a")
        shelf.gates["list a"].set()
        await trio.testing.wait_all_tasks_blocked()

        assert 2 == shelf.listed.count("a")


# ---- health ----


async def test_health_counts_successful_lists_only(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.lists_fail = True
    async with watching(shelf) as watch:
        await trio.sleep(600)
        assert "pleg has yet to be successful: nobody there" == watch.pleg.unhealthy()
        assert not watch.pleg.has_listed
        assert watch.pleg.may_have("anything")
        shelf.lists_fail = False
        await trio.sleep(60.5)
        assert watch.pleg.unhealthy() is None
        shelf.lists_fail = True
        await trio.sleep(179)
        assert watch.pleg.unhealthy() is None
        await trio.sleep(1.6)

        assert "pleg was last seen active 181s ago; threshold is 180s: nobody there" == watch.pleg.unhealthy()


async def test_some_pods_that_hang_or_fail_are_named_and_do_not_make_it_unhealthy(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {uid: {f"c-{uid}": RUNNING} for uid in ("hung", "failing", "well", "fine")}
    shelf.gates["c-hung"], shelf.failing = trio.Event(), {"c-failing"}
    async with watching(shelf) as watch:
        await trio.sleep(9)
        assert [] == watch.pleg.uninspected_pods()
        await trio.sleep(11)
        told = {(one.namespace, one.name, one.why) for one in watch.pleg.uninspected_pods()}
        assert {("default", "hung", "no answer yet"), ("default", "failing", "no c-failing")} == told
        await trio.sleep(600)
        assert [0.0, 0.0] == [one.since for one in watch.pleg.uninspected_pods()]
        assert watch.pleg.unhealthy() is None
        shelf.gates["c-hung"].set()
        shelf.failing.clear()
        await trio.sleep(2)

        assert [] == watch.pleg.uninspected_pods()


async def test_when_most_pods_cannot_be_seen_it_is_the_runtime_that_is_unhealthy(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {uid: {f"c-{uid}": RUNNING} for uid in ("a", "b", "well")}
    shelf.failing = {"c-a", "c-b"}
    async with watching(shelf) as watch:
        await trio.sleep(180)
        assert watch.pleg.unhealthy() is None
        await trio.sleep(1)
        told = watch.pleg.unhealthy()

        assert "2 of 3 pods could not be inspected for 180s: default/a (181s: no c-a), default/b (181s: no c-b)" == told


async def test_a_runtime_that_is_away_is_said_once(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf()
    shelf.lists_fail = True
    async with watching(shelf):
        await trio.sleep(100)

    assert 1 == sum("Relist failed" in record.getMessage() for record in caplog.records)


async def test_a_damaged_list_is_said_once_wherever_in_it_the_damage_is(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = [sandbox_list(f"{number:064x}" * 2) for number in range(50)]
    damaged += [b"\x12\x00" * number + b"\xff" for number in range(50)]
    left = iter(damaged)

    async def lists(_: str | None = None) -> Sequence[bytes]:
        return [next(left, b"")]

    shelf = Shelf()
    monkeypatch.setattr(shelf, "list_sandboxes", lists)
    async with watching(shelf):
        await trio.sleep(110)

    said = [record.getMessage() for record in caplog.records if "Relist failed" in record.getMessage()]
    assert 2 == len(said)
    assert "stands twice in the list" in said[0]
    assert "at byte 0: " in said[1]


async def test_what_a_broken_runtime_makes_up_fills_no_log(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    words = iter(range(1000))

    async def lists(_: str | None = None) -> Sequence[bytes]:
        raise RuntimeFailure("x" * next(words))

    shelf = Shelf()
    monkeypatch.setattr(shelf, "list_sandboxes", lists)
    async with watching(shelf):
        await trio.sleep(100)

    assert KINDS_MAX == sum("Relist failed" in record.getMessage() for record in caplog.records)


async def test_pods_that_cannot_be_inspected_are_named_once_and_once_more_when_they_can(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "trikubelet.pleg.problem_reports")
    shelf = Shelf()
    shelf.containers = {f"p{n}": {f"c{n}": RUNNING} for n in range(7)}
    shelf.failing = {f"c{n}" for n in range(7)}
    async with watching(shelf) as watch:
        await trio.sleep(60)
        assert 7 == len(watch.events.all())
        shelf.failing = {"c6"}
        await trio.sleep(10)
    reports = [record for record in caplog.records if record.name == "trikubelet.pleg.problem_reports"]
    first, second = [record.getMessage() for record in reports]

    assert first.startswith("Cannot inspect default/p0 (1s: no c0), default/p1 (1s: ")
    assert f" and 2 more: {REMEDY}" in first
    assert (
        second
        == "Inspection works again, or the pod is gone: " + ", ".join(f"default/p{n}" for n in range(5)) + " and 1 more"
    )


async def test_pod_with_a_hanging_inspection_is_reported_once_it_counts_as_hung(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}, "well": {"d": RUNNING}}
    shelf.gates["c"] = trio.Event()
    async with watching(shelf) as watch:
        await trio.sleep(9)
        assert [] == [record for record in caplog.records if "Cannot inspect" in record.getMessage()]
        assert () == watch.events.all()
        await trio.sleep(3)
        [said] = [record.getMessage() for record in caplog.records if "Cannot inspect" in record.getMessage()]
        assert said == f"Cannot inspect default/a (11s: no answer yet): {REMEDY}"
        [event] = watch.events.all()
        assert ("default/a", "a", "NotInspected") == (str(event.about), event.about.uid, event.reason)
        assert "(no answer yet); its status is stale" in event.message
        await trio.sleep(200)
        assert 1 == sum("Cannot inspect" in record.getMessage() for record in caplog.records)
        assert "default/a (212s: no answer within 30 s)" in (watch.pleg.remark() or "")


async def test_so_many_pods_out_of_sight_are_the_nodes_affair(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {f"p{n}": {f"c{n}": RUNNING} for n in range(EVENTS_MAX + 9)}
    shelf.failing = {f"c{n}" for n in range(EVENTS_MAX + 9)}
    async with watching(shelf) as watch:
        await trio.sleep(60)

    assert EVENTS_MAX == len(watch.events.all())


async def test_an_event_is_logged_once_it_is_published_however_often_it_was_listed(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level(2))
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}}
    shelf.failing = {"c"}
    async with watching(shelf):
        await trio.sleep(5)
        assert not [record for record in caplog.records if "event for pod" in record.message]
        shelf.failing = set()
        await trio.sleep(5)
        shelf.containers = {}
        await trio.sleep(5)

    told = ("ContainerStarted", "ContainerDied", "ContainerRemoved")
    assert [f"SyncLoop (PLEG): event for pod default/a: {what} c" for what in told] == [
        record.message for record in caplog.records if "event for pod" in record.message
    ]


async def test_a_list_that_cannot_be_read_is_a_failed_list_and_a_look_at_one_pod_as_well(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def rubbish(_: str | None = None) -> Sequence[bytes]:
        return [b"\xff"]

    caplog.set_level("DEBUG")
    shelf = Shelf()
    async with watching(shelf) as watch:
        monkeypatch.setattr(shelf, "list_containers", rubbish)
        await trio.sleep(0.5)
        watch.pleg.request_relist("a")
        await trio.sleep(200)
        assert "threshold is 180s" in (watch.pleg.unhealthy() or "")
        monkeypatch.undo()
        await trio.sleep(2)
        assert watch.pleg.unhealthy() is None

    assert 1 == sum(record.message.startswith("Relist failed: ") for record in caplog.records)
    assert 1 == sum(record.message.startswith("On-demand relist of pod a failed: ") for record in caplog.records)


@pytest.mark.parametrize("on_demand", [False, True])
async def test_a_bug_in_listing_is_not_taken_for_a_runtime_that_fails(
    on_demand: bool, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def bug(uid: str | None = None) -> Sequence[bytes]:
        if on_demand and uid is None:
            return []
        raise ValueError("a bug")

    shelf = Shelf()
    monkeypatch.setattr(shelf, "list_sandboxes", bug)
    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="a bug"), flatten_subgroups=True):
        async with watching(shelf) as watch:
            await trio.sleep(0.5)
            watch.pleg.request_relist("a")
            await trio.sleep(5)


# ---- the pace ----


@pytest.mark.parametrize("fails", [False, True])
async def test_a_list_that_takes_long_is_not_followed_by_the_next_at_once(
    fails: bool, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[float] = []

    async def slow(_: str | None = None) -> Sequence[bytes]:
        began.append(trio.current_time())
        await trio.sleep(3)
        if fails:
            raise RuntimeUnavailable("nobody there")
        return []

    shelf = Shelf()
    monkeypatch.setattr(shelf, "list_sandboxes", slow)
    async with watching(shelf):
        await trio.sleep(13 - Bounds().first_list_seconds_max)

    assert [0, 6, 12] == pytest.approx(began)


async def test_a_list_begins_when_there_is_a_connection_and_not_before(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.gates["connection"] = trio.Event()
    async with watching(shelf) as watch:
        asked = instant()
        await trio.sleep(20)
        shelf.gates["connection"].set()
        with trio.fail_after(0.5):
            await watch.cache.newer_than("a", asked)  # whoever has waited for the runtime goes on
        await trio.sleep(2.5)
        assert [None] * 3 == shelf.listed  # and the wait is no slow list that calls for a pause


async def test_a_look_asked_for_before_a_full_list_was_due_waits_a_period_from_when_that_could_begin(
    autojump_clock: MockClock,
) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        await trio.sleep(0.9)
        shelf.gates["connection"], shelf.gates["list"] = trio.Event(), trio.Event()
        watch.pleg.request_relist("a")
        watch.pleg._dispatcher._due = trio.current_time()  # both fall due at the same moment
        await trio.sleep(0.7 * BOUNDS.relist_period_seconds)
        shelf.gates["connection"].set()
        await trio.sleep(0.7 * BOUNDS.relist_period_seconds)
        assert "a" not in shelf.listed
        shelf.gates["list"].set()
        await trio.sleep(0.1)

        assert "a" not in shelf.listed


async def test_a_list_that_gets_no_connection_has_failed_and_is_tried_again(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.gates["connection"] = trio.Event()
    async with watching(shelf) as watch:
        await trio.sleep(0.5 + BOUNDS.runtime_call_seconds_max)
        assert watch.pleg.failing_since == pytest.approx(0)
        shelf.gates["connection"].set()
        await trio.testing.wait_all_tasks_blocked()
        assert watch.pleg.failing_since is None


async def test_one_list_that_hung_until_its_deadline_does_not_make_the_node_unhealthy(
    autojump_clock: MockClock,
) -> None:
    shelf = Shelf()
    async with watching(shelf, Bounds()) as watch:
        await trio.sleep(0.5)
        shelf.gates["list"] = trio.Event()
        await trio.sleep(Bounds().runtime_call_seconds_max + 1)
        assert 0 < (watch.pleg.failing_since or 0) < 2
        del shelf.gates["list"]
        for _ in range(100):
            assert watch.pleg.unhealthy() is None
            await trio.sleep(1)

        assert watch.pleg.failing_since is None


async def test_a_full_list_that_takes_long_does_not_hold_up_single_pods(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        shelf.gates["list"] = trio.Event()
        await trio.sleep(0.95)
        pods = watch.pleg._pods
        pods.put("a", replace(pods.get("a"), listing=instant()))  # its turn has not come when the full list begins
        acted = instant()
        watch.pleg.request_relist("a")
        await trio.sleep(0.1)
        pods.put("a", replace(pods.get("a"), listing=None))
        watch.pleg._dispatcher.wake()
        with trio.fail_after(1.5):
            seen = await watch.cache.newer_than("a", acted)

    assert acted < seen.observed_at
    assert 2.0 == pytest.approx(trio.current_time())


# ---- numbers ----


async def test_pods_and_containers_are_counted_by_state(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    shelf.containers = {"a": {"c1": RUNNING, "c2": EXITED}, "b": {"c3": UNKNOWN, "c4": CREATED}}
    shelf.sandboxes = {"a": {"s1": (READY, ())}, "b": {"s2": (NOTREADY, ())}}
    async with watching(shelf) as watch:
        assert (1, 1, 1, 1, 1) == tuple(watch.pleg.counts())[:5]


async def test_each_list_that_is_read_is_measured_and_one_that_fails_is_not(autojump_clock: MockClock) -> None:
    shelf = Shelf()
    async with watching(shelf) as watch:
        await trio.sleep(2.5)
        measured = watch.pleg.figures().measured
        before = measured.decodes.buckets[-1][1]
        assert (before, True) == (measured.relists.buckets[-1][1], before >= 2)
        shelf.lists_fail = True
        await trio.sleep(3)
        assert before == measured.decodes.buckets[-1][1]
