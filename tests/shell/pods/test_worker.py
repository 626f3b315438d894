"""One pod's worker: when it tries again, what interrupts it, and that no request is ever lost."""

from __future__ import annotations

import errno
import math
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Script
from trikubelet.app.translate import bounds_of
from trikubelet.core.lifecycle import (
    Finished,
    Outcome,
    Starting,
    Stop,
    StopReason,
    Sync,
    Syncing,
    Terminated,
    Terminating,
)
from trikubelet.kit.barrier import InvariantBroken
from trikubelet.model.bounds import Bounds
from trikubelet.model.errors import CgroupFailed, NetworkNotReady, PodSyncError, RetryAt, VolumeFailed
from trikubelet.model.kubelet_configuration import KubeletConfiguration
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.pods.figures import PodFigures
from trikubelet.pods.worker import PodWorker
from trikubelet.testing.builders import pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from trio.testing import MockClock

BOUNDS = Bounds()


def worker_of(script: Script, **fields: object) -> PodWorker:
    return PodWorker(pod("web", **fields), Starting(), script, BOUNDS, random.Random(1), PodFigures())  # type: ignore[arg-type]


@asynccontextmanager
async def ten_seconds_at_work(script: Script) -> AsyncIterator[PodWorker]:
    """A worker of a pod that it has begun with, ten seconds later; it works on for the length of the block."""
    worker = PodWorker(pod("web"), Syncing(), script, BOUNDS, random.Random(1), PodFigures())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        await trio.sleep(10)
        yield worker
        nursery.cancel_scope.cancel()


async def lives(worker: PodWorker, seconds: float) -> None:
    with trio.move_on_after(seconds):
        await worker.run()


