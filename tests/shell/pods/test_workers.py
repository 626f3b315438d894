"""The rules between pods: static pods of a name take turns, a UID lives once, nothing unknown is touched too early."""

from __future__ import annotations

import math
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import NothingThere, Script
from trikubelet.core.lifecycle import Finished, Outcome, StopReason, Syncing
from trikubelet.core.names import orphan_pod
from trikubelet.core.relist import PodRecord
from trikubelet.kit.gather import Gather
from trikubelet.model.bounds import Bounds
from trikubelet.pods.figures import PodFigures
from trikubelet.pods.workers import PodWorkers
from trikubelet.testing.builders import pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

UUID = "0f9c3c7e-5b1a-4c55-9a55-2f1f0f9a7a11"
A, B, C = (pod("web", uid=f"uid-{n}") for n in "abc")


@asynccontextmanager
async def workers_of(script: Script, runtime: NothingThere | None = None) -> AsyncIterator[PodWorkers]:
    workers = PodWorkers(script, runtime or NothingThere(), Gather(), Bounds(), random.Random(1), PodFigures())  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        await nursery.start(workers.run)
        yield workers
        nursery.cancel_scope.cancel()


async def test_static_pods_of_one_name_run_one_after_another_in_the_order_they_came(autojump_clock: MockClock) -> None:
    script = Script(takes_seconds=1)
    async with workers_of(script) as workers:
        for static in (A, B, C):
            workers.begin(static)
        await trio.sleep(10)
        assert {"uid-a"} == {uid for _, _, uid in script.calls}
        workers.stop("uid-a", StopReason.REMOVED)
        await trio.sleep(10)
        assert {"uid-a", "uid-b"} == {uid for _, _, uid in script.calls}
        workers.stop("uid-b", StopReason.REMOVED)
        await trio.sleep(10)

    first = {uid: next(at for at, _, who in script.calls if who == uid) for uid in ("uid-a", "uid-b", "uid-c")}
    last_of_a = max(at for at, _, uid in script.calls if uid == "uid-a")
    assert last_of_a < first["uid-b"] < first["uid-c"]


async def test_pods_of_the_api_do_not_take_turns(autojump_clock: MockClock) -> None:
    script = Script()
    async with workers_of(script) as workers:
        for uid in ("uid-a", "uid-b"):
            workers.begin(pod("web", uid=uid, source="api"))
        await trio.sleep(1)

    assert {"uid-a", "uid-b"} == {uid for _, _, uid in script.calls}


async def test_a_waiting_pod_that_is_removed_is_left_out_and_was_never_started(autojump_clock: MockClock) -> None:
    script = Script()
    async with workers_of(script) as workers:
        for static in (A, B, C):
            workers.begin(static)
        workers.stop("uid-b", StopReason.REMOVED)
        workers.stop("uid-a", StopReason.REMOVED)
        await trio.sleep(10)

    assert "uid-b" not in {uid for _, _, uid in script.calls}
    assert "uid-c" in {uid for _, _, uid in script.calls}


async def test_a_waiting_pod_that_exists_already_is_stopped_without_waiting_for_its_turn(
    autojump_clock: MockClock,
) -> None:
    script = Script()
    async with workers_of(script, NothingThere("uid-b")) as workers:
        workers.begin(A)
        workers.begin(B)
        workers.stop("uid-b", StopReason.REMOVED)
        await trio.sleep(1)

    assert ["terminate 30", "clean up"] == [what for _, what, uid in script.calls if uid == "uid-b"]


async def test_that_a_pod_has_finished_is_reported_once_whatever_is_asked_of_it_then(autojump_clock: MockClock) -> None:
    script = Script([Outcome.DONE])
    told: list[str] = []
    async with workers_of(script) as workers:
        workers.finished.add(lambda one: told.append(one.metadata.uid))
        workers.begin(A)
        await trio.sleep(1)
        assert ["uid-a"] == told
        workers.begin(B)
        workers.begin(C)
        workers.stop("uid-c", StopReason.REMOVED)  # it waits for its turn, and is over at once
        assert ["uid-a", "uid-c"] == told
        for reason in (StopReason.DELETED, StopReason.REMOVED):
            for uid in ("uid-a", "uid-b", "uid-c"):
                workers.stop(uid, reason)
        await trio.sleep(10)

    assert ["uid-a", "uid-c", "uid-b"] == told


