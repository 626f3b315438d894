"""Garbage that does not go, or takes for ever, is in nobody's way: neither its own pod's nor another's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from shell.pods.shellkit import Bench, phase, until
from trikubelet.model.bounds import Bounds
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.chance import Odds
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from trio.testing import MockClock


async def refused(_self: MemoryRuntime, container_id: str) -> None:
    await trio.lowlevel.checkpoint()
    raise RuntimeFailure(f"cannot remove {container_id}: device or resource busy", "FAILED_PRECONDITION")


async def hung(_self: MemoryRuntime, _container_id: str) -> None:
    await trio.sleep_forever()


@pytest.mark.parametrize("broken", [refused, hung])
@pytest.mark.parametrize("policy", ["Always", "Never"])
async def test_returning_pod_is_not_confused_with_its_leftovers(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, broken: object, policy: str
) -> None:
    monkeypatch.setattr(MemoryRuntime, "remove_container", broken)
    monkeypatch.setattr(MemoryRuntime, "remove_sandbox", broken)
    bench, web = Bench(), pod("web", container(), init=(container("first", ["exit", "0", "1"]),), policy=policy)
    async with bench.agent(web) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot(()))
        await until(lambda: not bench.running())
        await trio.sleep(5)  # its garbage is being removed, in vain
        node.slots["file"].put(Snapshot((web,)))

        await until(lambda: bench.running() == ["main"], seconds=20)
        await until(lambda: phase(node, "uid-web") == "Running", seconds=5)
        await trio.sleep(200)
        node.slots["file"].put(Snapshot(()))
        await until(lambda: not bench.running(), seconds=20)

    assert [2, 2] == [len(bench.world.runs["uid-web", name]) for name in ("first", "main")]


async def test_the_last_word_on_a_pod_says_nothing_of_remains_of_its_earlier_life(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryRuntime, "remove_container", refused)
    monkeypatch.setattr(MemoryRuntime, "remove_sandbox", refused)
    bench, shown = Bench(), list[str]()
    done = pod("web", container(command=("exit", "0", "1")), policy="Never")
    never = pod("web", container(image="missing:1"), policy="Never")
    async with bench.agent(done) as node:
        await until(lambda: phase(node, "uid-web") == "Succeeded")
        node.slots["file"].put(Snapshot(()))
        await trio.sleep(5)  # its garbage is being removed, in vain
        node.statuses.changed.add(lambda _, __, status, ___: shown.append(status.phase))
        node.slots["file"].put(Snapshot((never,)))
        await until(lambda: bool(shown), seconds=20)
        await trio.sleep(5)
        node.slots["file"].put(Snapshot(()))
        await trio.sleep(5)

    assert "Succeeded" not in shown
    assert {"Pending"} <= {*shown}


async def test_a_new_pod_starts_at_once_whatever_garbage_hangs(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryRuntime, "remove_container", hung)
    bench = Bench()
    dead = [pod(f"dead-{number}", container(command=("exit", "0", "0")), uid=f"uid-{number}") for number in range(20)]
    async with bench.agent(*dead) as node:
        await until(lambda: len(bench.world.runs) == len(dead))
        node.slots["file"].put(Snapshot(()))
        await trio.sleep(70)  # a round of garbage has found all of them
        node.slots["file"].put(Snapshot((pod("web", container(name="new")),)))

        await until(lambda: bench.running() == ["new"], seconds=5)


async def test_a_pod_that_cannot_be_inspected_after_a_removal_is_no_failure_of_the_removal(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PLEG reports it, by the pod's name."""
    bench, remove = Bench(), MemoryRuntime.remove_container

    async def remove_and_break(self: MemoryRuntime, container_id: str) -> None:
        await remove(self, container_id)
        bench.problems.odds = Odds(error=1.0, only=frozenset({"PodSandboxStatus"}))

    monkeypatch.setattr(MemoryRuntime, "remove_container", remove_and_break)
    async with bench.agent(pod("web", container(command=("exit", "1", "0")))) as node:
        await until(lambda: bench.problems.odds.error > 0, seconds=120)
        await trio.sleep(60)
        told = [event.reason for event in node.events.all()]

    assert "NotInspected" in told or node.pleg.uninspected_pods()
    assert "ContainerGCFailed" not in told


async def test_a_regular_pass_takes_nothing_from_what_eviction_waits_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, let_go, remove = trio.Event(), trio.Event(), MemoryRuntime.remove_container
    done = pod("done", container("done", command=("exit", "0", "0")), policy="Never")

    async def wait_and_remove(self: MemoryRuntime, container_id: str) -> None:
        begun.set()
        await let_go.wait()
        await remove(self, container_id)

    monkeypatch.setattr(MemoryRuntime, "remove_container", wait_and_remove)
    bench = Bench(Bounds(removals_max=1))
    async with bench.agent(pod("busy", container("busy")), done) as node:
        await until(lambda: node.workers.has_ended("uid-done") and bench.running() == ["busy"])
        node.slots["file"].put(Snapshot((done,)))
        await begun.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.garbage.collect_unused)
            await trio.testing.wait_all_tasks_blocked()
            node.garbage.collect()
            let_go.set()

        assert [] == list(bench.world.all_containers())
        assert set() == node.garbage._unused, "what was asked for once does not hold for the pod's next containers"
