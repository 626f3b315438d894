"""The back-offs that are kept: for whom, how many, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Bench, until
from trikubelet.core.restarts import BackoffLimits
from trikubelet.node.agent_stop import end_pods
from trikubelet.pods.crash_backoffs import CrashBackoffs, Wait
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.model.k8s import Container, Pod

FIRST = Wait(10.0, 10.0)


class Kept(CrashBackoffs):
    """Room for three."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        super().__init__(BackoffLimits(), self.clock, kept_max=3)

    def crashes(self, name: str) -> Wait | None:
        """A pod's container has ended this moment and is to be started: so it is, unless it waits."""
        return self.ended(name, self.clock.now_ns())

    def ended(self, name: str, finished_at: int) -> Wait | None:
        """Return the same of one that ended then."""
        asked = (pod(name, uid=name), container("app"), finished_at)
        if (wait := self.left(*asked)) is None:
            self.count(*asked)
        return wait

    def lets_go(self, name: str) -> tuple[Pod, Container, int]:
        """Return the same of one that is removed so that its pod starts over: the pod, the container and when it
        ended."""
        asked = (pod(name, uid=name), container("app"), self.clock.now_ns())
        self.let_go(*asked)
        return asked


async def test_a_container_that_crashes_again_waits(autojump_clock: MockClock) -> None:
    kept = Kept()

    assert kept.crashes("web") is None
    assert kept.crashes("web") == FIRST


async def test_asking_changes_nothing(autojump_clock: MockClock) -> None:
    kept = Kept()
    asked = (pod("web", uid="web"), container("app"), kept.clock.now_ns())

    assert [None, None, None] == [kept.left(*asked) for _ in range(3)]


async def test_of_too_many_those_go_that_were_not_used_for_longest(autojump_clock: MockClock) -> None:
    kept = Kept()
    ended = kept.clock.now_ns()
    for name in ("loops", "a", "b"):
        kept.crashes(name)
    await trio.sleep(10)
    assert kept.ended("loops", ended) is None  # its second start
    kept.crashes("c")

    assert kept.crashes("loops") == Wait(20.0, 20.0)
    assert kept.crashes("b") == FIRST
    assert kept.crashes("a") is None


async def test_an_end_that_was_let_go_has_waited_and_is_counted_once(autojump_clock: MockClock) -> None:
    kept = Kept()
    ended = kept.lets_go("web")
    kept.let_go(*ended)

    assert kept.left(*ended) is None
    kept.started_over(*ended[:2])
    assert kept.crashes("web") == FIRST


async def test_how_long_a_container_ran_well_counts_from_its_start_and_not_from_when_it_was_let_go(
    autojump_clock: MockClock,
) -> None:
    kept = Kept()
    ended = kept.lets_go("web")
    await trio.sleep(400)
    kept.started_over(*ended[:2])
    await trio.sleep(400)  # in all more than the ten minutes after which a back-off is forgotten

    assert kept.crashes("web") == FIRST


async def test_what_was_let_go_and_is_not_kept_any_more_is_a_container_like_any_other(
    autojump_clock: MockClock,
) -> None:
    kept = Kept()
    evicted = kept.lets_go("evicted")
    for name in ("a", "b", "c"):
        kept.crashes(name)
    kept.started_over(*evicted[:2])
    assert kept.crashes("evicted") is None

    forgotten = kept.lets_go("forgotten")
    kept.forget("forgotten")
    kept.started_over(*forgotten[:2])
    assert kept.crashes("forgotten") is None


async def test_of_a_pod_that_is_gone_nothing_is_kept(autojump_clock: MockClock) -> None:
    kept = Kept()
    kept.crashes("web")
    kept.crashes("other")
    kept.forget("web")

    assert kept.crashes("web") is None
    assert kept.crashes("other") == FIRST


async def test_a_pod_that_is_gone_is_forgotten(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[str] = []
    monkeypatch.setattr(CrashBackoffs, "forget", lambda _, uid: forgotten.append(uid))
    bench = Bench()
    async with bench.agent(pod("crash", container("main", ["exit", "1", "1"])), pod("web")) as node:
        await until(lambda: "main" in bench.running())
        node.slots["file"].put(Snapshot((pod("web"),)))

        await until(lambda: forgotten == ["uid-crash"])


def crash_runs(bench: Bench) -> int:
    """Return how often the container was started."""
    return len(bench.world.runs.get(("uid-crash", "main"), ()))


CRASHING = pod("crash", container("main", ["exit", "1", "1"]))


@pytest.mark.parametrize("seconds", [10, 33, 100])
async def test_restarts_of_the_agent_start_a_crashing_container_no_sooner(
    seconds: int, autojump_clock: MockClock
) -> None:
    undisturbed, restarted = Bench(), Bench()
    async with undisturbed.agent(CRASHING):
        await trio.sleep(30 * seconds)
    for _ in range(30):
        async with restarted.agent(CRASHING):
            await trio.sleep(seconds)

    assert crash_runs(restarted) <= crash_runs(undisturbed) + 1


async def test_a_container_that_an_earlier_agent_started_is_reported_to_back_off(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(CRASHING):
        await until(lambda: crash_runs(bench) == 4)
        await until(lambda: not bench.running())
    async with bench.agent(CRASHING) as node:
        await until(lambda: node.statuses.get("uid-crash") is not None)
        status = node.statuses.get("uid-crash")
        assert status is not None
        waiting = status.container_statuses[0].state.waiting
        assert waiting is not None
        assert ("CrashLoopBackOff", True) == (waiting.reason, "back-off 40s" in waiting.message)


async def test_a_reboot_forgives_all_crashes(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(CRASHING):
        await until(lambda: crash_runs(bench) == 7, 600)
        await until(lambda: not bench.running())
    bench.world.reboot()
    async with bench.agent(CRASHING):
        await until(lambda: crash_runs(bench) == 8, 5)


async def test_another_image_forgives_the_crashes_that_an_earlier_agent_saw(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(CRASHING):
        await until(lambda: crash_runs(bench) == 7, 600)
        await until(lambda: not bench.running())
    mended = pod("crash", container("main", ["exit", "1", "1"], image="app:2"))
    async with bench.agent(mended):
        await until(lambda: crash_runs(bench) == 8, 5)


async def test_a_container_that_crashed_before_its_agent_stopped_and_ended_its_sandbox_waits(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with bench.agent(CRASHING) as node:
        await until(lambda: crash_runs(bench) == 7, 600)
        await until(lambda: not bench.running())
        await end_pods(node.workers, 30, trio.Event())
    async with bench.agent(CRASHING):
        await trio.sleep(290)
        assert 7 == crash_runs(bench)
        await until(lambda: crash_runs(bench) == 8, 20)