async def test_a_pod_that_comes_back_while_it_stops_lives_again_once_nothing_is_left(autojump_clock: MockClock) -> None:
    script, runtime = Script(takes_seconds=1), NothingThere()
    async with workers_of(script, runtime) as workers:
        workers.begin(A)
        await trio.sleep(0.5)
        runtime.having.add("uid-a")
        workers.stop("uid-a", StopReason.REMOVED)
        workers.sync(A, create=True)
        await trio.sleep(5)
        workers.compare_with({"uid-a"})
        await trio.sleep(5)
        assert ["sync", "terminate 30", "clean up"] == script.told
        assert "uid-a" in workers
        runtime.having.clear()
        workers.compare_with({"uid-a"})
        assert "uid-a" not in workers
        workers.begin(A)
        await trio.sleep(5)

    assert ["sync", "terminate 30", "clean up", "sync"] == script.told[:4]
    assert ["uid-a"] == script.forgotten


async def test_restart_counts_go_on_only_while_the_pod_stays_wanted(autojump_clock: MockClock) -> None:
    script = Script(attempts={"main": 3})
    async with workers_of(script) as workers:
        for goes_away in (False, True):
            workers.begin(A)
            await trio.sleep(1)
            workers.stop("uid-a", StopReason.REMOVED)
            workers.sync(A, create=True)
            await trio.sleep(1)
            workers.compare_with({"uid-a"})
            assert "uid-a" not in workers
            if goes_away:
                workers.compare_with(())
        workers.begin(A)
        await trio.sleep(1)

    assert [{"main": 3}] == script.went_on_from


async def test_restart_counts_of_a_pod_that_comes_back_after_its_end_start_anew(autojump_clock: MockClock) -> None:
    script = Script(attempts={"main": 3})
    async with workers_of(script) as workers:
        workers.begin(A)
        await trio.sleep(1)
        workers.stop("uid-a", StopReason.REMOVED)
        await trio.sleep(1)
        workers.sync(A, create=True)
        workers.compare_with({"uid-a"})
        assert "uid-a" not in workers
        workers.begin(A)
        await trio.sleep(1)

    assert [] == script.went_on_from


@pytest.mark.parametrize("rejected", [False, True])
async def test_beside_remains_that_never_go_a_pod_begins_as_any_other_when_it_is_asked_about(
    autojump_clock: MockClock, *, rejected: bool
) -> None:
    script, runtime, bounds = Script(takes_seconds=1), NothingThere(), Bounds()
    async with workers_of(script, runtime) as workers:
        workers.begin(A)
        await trio.sleep(0.5)
        runtime.having.add("uid-a")
        workers.stop("uid-a", StopReason.REMOVED)
        workers.sync(A, create=True)
        await trio.sleep(bounds.removal_hung_seconds)
        workers.compare_with({"uid-a"})
        assert "uid-a" in workers
        await trio.sleep(5)
        workers.compare_with({"uid-a"})
        assert "uid-a" not in workers
        assert not workers.earlier.may_run("uid-a")
        assert [] == script.despite_leftovers
        begin = workers.reject if rejected else workers.begin
        begin(A)
        await trio.sleep(5)
        assert workers.earlier.may_run("uid-a")

    assert ["uid-a"] == script.despite_leftovers
    assert ["sync", "terminate 30", "clean up", "clean up" if rejected else "sync"] == script.told[:4]


async def test_leftovers_of_an_undesired_pod_are_those_of_an_orphan(autojump_clock: MockClock) -> None:
    script, runtime, bounds = Script(takes_seconds=1), NothingThere(), Bounds()
    async with workers_of(script, runtime) as workers:
        workers.begin(A)
        await trio.sleep(0.5)
        runtime.having.add("uid-a")
        workers.stop("uid-a", StopReason.REMOVED)
        workers.sync(A, create=True)
        await trio.sleep(bounds.removal_hung_seconds + 5)
        workers.compare_with({"uid-a"})
        workers.compare_with(set())
        workers.kill_orphan(A)
        await trio.sleep(5)

    assert [] == script.despite_leftovers
    assert ["sync", "terminate 30", "clean up", "terminate 1"] == script.told[:4]


