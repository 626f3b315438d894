"""What upstream's own tests hold its PLEG to (pleg/generic_test.go, pleg/evented_test.go), held against ours.

Each test begins with the name of upstream's. Where ours is built otherwise, the test says what takes the place of what
upstream asserts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import pytest
import trio

from shell.pleg.test_pleg import (
    BOUNDS,
    CREATED,
    EXITED,
    NOTREADY,
    READY,
    RUNNING,
    UNKNOWN,
    Shelf,
    Watch,
    watching,
)
from trikubelet.core.relist import Counts, EventKind, Relist
from trikubelet.kit.instant import instant
from trikubelet.model.bounds import Bounds
from trikubelet.model.runtime import ContainerState, SandboxState
from trikubelet.model.runtime_errors import RuntimeFailure

if TYPE_CHECKING:
    from trio.testing import MockClock

STARTED, DIED, REMOVED, CHANGED = EventKind
Pods = dict[str, dict[str, ContainerState]]
Events = dict[str, list[tuple[EventKind, str]]]


@pytest.fixture(params=["rust", "python"])
def relist(request: pytest.FixtureRequest) -> Relist:
    return Relist(request.param)


async def relisted(relist: Relist, shelf: Shelf) -> Events:
    """Return the relevant reports of a list, once every pod was inspected."""
    changes = relist.observe(await shelf.list_sandboxes(), await shelf.list_containers())
    for change in changes:
        relist.advance(change.uid)
    told = {
        change.uid: [(event.kind, event.id) for event in change.events if event.kind is not CHANGED]
        for change in changes
    }
    return {uid: sorted(events) for uid, events in told.items() if events}


def put(shelf: Shelf, kind: str, pods: Pods) -> None:
    """Those pods and no others, as containers or as sandboxes, which know fewer states."""
    if kind == "containers":
        shelf.containers = pods
        return
    shelf.sandboxes = {
        uid: {id_: (READY if state is RUNNING else NOTREADY, ()) for id_, state in states.items()}
        for uid, states in pods.items()
    }


async def passes(seconds: float) -> None:
    """Time, and then all that is due at its end: a list, a moment after the one before it was due."""
    await trio.sleep(seconds + 0.001)
    await trio.testing.wait_all_tasks_blocked()


# ---- from lists to events ----


@pytest.mark.parametrize(
    ("row", "kind"), [("TestRelisting", "containers"), ("TestRelistingWithSandboxes", "sandboxes")]
)
async def test_relisting(row: str, kind: str, relist: Relist) -> None:
    """TestRelisting, TestRelistingWithSandboxes."""
    shelf = Shelf()
    first: Pods = {"1234": {"c1": EXITED, "c2": RUNNING}, "4567": {"c1-4567": EXITED}}
    if kind == "containers":
        first["1234"]["c3"] = UNKNOWN
    put(shelf, kind, first)
    assert {"1234": [(STARTED, "c2"), (DIED, "c1")], "4567": [(DIED, "c1-4567")]} == await relisted(relist, shelf)
    assert {} == await relisted(relist, shelf)
    put(shelf, kind, {"1234": {"c2": EXITED, "c3": RUNNING}, "4567": {"c4": RUNNING}})

    assert {
        "1234": [(STARTED, "c3"), (DIED, "c2"), (REMOVED, "c1")],
        "4567": [(STARTED, "c4"), (REMOVED, "c1-4567")],
    } == await relisted(relist, shelf)


@pytest.mark.parametrize("lists_before", [1, 3])
@pytest.mark.parametrize("is_pod_gone", [False, True])
@pytest.mark.parametrize(("state", "expected"), [(RUNNING, [(DIED, "c"), (REMOVED, "c")]), (EXITED, [(REMOVED, "c")])])
async def test_detecting_container_deaths(
    lists_before: int, is_pod_gone: bool, state: ContainerState, expected: object, relist: Relist
) -> None:
    """TestDetectingContainerDeaths."""
    shelf = Shelf()
    shelf.containers = {"a": {"c": state, "other": RUNNING}}
    for _ in range(lists_before):
        await relisted(relist, shelf)
    shelf.containers = {} if is_pod_gone else {"a": {"other": RUNNING}}
    events = (await relisted(relist, shelf))["a"]

    assert expected == [event for event in events if event[1] == "c"]


async def test_event_channel_full(autojump_clock: MockClock) -> None:
    """TestEventChannelFull, TestHealthyEventedPLEG. Wake-ups are a set here that is never full. What can be full is the
    line: what finds no room is counted, nothing blocks, the next full list sees it, and PLEG stays healthy."""
    shelf = Shelf()
    uids = [f"p{n}" for n in range(6)]
    async with watching(shelf, Bounds(pod_relists_waiting_max=4)) as watch:
        await passes(0.5)
        shelf.containers = {uid: {f"c-{uid}": RUNNING} for uid in uids}
        for uid in uids:
            watch.pleg.request_relist(uid)
        assert (4, 2) == (watch.pleg.figures().requests_waiting, watch.pleg.figures().requests_dropped)
        assert uids[:4] == await watch.wakes()
        await passes(0.6)

        assert uids[4:] == await watch.wakes()
        assert watch.pleg.unhealthy() is None


# ---- the cache ----


async def test_relist_with_cache(autojump_clock: MockClock) -> None:
    """TestRelistWithCache."""
    shelf = Shelf()
    shelf.containers = {"one": {"c1": RUNNING}, "two": {"c2": RUNNING}}
    shelf.failing = {"c2"}
    async with watching(shelf) as watch:
        assert ["one"] == await watch.wakes()
        assert {"c1": RUNNING} == watch.states("one")
        assert {} == watch.states("two")
        with pytest.raises(RuntimeFailure, match="no c2"):
            await watch.cache.newer_than("two", -math.inf)
        shelf.inspected.clear()
        shelf.failing.clear()
        await passes(1)

        assert ["two"] == await watch.wakes()
        assert ["c2"] == shelf.inspected
        assert ({"c1": RUNNING}, {"c2": RUNNING}) == (watch.states("one"), watch.states("two"))


async def test_remove_cache_entry(autojump_clock: MockClock) -> None:
    """TestRemoveCacheEntry."""
    shelf = Shelf()
    shelf.containers = {"1234": {"c": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        shelf.containers = {}
        await passes(2)

        assert (0, {}) == (len(watch.cache), watch.states("1234"))


@pytest.mark.parametrize("ips", [("192.168.1.5",), ("192.168.1.5", "2001:db8::7")], ids=["IPv4", "dual"])
async def test_relist_ip_change(ips: tuple[str, ...], autojump_clock: MockClock) -> None:
    """TestRelistIPChange."""
    shelf = Shelf()
    shelf.sandboxes, shelf.containers = {"a": {"s": (READY, ips)}}, {"a": {"c": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        shelf.sandboxes, shelf.containers = {"a": {"s": (NOTREADY, ())}}, {"a": {"c": EXITED}}
        await passes(1)

        assert (["a"], ["a"]) == (await watch.wakes(), await watch.deaths())
        assert ips == watch.cache.get("a").ips


@pytest.mark.parametrize(
    ("before", "now", "kept"),
    [
        (("10.0.0.1",), {"s": (READY, ("10.0.0.2",))}, ("10.0.0.2",)),
        (("10.0.0.1",), {"s": (READY, ())}, ()),
        (("10.0.0.1",), {"s": (NOTREADY, ())}, ("10.0.0.1",)),
        ((), {"s": (NOTREADY, ("10.0.0.2",))}, ("10.0.0.2",)),
    ],
    ids=["ready with new", "ready without", "not ready without", "not ready with"],
)
async def test_get_pod_ips(
    before: tuple[str, ...],
    now: dict[str, tuple[SandboxState, tuple[str, ...]]],
    kept: tuple[str, ...],
    autojump_clock: MockClock,
) -> None:
    """getPodIPs."""
    shelf = Shelf()
    shelf.sandboxes = {"a": {"s": (READY, before)}}
    async with watching(shelf) as watch:
        await watch.wakes()
        assert before == watch.cache.get("a").ips
        shelf.sandboxes, shelf.containers = {"a": now}, {"a": {"c": RUNNING}}
        await passes(1)
        await watch.wakes()

        assert kept == watch.cache.get("a").ips


# ---- inspecting again ----

Cause = Literal["nothing", "a failure", "a request"]
Fate = Literal["succeeds", "fails", "is gone"]


@pytest.mark.parametrize(
    ("cause", "is_changed", "fate", "woken", "asked_again"),
    [
        ("a failure", False, "succeeds", True, False),
        ("a failure", False, "fails", False, True),
        ("a failure", False, "is gone", True, False),
        ("a failure", True, "succeeds", True, False),
        ("a failure", True, "fails", False, True),
        ("a request", False, "succeeds", False, False),
        ("a request", False, "fails", False, True),
        ("a request", False, "is gone", True, False),
        ("nothing", False, "succeeds", False, False),
        ("nothing", True, "succeeds", True, False),
        ("nothing", True, "fails", False, True),
    ],
)
async def test_reinspect(
    cause: Cause, is_changed: bool, fate: Fate, woken: bool, asked_again: bool, autojump_clock: MockClock
) -> None:
    """TestReinspect. A pod is inspected again after an inspection that failed, and when somebody asks for it."""
    shelf = Shelf()
    shelf.containers = {"a": {"c": RUNNING}}
    async with watching(shelf) as watch:
        await watch.wakes()
        if cause == "a failure":
            shelf.containers["a"]["new"], shelf.failing = CREATED, {"new"}
            await passes(1)
            assert [] == await watch.wakes()
        if is_changed:
            shelf.containers["a"]["other"] = RUNNING
        if fate == "is gone":
            shelf.containers = {}
        shelf.failing = set(shelf.containers.get("a", ())) if fate == "fails" else set()
        if cause == "a request":
            watch.pleg.request_inspection("a")
        await passes(1)

        assert (["a"] if woken else []) == await watch.wakes()
        if fate == "fails":
            with pytest.raises(RuntimeFailure):
                await watch.cache.newer_than("a", -math.inf)
        else:
            assert shelf.containers.get("a", {}) == watch.states("a")
        shelf.failing.clear()
        shelf.inspected.clear()
        await passes(1)
        assert asked_again is bool(shelf.inspected)


# ---- health and numbers ----


async def test_healthy(autojump_clock: MockClock) -> None:
    """TestHealthy."""
    shelf = Shelf()
    shelf.lists_fail = True
    async with watching(shelf) as watch:
        assert watch.pleg.unhealthy() is not None
        await passes(600)
        assert watch.pleg.unhealthy() is not None
        shelf.lists_fail = False
        await passes(1)
        shelf.lists_fail = True
        await passes(60)
        assert watch.pleg.unhealthy() is None
        await passes(125)

        assert "threshold is 180s" in (watch.pleg.unhealthy() or "")


async def test_running_pod_and_container_count(autojump_clock: MockClock) -> None:
    """TestRunningPodAndContainerCount, TestUpdateRunningPodMetric: the second is about adding deltas up, which a count
    made of the record itself cannot get wrong."""
    shelf = Shelf()
    shelf.containers = {"1": {"c1": RUNNING, "c2": UNKNOWN, "c3": EXITED}, "2": {"c4": RUNNING, "c5": CREATED}}
    shelf.sandboxes = {"1": {"s1": (READY, ())}, "2": {"s2": (READY, ())}, "3": {"s3": (NOTREADY, ())}}
    async with watching(shelf) as watch:
        assert Counts(running_pods=2, created=1, running=2, exited=1, unknown=1) == watch.pleg.counts()
        del shelf.containers["2"], shelf.sandboxes["2"]
        await passes(1)

        assert Counts(running_pods=1, created=0, running=1, exited=1, unknown=1) == watch.pleg.counts()


# ---- on demand ----


async def satisfied(watch: Watch, uid: str, since: float) -> bool:
    """True if a worker that waits since then may continue."""
    with trio.move_on_after(0.001) as scope:
        await watch.cache.newer_than(uid, since)
    return not scope.cancelled_caught


async def test_worker_loop(autojump_clock: MockClock) -> None:
    """TestWorkerLoop."""
    shelf = Shelf()
    shelf.containers = {"a": {"ca": RUNNING}, "b": {"cb": RUNNING}}
    async with watching(shelf, BOUNDS) as watch:
        await watch.wakes()
        await passes(0.2)
        acted = instant()
        watch.pleg.request_relist("a")
        assert await satisfied(watch, "a", acted)  # on demand: that pod's worker goes on, and no other's
        assert not await satisfied(watch, "b", acted)

        shelf.gates["list a"] = trio.Event()
        watch.pleg.request_relist("a")  # its list is slow; the full one comes first, and is for everybody
        later = instant()
        await passes(1)
        assert await satisfied(watch, "a", later)
        assert await satisfied(watch, "b", later)
        shelf.gates["list a"].set()
        await trio.testing.wait_all_tasks_blocked()
        assert 1 == watch.pleg.figures().requests_answered  # it was stale by then

        shelf.containers["a"]["new"], shelf.failing = CREATED, {"new"}
        await passes(1)
        shelf.failing = set()
        again = instant()
        await passes(1)
        assert again < watch.cache.get("a").observed_at  # inspected again: its status is of a new time
