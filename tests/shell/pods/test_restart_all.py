"""A container whose exit restarts all containers of its pod, again and again: slower each time, and what it leaves."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import trio

from core.podkit import rule
from shell.pods.shellkit import Bench, until
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.pods.stop import PodKiller
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.app.node import Node
    from trikubelet.model.k8s import ContainerStatus, Pod

UID = "uid-again"
ALL = rule("RestartAllContainers", "In", 88)


def again() -> Pod:
    """One whose init container takes a second, and whose boss ends two seconds after it has begun."""
    boss = container("boss", ["exit", "88", "2"], restart_policy="Never", restart_policy_rules=(ALL,))
    return pod("again", boss, container("web"), init=[container("first", ["exit", "0", "1"])])


def statuses(node: Node) -> dict[str, ContainerStatus]:
    status = node.statuses.get(UID)
    return {} if status is None else {s.name: s for s in (*status.init_container_statuses, *status.container_statuses)}


def waits_for(node: Node, name: str) -> str:
    """The reason for which the container waits, or empty."""
    state = statuses(node)[name].state if name in statuses(node) else None
    return state.waiting.reason if state is not None and state.waiting is not None else ""


def all_restarting(node: Node) -> str:
    """What the condition says of it."""
    status = node.statuses.get(UID)
    assert status is not None
    return {one.type: one.status for one in status.conditions}["AllContainersRestarting"]


def has_run(node: Node, name: str, times: int) -> bool:
    """Whether the container runs, and has been started so often before."""
    status = statuses(node).get(name)
    return status is not None and status.restart_count == times and bool(status.state and status.state.running)


async def test_a_pod_that_starts_over_again_and_again_waits_longer_each_time(autojump_clock: MockClock) -> None:
    bench, rounds = Bench(), []
    async with bench.agent(again()) as node:
        for times in range(6):
            await until(lambda times=times: has_run(node, "boss", times), 400)  # type: ignore[misc]
            rounds.append(trio.current_time())

    # Two seconds until it ends, and from then on the back-off, none at first; then the init container's one second, and
    # up to a second each until what ended is listed.
    assert [3, 13, 23, 43, 83] == [pytest.approx(after - before - 1, abs=1.5) for before, after in pairwise(rounds)]


async def test_while_it_backs_off_nothing_of_the_pod_runs_and_its_status_says_why(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(again()) as node:
        await until(lambda: waits_for(node, "boss") == "CrashLoopBackOff")
        await trio.sleep(5)

        assert [] == bench.running()
        assert ["boss"] == [one.name for one in bench.world.all_containers()]
        assert ["CrashLoopBackOff", "RestartingAllContainers", "RestartingAllContainers"] == [
            waits_for(node, name) for name in ("boss", "web", "first")
        ]
        ended = statuses(node)["boss"].last_state
        assert ended is not None
        assert ended.terminated is not None
        assert 88 == ended.terminated.exit_code
        assert "True" == all_restarting(node)

        await until(lambda: has_run(node, "boss", 2))
        assert "False" == all_restarting(node)


async def test_what_it_waited_for_is_over_once_it_starts_over(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(again()) as node:
        await until(lambda: waits_for(node, "boss") == "CrashLoopBackOff")
        await until(lambda: "first" in bench.running())
        await until(lambda: statuses(node)["first"].restart_count == 2)

        assert waits_for(node, "boss") in ("RestartingAllContainers", "PodInitializing")


async def test_an_agent_that_is_started_meanwhile_starts_the_pod_over(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(again()) as node:
        await until(lambda: waits_for(node, "boss") == "CrashLoopBackOff")
        await trio.sleep(1)
    async with bench.agent(again()) as node:
        await until(lambda: has_run(node, "boss", 2) and has_run(node, "web", 2), 20)


async def test_a_pod_of_one_container_starts_over_at_once(autojump_clock: MockClock) -> None:
    bench = Bench()
    alone = pod("again", container("boss", ["exit", "88", "2"], restart_policy_rules=(ALL,)))
    async with bench.agent(alone) as node:
        await until(lambda: has_run(node, "boss", 1), 10)


async def test_what_cannot_be_taken_away_is_taken_away_later(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, refused, reset = Bench(), [], PodKiller.reset

    async def refuse_once(self: PodKiller, pod: Pod, resets: object) -> None:
        if len(refused) < 2:
            refused.append(resets)
            raise RuntimeFailure("simulated failure")
        await reset(self, pod, resets)  # type: ignore[arg-type]

    monkeypatch.setattr(PodKiller, "reset", refuse_once)
    async with bench.agent(again()) as node:
        await until(lambda: has_run(node, "boss", 1) and has_run(node, "web", 1), 60)


async def test_the_logs_of_the_last_two_runs_stay(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(again()) as node:
        await until(lambda: has_run(node, "boss", 5) and has_run(node, "web", 5), 400)
        (directory,) = [config.log_directory for config in bench.world.sandbox_configs.values()]

        assert {name: [5, 4] for name in ("boss", "web", "first")} == {
            name: list(await bench.files.log_attempts(directory, name)) for name in ("boss", "web", "first")
        }