async def test_a_pod_that_comes_back_while_it_waits_for_room_has_one_task(autojump_clock: MockClock) -> None:
    """Another makes room for it, and its manifest goes and comes back before that has ended."""
    other = pod("other", uid="uid-other")
    script = Script(takes_seconds=5)
    async with workers_of(script) as workers:
        workers.begin(other)
        await trio.sleep(6)
        workers.stop("uid-other", StopReason.DISRUPTED)
        workers.begin(A, after=["uid-other"])
        await trio.sleep(1)
        workers.stop("uid-a", StopReason.REMOVED)
        workers.sync(A, create=True)
        for _ in range(20):
            workers.compare_with({"uid-a"})
            if "uid-a" not in workers:
                workers.begin(A)
            await trio.sleep(2)

    ended = max(at for at, what, uid in script.calls if uid == "uid-other")
    begun = [at for at, what, uid in script.calls if uid == "uid-a"]
    assert ended < begun[0]
    assert 1 == len(begun)


async def test_a_pod_removed_once_more_after_it_came_back_stays_away(autojump_clock: MockClock) -> None:
    script = Script(takes_seconds=1)
    async with workers_of(script) as workers:
        workers.begin(A)
        await trio.sleep(0.5)
        workers.stop("uid-a", StopReason.REMOVED)
        workers.sync(A, create=True)
        workers.stop("uid-a", StopReason.DELETED)
        await trio.sleep(5)
        workers.compare_with({"uid-a"})
        await trio.sleep(5)

    assert ["sync", "terminate 30", "clean up"] == script.told


async def test_a_finished_worker_ignores_every_request_until_it_is_forgotten(autojump_clock: MockClock) -> None:
    script = Script([Outcome.DONE])
    async with workers_of(script) as workers:
        workers.begin(A)
        await trio.sleep(1)
        workers.sync(A)
        workers.wake(["uid-a"])
        await trio.sleep(100)
        assert 3 == len(script.calls)
        workers.compare_with(set())
        workers.compare_with(set())

        assert 0 == len(workers)
    assert ["uid-a"] == script.forgotten


async def test_of_twenty_pods_only_the_two_that_are_wanted_live_on(autojump_clock: MockClock) -> None:
    script = Script()
    wanted = {"uid-p3", "uid-p7"}
    async with workers_of(script) as workers:
        for n in range(20):
            workers.begin(pod(f"p{n}"))
        await trio.sleep(1)
        assert workers.could_have_running_containers("unknown")
        assert not workers.should_content_be_removed("unknown")
        workers.compare_with({*wanted, "not begun with"})
        assert not workers.could_have_running_containers("unknown")
        assert workers.should_content_be_removed("unknown")
        assert not workers.should_content_be_removed("not begun with")
        await trio.sleep(1)
        workers.compare_with(wanted)

        assert wanted == {worker.pod.metadata.uid for worker in workers}
        assert all(isinstance(worker.state, Syncing) for worker in workers)


async def test_an_orphan_is_stopped_with_a_second_of_grace_and_forgotten(autojump_clock: MockClock) -> None:
    script = Script()
    async with workers_of(script) as workers:
        workers.kill_orphan(A)
        workers.kill_orphan(A)
        await trio.sleep(1)
        assert ["terminate 1", "clean up"] == script.told
        worker = workers.worker("uid-a")
        assert worker is not None
        assert isinstance(worker.state, Finished)
        workers.compare_with(set())

        assert "uid-a" not in workers


def runs(uid: str) -> PodRecord:
    return PodRecord(uid, "web", "default", (), ())


async def test_a_static_pod_waits_for_the_end_of_what_an_earlier_agent_began_under_its_name(
    autojump_clock: MockClock,
) -> None:
    script, runtime = Script(takes_seconds=1), NothingThere()
    runtime.records = [runs("uid-before")]
    async with workers_of(script, runtime) as workers:
        workers.begin(A)
        await trio.sleep(10)
        assert [] == script.calls
        workers.kill_orphan(orphan_pod("uid-before", "web", "default"))
        await trio.sleep(10)

    assert ["uid-before", "uid-before", "uid-a"] == [uid for _, _, uid in script.calls][:3]
    assert ["terminate 1", "clean up", "sync"] == script.told[:3]


@pytest.mark.parametrize(
    ("tried", "uid"),
    [
        pytest.param([], "uid-before", id="a static pod"),
        pytest.param(["uid-a"], UUID, id="maybe one of the API server"),
    ],
)
async def test_a_static_pod_that_runs_waits_for_an_earlier_version_of_it_that_runs_beside_it(
    tried: list[str], uid: str, autojump_clock: MockClock
) -> None:
    script, runtime = Script(), NothingThere("uid-a", uid)
    runtime.records = [runs("uid-a"), runs(uid)]
    async with workers_of(script, runtime) as workers:
        workers.begin(A)
        await trio.sleep(5)

        assert tried == [uid for _, _, uid in script.calls][:1]