@pytest.mark.parametrize(
    ("outcome", "least", "most"),
    [
        (Outcome.AGAIN, BOUNDS.resync_seconds, 1.5 * BOUNDS.resync_seconds),
        (Outcome.IDLE, BOUNDS.resync_seconds, 1.5 * BOUNDS.resync_seconds),
        (Outcome.AT_ONCE, 0, 0),
        (PodSyncError("R", "m"), BOUNDS.retry_seconds, 1.5 * BOUNDS.retry_seconds),
        (RuntimeFailure("m"), BOUNDS.retry_seconds, 1.5 * BOUNDS.retry_seconds),
        (trio.TooSlowError(), BOUNDS.retry_seconds, 1.5 * BOUNDS.retry_seconds),
        (NetworkNotReady("R", "m"), BOUNDS.network_retry_seconds, BOUNDS.network_retry_seconds),
        (RetryAt("R", "m", at=7.0), 7.0, 7.0),
        (RetryAt("R", "m", at=-5.0), 0.0, 0.0),
        (RetryAt("R", "m", at=1e6), BOUNDS.resync_seconds, 1.5 * BOUNDS.resync_seconds),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
async def test_how_a_sync_ended_decides_when_the_next_begins(
    outcome: Outcome | Exception, least: float, most: float, autojump_clock: MockClock
) -> None:
    script = Script([outcome])
    await lives(worker_of(script), 200)

    assert least <= script.times[1] - script.times[0] <= most


async def test_a_pod_that_is_well_is_synced_as_often_as_the_configuration_says(autojump_clock: MockClock) -> None:
    bounds = bounds_of(KubeletConfiguration(sync_frequency=7.0))
    script = Script(10 * [Outcome.IDLE])
    await lives(PodWorker(pod("web"), Starting(), script, bounds, random.Random(1), PodFigures()), 60)

    gaps = [after - before for before, after in zip(script.times, script.times[1:], strict=False)]
    assert gaps
    assert all(7 <= gap <= 1.5 * 7 for gap in gaps), gaps


@pytest.mark.parametrize("state", [Terminating(1, StopReason.REMOVED), Terminated(StopReason.REMOVED)])
async def test_a_pod_that_ends_is_not_tried_more_often_because_its_deadline_is_over(
    state: Terminating | Terminated, autojump_clock: MockClock
) -> None:
    script = Script([PodSyncError("R", "m")], left_seconds=-100.0)
    await lives(PodWorker(pod("web"), state, script, BOUNDS, random.Random(1), PodFigures()), 200)

    assert script.times[1] - script.times[0] >= BOUNDS.retry_seconds


async def test_a_volume_that_failed_is_tried_again_soon_and_then_less_and_less_often(
    autojump_clock: MockClock,
) -> None:
    script = Script([*8 * [VolumeFailed("FailedMount", "m")], Outcome.AGAIN, VolumeFailed("FailedMount", "m")])
    await lives(worker_of(script), 300)

    gaps = [after - before for before, after in zip(script.times, script.times[1:], strict=False)]
    least = [0.5, 1, 2, 4, 8, 10, 10, 10, BOUNDS.resync_seconds, 0.5]
    assert all(least <= gap <= 1.5 * least for gap, least in zip(gaps, least, strict=False)), gaps


async def test_delays_are_spread_so_that_pods_do_not_sync_in_step(autojump_clock: MockClock) -> None:
    script = Script()
    await lives(worker_of(script), 1000)

    gaps = [round(b - a, 6) for a, b in zip(script.times, script.times[1:], strict=False)]
    assert len(gaps) == len(set(gaps))


async def test_a_change_of_state_is_followed_at_once(autojump_clock: MockClock) -> None:
    script = Script([Outcome.DONE])
    worker = worker_of(script)
    began = trio.current_time()
    await worker.run()

    assert ["sync", "terminate 30", "clean up"] == script.told
    assert isinstance(worker.state, Finished)
    assert began == trio.current_time()


async def test_a_request_during_a_sync_is_acted_on_after_it(autojump_clock: MockClock) -> None:
    script = Script(takes_seconds=5)
    worker = worker_of(script)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        await trio.sleep(1)
        worker.ask(Sync(), pod("web", uid="uid-web", grace=3))
        await trio.sleep(6)
        nursery.cancel_scope.cancel()

    assert [0.0, 5.0] == script.times


async def test_a_stop_interrupts_and_is_never_forgotten(autojump_clock: MockClock) -> None:
    script = Script(takes_seconds=5)
    worker = worker_of(script)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        await trio.sleep(1)
        worker.ask(Sync())
        worker.ask(Stop(StopReason.REMOVED))
        worker.ask(Sync())

    assert ["sync", "terminate 30", "clean up"] == script.told
    assert 1.0 == script.times[1]


async def test_grace_only_shrinks_and_shrinking_interrupts(autojump_clock: MockClock) -> None:
    script = Script(takes_seconds=100)
    worker = worker_of(script)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        await trio.sleep(1)
        for grace in (20, 25, 5, None, 0):
            worker.ask(Stop(StopReason.DISRUPTED, grace_override=grace))
            await trio.sleep(1)
        nursery.cancel_scope.cancel()

    assert ["sync", "terminate 20", "terminate 5", "terminate 1"] == script.told


async def test_a_pod_stopped_before_its_first_sync_is_finished_without_one(autojump_clock: MockClock) -> None:
    script = Script()
    worker = worker_of(script)
    worker.ask(Stop(StopReason.REMOVED))
    await worker.run()

    assert [] == script.told


async def test_a_pod_that_exists_already_is_stopped_even_before_its_first_sync(autojump_clock: MockClock) -> None:
    script = Script()
    worker = PodWorker(pod("web"), Syncing(), script, BOUNDS, random.Random(1), PodFigures())
    worker.ask(Stop(StopReason.DELETED))
    await worker.run()

    assert ["terminate 30", "clean up"] == script.told


async def test_each_sync_sees_the_world_as_it_is_after_the_one_before(autojump_clock: MockClock) -> None:
    script = Script(takes_seconds=5)
    worker = worker_of(script)
    await lives(worker, 200)

    assert -math.inf == script.sinces[0]
    for began, since in zip(script.times, script.sinces[1:], strict=False):
        assert began + 5 <= since < began + 5.001


async def test_a_sync_that_did_nothing_is_not_waited_for_to_show(autojump_clock: MockClock) -> None:
    script = Script([Outcome.AGAIN, Outcome.IDLE, Outcome.IDLE, Outcome.AGAIN], takes_seconds=5)
    await lives(worker_of(script), 500)

    first, acted, idle, idle_again, acted_again = script.sinces[:5]
    assert -math.inf == first < acted == idle == idle_again < acted_again


async def test_before_a_pod_is_stopped_it_is_looked_at_for_what_the_interrupted_sync_made(
    autojump_clock: MockClock,
) -> None:
    script = Script(takes_seconds=5)
    worker = worker_of(script)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        await trio.sleep(1)
        worker.ask(Stop(StopReason.REMOVED))

    assert [False, True] == script.soons
    assert 1.0 <= script.sinces[1] < 1.001


async def test_a_sync_that_ends_just_as_it_is_interrupted_does_not_count(autojump_clock: MockClock) -> None:
    script = Script()
    worker = worker_of(script)

    async def sync(newest: object, observed: object) -> Outcome:
        script.calls.append((trio.current_time(), "sync", ""))
        worker.ask(Stop(StopReason.REMOVED))
        return Outcome.DONE

    script.sync = sync  # type: ignore[method-assign,assignment]
    await worker.run()

    assert ["sync", "terminate 30", "clean up"] == script.told


async def test_the_newest_configuration_is_acted_on_though_it_came_while_waiting(autojump_clock: MockClock) -> None:
    script = Script()
    seen = []

    async def observe(uid: str, since: float, *, soon: bool = False) -> object:
        await trio.sleep(5)
        return None

    async def sync(newest: object, observed: object) -> Outcome:
        seen.append(newest)
        return Outcome.AGAIN

    script.observe, script.sync = observe, sync  # type: ignore[method-assign,assignment]
    worker = worker_of(script)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        await trio.sleep(1)
        edited = pod("web", grace=3)
        worker.ask(Sync(), edited)
        await trio.sleep(5)
        nursery.cancel_scope.cancel()

    assert [edited] == seen


async def test_a_bug_in_a_sync_is_logged_counted_and_tried_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script([KeyError("oops")])
    worker = worker_of(script)
    await lives(worker, 20)

    assert 2 == len(script.times)
    assert 1 == worker.statistics().failures
    assert "a bug in its worker" in caplog.text


async def test_a_bug_that_stays_is_met_less_and_less_often_and_told_once_an_hour(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script([*7 * [KeyError("oops")], Outcome.AGAIN, KeyError("oops")])
    await lives(worker_of(script), 1500)

    gaps = [after - before for before, after in zip(script.times, script.times[1:], strict=False)]
    least = [10, 20, 40, 80, 160, BOUNDS.bug_retry_seconds_max, BOUNDS.bug_retry_seconds_max, BOUNDS.resync_seconds, 10]
    assert all(least <= gap <= 1.5 * least for gap, least in zip(gaps, least, strict=False)), gaps
    assert len(least) <= len(gaps)
    assert 1 == caplog.text.count("a bug in its worker")


async def test_what_happens_to_a_pod_with_a_bug_is_not_kept_waiting(autojump_clock: MockClock) -> None:
    script = Script(20 * [KeyError("oops")])
    worker = worker_of(script)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        await trio.sleep(1000)
        worker.ask(Sync(), pod("web", grace=3))
        await trio.sleep(1)
        nursery.cancel_scope.cancel()

    assert 1000 == script.times[-1] - script.times[0]


async def fails_when_cancelled(error: Exception) -> None:
    try:
        await trio.sleep_forever()
    finally:
        raise error


async def is_deleted_during(sync: Callable[..., Awaitable[Outcome]]) -> tuple[Script, PodWorker]:
    """A pod that is deleted a second after a sync was begun which does this."""
    script = Script()
    script.sync = sync  # type: ignore[method-assign]
    worker = worker_of(script)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        await trio.sleep(1)
        worker.ask(Stop(StopReason.DELETED))
    return script, worker


async def test_a_bug_that_shows_when_the_sync_is_interrupted_stays_the_pods_own(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def sync(newest: object, observed: object) -> Outcome:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails_when_cancelled, ValueError("oops"))
            nursery.start_soon(trio.sleep_forever)
        return Outcome.AGAIN

    script, worker = await is_deleted_during(sync)

    assert ["terminate 30", "clean up"] == script.told
    assert 1.0 == script.times[0]
    assert 1 == worker.statistics().failures
    assert "a bug in its worker" in caplog.text


async def test_an_invariant_broken_in_an_interrupted_sync_is_let_through(autojump_clock: MockClock) -> None:
    async def sync(newest: object, observed: object) -> Outcome:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails_when_cancelled, InvariantBroken("x"))
            nursery.start_soon(trio.sleep_forever)
        return Outcome.AGAIN

    with pytest.RaisesGroup(InvariantBroken, flatten_subgroups=True):
        await is_deleted_during(sync)


@pytest.mark.parametrize("error", [InvariantBroken("x"), ExceptionGroup("g", [InvariantBroken("x"), KeyError()])])
async def test_a_broken_invariant_is_let_through(error: Exception, autojump_clock: MockClock) -> None:
    with pytest.raises((InvariantBroken, ExceptionGroup)):
        await worker_of(Script([error])).run()


async def test_a_terminating_pod_that_fails_to_stop_is_tried_again_and_never_synced(autojump_clock: MockClock) -> None:
    script = Script([Outcome.DONE, RuntimeFailure("no"), RuntimeFailure("no")])
    worker = worker_of(script)
    await worker.run()

    assert ["sync", *["terminate 30"] * 3, "clean up"] == script.told


def full(code: int, path: str) -> VolumeFailed:
    error = VolumeFailed("FailedUnmount", f"UnmountVolume.TearDown failed for pod uid-web: {path}")
    error.__cause__ = OSError(code, "no")
    return error


async def test_what_cannot_be_taken_down_is_logged_once_and_again_for_another_reason(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    immutable = [full(errno.EPERM, f"volume-{number}") for number in range(15)]
    script = Script([*immutable, full(errno.EBUSY, "mounted"), CgroupFailed("FailedKillPod", "busy"), Outcome.DONE])
    await lives(
        PodWorker(pod("web"), Terminated(StopReason.REMOVED), script, BOUNDS, random.Random(1), PodFigures()), 900
    )

    failed = "Pod default/web: cannot take down its volumes or cgroup, will try again: "
    unmount = "FailedUnmount: UnmountVolume.TearDown failed for pod uid-web: "
    assert [
        ("WARNING", f"{failed}{unmount}volume-0"),
        ("WARNING", f"{failed}{unmount}mounted"),
        ("WARNING", f"{failed}FailedKillPod: busy"),
    ] == [(record.levelname, record.getMessage()) for record in caplog.records]
    assert 18 == len(script.calls)


async def test_a_sync_at_a_pod_that_runs_tells_of_its_failure_by_events_alone(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    await lives(worker_of(Script([VolumeFailed("FailedMount", "m")])), 20)

    assert [] == caplog.records


async def test_what_a_worker_does_is_reported_in_words(autojump_clock: MockClock) -> None:
    worker = worker_of(Script([PodSyncError("R", "m")]))
    await lives(worker, 1)

    assert "<PodWorker default/web Syncing after 1 syncs>" == repr(worker)
    statistics = worker.statistics()
    assert (1, 1, "R: m", None) == (
        statistics.syncs,
        statistics.failures,
        statistics.last_error,
        statistics.busy_since,
    )
    assert not isinstance(statistics.state, Terminating)


async def test_what_probes_conclude_is_shown_in_the_middle_of_a_sync_and_acted_on_after_it(
    autojump_clock: MockClock,
) -> None:
    script = Script(takes_seconds=30)
    async with ten_seconds_at_work(script) as worker:
        worker.probe_result_changed()
        assert ["uid-web"] == script.shown
        await trio.sleep(25)
        assert [0, 30] == [round(at - script.times[0]) for at in script.times]


async def test_between_syncs_the_next_one_shows_it(autojump_clock: MockClock) -> None:
    script = Script()
    async with ten_seconds_at_work(script) as worker:
        worker.probe_result_changed()
        await trio.sleep(1)
        assert ([], 2) == (script.shown, len(script.calls))


async def test_a_readiness_gate_is_shown_without_a_sync(autojump_clock: MockClock) -> None:
    script = Script()
    async with ten_seconds_at_work(script) as worker:
        edited = pod("web", grace=3)
        worker.readiness_gates_changed(edited)
        await trio.sleep(1)
        assert (["uid-web"], 1, edited) == (script.shown, len(script.calls), worker.pod)


async def test_a_sync_that_began_without_a_gates_condition_is_followed_by_another(
    autojump_clock: MockClock,
) -> None:
    script = Script(takes_seconds=30)
    async with ten_seconds_at_work(script) as worker:
        worker.readiness_gates_changed(pod("web"))
        assert ["uid-web"] == script.shown
        await trio.sleep(25)
        assert [0, 30] == [round(at - script.times[0]) for at in script.times]
