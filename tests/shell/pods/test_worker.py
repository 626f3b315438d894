"""One pod's worker: when it tries again, what interrupts it, and that no request is ever lost."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Script
from trikubelet.core.lifecycle import Finished, Outcome, Starting, Stop, StopReason, Sync, Syncing, Terminating
from trikubelet.model.bounds import Bounds
from trikubelet.model.errors import InvariantBroken, NetworkNotReady, PodSyncError, RetryAt
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.pods.worker import PodWorker
from trikubelet.testing.builders import pod

if TYPE_CHECKING:
    from trio.testing import MockClock

BOUNDS = Bounds()


def worker_of(script: Script, **fields: object) -> PodWorker:
    return PodWorker(pod("web", **fields), Starting(), script, BOUNDS, random.Random(1))  # type: ignore[arg-type]


async def lives(worker: PodWorker, seconds: float) -> None:
    with trio.move_on_after(seconds):
        await worker.run()


@pytest.mark.parametrize(
    ("outcome", "least", "most"),
    [
        (Outcome.AGAIN, BOUNDS.resync_seconds, 1.5 * BOUNDS.resync_seconds),
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
async def test_how_an_attempt_ended_decides_when_the_next_begins(
    outcome: Outcome | Exception, least: float, most: float, autojump_clock: MockClock
) -> None:
    script = Script([outcome])
    await lives(worker_of(script), 200)

    assert least <= script.times[1] - script.times[0] <= most


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


async def test_a_request_during_an_attempt_is_acted_on_after_it(autojump_clock: MockClock) -> None:
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
            worker.ask(Stop(StopReason.KILLED, grace_override=grace))
            await trio.sleep(1)
        nursery.cancel_scope.cancel()

    assert ["sync", "terminate 20", "terminate 5", "terminate 1"] == script.told


async def test_a_pod_stopped_before_its_first_attempt_is_finished_without_one(autojump_clock: MockClock) -> None:
    script = Script()
    worker = worker_of(script)
    worker.ask(Stop(StopReason.REMOVED))
    await worker.run()

    assert [] == script.told


async def test_a_pod_that_exists_already_is_stopped_even_before_its_first_attempt(autojump_clock: MockClock) -> None:
    script = Script()
    worker = PodWorker(pod("web"), Syncing(), script, BOUNDS, random.Random(1))
    worker.ask(Stop(StopReason.DELETED))
    await worker.run()

    assert ["terminate 30", "clean up"] == script.told


async def test_each_attempt_sees_the_world_as_it_is_after_the_one_before(autojump_clock: MockClock) -> None:
    script = Script(takes_seconds=5)
    worker = worker_of(script)
    await lives(worker, 200)

    assert -math.inf == script.sinces[0]
    for began, since in zip(script.times, script.sinces[1:], strict=False):
        assert began + 5 <= since < began + 5.001


async def test_before_a_pod_is_stopped_it_is_looked_at_for_what_the_interrupted_attempt_made(
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


async def test_an_attempt_that_ends_just_as_it_is_interrupted_does_not_count(autojump_clock: MockClock) -> None:
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


async def test_a_bug_in_an_attempt_is_logged_counted_and_tried_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script([KeyError("oops")])
    worker = worker_of(script)
    await lives(worker, 20)

    assert 2 == len(script.times)
    assert 1 == worker.statistics().failures
    assert "a bug in its worker" in caplog.text


@pytest.mark.parametrize("error", [InvariantBroken("x"), ExceptionGroup("g", [InvariantBroken("x"), KeyError()])])
async def test_a_broken_invariant_is_let_through(error: Exception, autojump_clock: MockClock) -> None:
    with pytest.raises((InvariantBroken, ExceptionGroup)):
        await worker_of(Script([error])).run()


async def test_a_terminating_pod_that_fails_to_stop_is_tried_again_and_never_synced(autojump_clock: MockClock) -> None:
    script = Script([Outcome.DONE, RuntimeFailure("no"), RuntimeFailure("no")])
    worker = worker_of(script)
    await worker.run()

    assert ["sync", *["terminate 30"] * 3, "clean up"] == script.told


async def test_what_a_worker_does_is_told_in_words(autojump_clock: MockClock) -> None:
    worker = worker_of(Script([PodSyncError("R", "m")]))
    await lives(worker, 1)

    assert "<PodWorker default/web Syncing after 1 attempts>" == repr(worker)
    statistics = worker.statistics()
    assert (1, 1, "R: m", None) == (
        statistics.attempts,
        statistics.failures,
        statistics.last_error,
        statistics.busy_since,
    )
    assert not isinstance(statistics.state, Terminating)