async def test_a_static_pod_that_comes_while_an_orphan_of_its_name_ends_waits_too(autojump_clock: MockClock) -> None:
    script = Script(takes_seconds=1)
    async with workers_of(script) as workers:
        workers.kill_orphan(orphan_pod("uid-before", "web", "default"))
        workers.begin(A)
        await trio.sleep(10)

    assert ["terminate 1", "clean up", "sync"] == script.told[:3]


async def test_a_static_pod_begins_when_what_ran_under_its_name_has_ended_by_itself(autojump_clock: MockClock) -> None:
    script, runtime = Script(), NothingThere()
    runtime.records = [runs("uid-before")]
    async with workers_of(script, runtime) as workers:
        workers.begin(A)
        runtime.records = []
        await trio.sleep(1)
        assert [] == script.calls
        workers.earlier.turns.offer()
        await trio.sleep(1)
        assert {"uid-a"} == {uid for _, _, uid in script.calls}


async def test_static_pods_wait_for_the_first_list_and_running_ones_go_first(
    autojump_clock: MockClock,
) -> None:
    script, runtime = Script(), NothingThere("uid-a", "uid-b")
    runtime.has_listed = False
    async with workers_of(script, runtime) as workers:
        workers.begin(A)
        workers.begin(B)
        await trio.sleep(1)
        workers.earlier.turns.offer()
        await trio.sleep(1)
        assert [] == script.calls
        runtime.has_listed, runtime.records = True, [runs("uid-b")]
        workers.earlier.turns.offer()
        await trio.sleep(1)
        assert {"uid-b"} == {uid for _, _, uid in script.calls}


