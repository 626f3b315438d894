"""When the agent stops and its runtime with it, pods end with their hooks and their grace, and have not failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Bench, does, phase, until
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState, SandboxState
from trikubelet.node.agent_stop import KILL_SECONDS_MAX, NAMED_MAX, end_pods
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.world import World

if TYPE_CHECKING:
    from trio.testing import MockClock


def stubborn(name: str, grace: int, **fields: object) -> k8s.Pod:
    """A pod that uses up its grace."""
    return pod(name, container(name, ["stubborn"]), grace=grace, **fields)


async def test_each_pod_ends_within_its_own_grace_or_the_bound(autojump_clock: MockClock) -> None:
    bench = Bench()
    pods = (stubborn("short", 5), stubborn("long", 600), pod("quick", container("quick")))
    async with bench.agent(*pods) as node:
        await until(lambda: bench.running() == ["long", "quick", "short"])
        ends = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_pods, node.workers, 30, trio.Event())
            await until(lambda: bench.running() == ["long", "short"], 2)
            await until(lambda: bench.running() == ["long"], 6)
            assert trio.current_time() - ends < 7
        assert [] == bench.running()
        assert 30 <= trio.current_time() - ends < 30 + KILL_SECONDS_MAX


async def test_pre_stop_hooks_run_before_the_containers_are_stopped(autojump_clock: MockClock) -> None:
    bench = Bench()
    hooked = container("web", lifecycle=k8s.Lifecycle(pre_stop=does("exit", "0", "3")))
    async with bench.agent(pod("web", hooked, grace=20)) as node:
        await until(lambda: bench.running() == ["web"])
        began = trio.current_time()
        await end_pods(node.workers, 30, trio.Event())

    assert 3 <= trio.current_time() - began < 5


async def test_pods_that_ended_with_the_agent_have_not_failed_and_run_again_in_a_new_sandbox(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    web = pod("web", container("web"), volumes=(k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource()),))
    api = pod("api", container("api"), source="api")
    async with bench.agent(web, api, sources=("file", "api")) as node:
        await until(lambda: bench.running() == ["api", "web"])
        await end_pods(node.workers, 30, trio.Event())
        assert ["Running", "Running"] == [phase(node, "uid-web"), phase(node, "uid-api")]
        assert {SandboxState.NOTREADY} == {box.state for box in bench.world.sandboxes.values()}
    assert {"uid-web"} == bench.volumes.mounted, "the next agent finds the volumes' content"

    async with bench.agent(web, api, sources=("file", "api")) as node:
        await until(lambda: bench.running() == ["api", "web"])
        await until(lambda: phase(node, "uid-web") == "Running")
        status = node.statuses.get("uid-web")
        assert status is not None
        assert 1 == status.container_statuses[0].restart_count


@pytest.mark.parametrize(("policy", "is_cut"), [("Never", True), ("Never", False), ("OnFailure", False)])
async def test_a_container_that_its_policy_does_not_restart_does_not_run_again(
    policy: str, is_cut: bool, autojump_clock: MockClock
) -> None:
    bench = Bench()
    once = pod("once", container("once", ["exit", "0", "5"]), policy=policy)
    async with bench.agent(once) as node:
        await until(lambda: bench.running() == ["once"])
        if not is_cut:
            await until(lambda: phase(node, "uid-once") == "Succeeded")
        await end_pods(node.workers, 30, trio.Event())
    async with bench.agent(once) as node:
        await until(lambda: phase(node, "uid-once") in ("Succeeded", "Failed"))
        await trio.sleep(60)

    assert 1 == len(bench.world.runs["uid-once", "once"])


async def test_a_pod_that_comes_while_the_others_end_is_ended_too(autojump_clock: MockClock) -> None:
    bench = Bench()
    slow, late = stubborn("slow", 20), pod("late", container("late"))
    async with bench.agent(slow) as node:
        await until(lambda: bench.running() == ["slow"])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_pods, node.workers, 30, trio.Event())
            await trio.sleep(2)
            node.slots["file"].put(Snapshot((slow, late)))
        assert [] == bench.running()
        assert "Failed" != phase(node, "uid-late")


async def test_a_pod_that_is_being_deleted_keeps_the_grace_it_has_left(autojump_clock: MockClock) -> None:
    bench = Bench()
    slow = stubborn("slow", 20)
    async with bench.agent(slow) as node:
        await until(lambda: bench.running() == ["slow"])
        began = trio.current_time()
        node.slots["file"].put(Snapshot())
        await trio.sleep(15)
        await end_pods(node.workers, 30, trio.Event())
        assert 20 <= trio.current_time() - began < 22


async def test_what_is_waited_for_is_logged_and_what_does_not_end_is_named(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    pods = [stubborn(f"p{n}", 20) for n in range(NAMED_MAX + 2)]
    async with bench.agent(*pods) as node:
        await until(lambda: len(bench.running()) == len(pods))
        caplog.set_level("INFO")
        with trio.fail_after(60):
            await end_pods(node.workers, 15, trio.Event())
    said = [message for name, _, message in caplog.record_tuples if name.endswith("agent_stop")]

    assert 3 == len(said)
    assert said[0].startswith("Waiting for 7 pods to end: default/p0 (grace 15 s), ")
    assert said[0].endswith(", 2 more; a second signal ends the agent and its pods at once")
    assert said[1].startswith("Still waiting for 7 pods to end: ")
    assert "All pods have ended" == said[2]


async def test_a_container_that_cannot_be_killed_does_not_hold_up_the_agent(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    async with bench.agent(stubborn("hung", 5)) as node:
        await until(lambda: bench.running() == ["hung"])
        monkeypatch.setattr(World, "stop_seconds", lambda *_: 1e6)
        began = trio.current_time()
        await end_pods(node.workers, 10, trio.Event())
        assert began + 10 + KILL_SECONDS_MAX == pytest.approx(trio.current_time(), abs=0.2)
        assert "Not ended in time, and killed now: 1 pod to end: default/hung (grace 5 s)" in caplog.messages
        assert [ContainerState.RUNNING] == [one.state for one in bench.world.all_containers()]


async def test_without_pods_nothing_is_waited_for_or_logged(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with Bench().agent() as node:
        caplog.set_level("INFO")
        began, stopping = trio.current_time(), trio.Event()
        await end_pods(node.workers, 30, stopping)
        assert (began, True) == (trio.current_time(), stopping.is_set())
    assert [] == [name for name, _, _ in caplog.record_tuples if name.endswith("agent_stop")]