async def test_of_the_pods_that_ended_beside_an_invalid_manifest_the_last_are_remembered(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trikubelet.pods.wanted_uids.ENDED_KEPT_MAX", 2)
    async with workers_of(Script()) as workers:
        for static in (A, B, C):
            workers.begin(static)
            workers.stop(static.metadata.uid, StopReason.REMOVED)
            await trio.sleep(100)
            workers.compare_with((), all_known=False)
        gone = [uid for uid in ("uid-a", "uid-b", "uid-c", "uid-d") if workers.should_content_be_removed(uid)]
        assert (["uid-b", "uid-c"], 0) == (gone, len(workers))


async def test_that_a_pod_ended_beside_an_invalid_manifest_says_nothing_of_it_once_it_began_again(
    autojump_clock: MockClock,
) -> None:
    async with workers_of(Script()) as workers:
        workers.begin(A)
        workers.stop("uid-a", StopReason.REMOVED)
        await trio.sleep(100)
        workers.compare_with((), all_known=False)
        assert workers.should_content_be_removed("uid-a")
        workers.begin(A)
        await trio.sleep(1)
        workers.stop("uid-a", StopReason.REMOVED)
        workers.sync(A, create=True)
        await trio.sleep(100)
        workers.begin_again({"uid-a"})

        assert "uid-a" not in workers
        assert not workers.should_content_be_removed("uid-a")


async def test_a_static_pod_waits_for_none_of_its_name_that_is_wanted_beside_it(autojump_clock: MockClock) -> None:
    """One of the API server, which is not admitted yet: it gets a worker of its own."""
    script, runtime = Script(), NothingThere(UUID)
    runtime.records = [runs(UUID)]
    async with workers_of(script, runtime) as workers:
        workers.compare_with({"uid-a", UUID})
        workers.begin(A)
        await trio.sleep(1)

        assert {"uid-a"} == {uid for _, _, uid in script.calls}


async def test_only_what_ran_when_the_runtime_was_listed_first_can_be_an_orphan_under_the_uid_of_one_in_line(
    autojump_clock: MockClock,
) -> None:
    runtime, under_b = NothingThere(), PodRecord("uid-b", "shop", "default", (), ())
    runtime.has_listed = False
    async with workers_of(Script(), runtime) as workers:
        workers.begin(A)
        workers.begin(B)
        runtime.records = [under_b]
        assert workers.earlier.orphan_under_uid(B) is None, "not all was listed"
        runtime.has_listed = True
        assert under_b == workers.earlier.orphan_under_uid(B)
        workers.withdraw_for([])
        assert workers.earlier.orphan_under_uid(B) is None, "it was looked at"


async def test_what_a_pods_own_end_left_under_its_uid_is_no_orphan(autojump_clock: MockClock) -> None:
    runtime, bounds = NothingThere("uid-a"), Bounds()
    async with workers_of(Script(), runtime) as workers:
        workers.begin(A)
        workers.stop("uid-a", StopReason.REMOVED)
        workers.sync(A, create=True)
        await trio.sleep(bounds.removal_hung_seconds + 5)
        runtime.records = [PodRecord("uid-a", "shop", "default", (), ())]
        assert workers.earlier.orphan_under_uid(A) is None
        workers.begin_again({"uid-a"})

        assert "uid-a" not in workers
        assert workers.earlier.orphan_under_uid(A) is None


async def test_many_pods_each_get_their_last_request(autojump_clock: MockClock) -> None:
    script = Script(takes_seconds=0.5)
    async with workers_of(script) as workers:
        for n in range(50):
            workers.begin(pod(f"p{n}"))
        await trio.sleep(0.1)
        for n in range(50):
            for grace in (3, 2, 1):
                workers.sync(pod(f"p{n}", grace=grace))
        await trio.sleep(2)

        assert {1} == {worker.pod.spec.termination_grace_period_seconds for worker in workers}
    assert 100 == len(script.calls)


async def test_cancelling_the_workers_stops_no_container(autojump_clock: MockClock) -> None:
    script = Script(takes_seconds=5)
    async with workers_of(script) as workers:
        workers.begin(A)
        await trio.sleep(1)

    assert ["sync"] == script.told
    assert 1 == script.interrupted


@pytest.mark.parametrize(("exists", "trusts_the_past"), [(False, True), (True, False)])
async def test_what_exists_already_is_seen_again_before_anything_is_done_to_it(
    exists: bool, trusts_the_past: bool, autojump_clock: MockClock
) -> None:
    script = Script()
    async with workers_of(script, NothingThere(*["uid-a"] if exists else [])) as workers:
        workers.begin(A)
        await trio.sleep(1)

    assert trusts_the_past is (script.sinces[0] == -math.inf)


@pytest.mark.parametrize("moved", ["moved", UUID])
async def test_no_pod_starts_under_a_uid_with_another_running_name(moved: str, autojump_clock: MockClock) -> None:
    """It stood in line before anybody knew what runs. It has no worker then, for the orphan needs the UID's."""
    script, runtime = Script(), NothingThere(moved)
    runtime.has_listed = False
    shop, next_one = pod("shop", uid=moved), pod("shop", uid="next")
    async with workers_of(script, runtime) as workers:
        workers.begin(shop)
        workers.begin(next_one)
        workers.begin(A)
        await trio.sleep(1)
        assert "" == workers.earlier.waits_because(shop)
        runtime.has_listed, runtime.records = True, [PodRecord(moved, "web", "default", (), ())]
        workers.earlier.turns.offer()
        await trio.sleep(1)
        assert [] == script.calls
        assert "the pod under its UID is default/web, which has not ended" == workers.earlier.waits_because(shop)
        assert f"the pod of UID {moved} under its name has not ended" == workers.earlier.waits_because(next_one)

        orphans = workers.earlier.orphans_under_uids([shop, A])
        assert runtime.records == orphans
        workers.withdraw_for(orphans)
        assert ["next", "uid-a"] == [worker.pod.metadata.uid for worker in workers]
        assert orphans == workers.earlier.orphans_under_uids([shop, A])
        workers.earlier.turns.offer()
        await trio.sleep(1)
        assert {"next"} == {uid for _, _, uid in script.calls}, "what runs under the name web has no worker yet"
        assert "the pod of an earlier agent under its name has not ended" == workers.earlier.waits_because(A)
        workers.kill_orphan(orphan_pod(moved, "web", "default"))
        workers.sync(shop, create=True)
        assert "its UID is that of pod default/web, which has not ended" == workers.earlier.waits_because(shop)
        runtime.records, script.takes_seconds = [], 0
        await trio.sleep(5)
        assert {"next", moved, "uid-a"} == {uid for _, _, uid in script.calls}
        runtime.having.clear()
        workers.begin_again({moved})
        assert moved not in workers
