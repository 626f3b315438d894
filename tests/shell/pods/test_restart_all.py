"""A container whose exit restarts all containers of its pod, again and again: slower each time, and what it leaves."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from core.podkit import rule
from shell.pods.shellkit import Bench, phase, until
from trikubelet.core.names import LOGGED_ATTEMPTS_MAX
from trikubelet.model import k8s
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.pods.stop import PodKiller
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trio.testing import MockClock

    from trikubelet.app.node import Node
    from trikubelet.core.actions import Reset
    from trikubelet.model.k8s import ContainerStatus, Pod
    from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig

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
    """Return the condition about it."""
    status = node.statuses.get(UID)
    assert status is not None
    return {one.type: one.status for one in status.conditions}["AllContainersRestarting"]


def has_run(node: Node, name: str, times: int) -> bool:
    """True if the container runs, and was started that often before."""
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

    async def refuse(self: PodKiller, pod: Pod, resets: Sequence[Reset]) -> None:
        """Twice the others, twice the cause."""
        if [one.is_cause for one in refused].count(is_cause := resets[0].is_cause) < 2:
            refused.append(resets[0])
            raise RuntimeFailure(f"simulated failure, {is_cause=}")
        await reset(self, pod, resets)

    monkeypatch.setattr(PodKiller, "reset", refuse)
    async with bench.agent(again()) as node:
        await until(lambda: has_run(node, "boss", 1) and has_run(node, "web", 1), 90)
        assert [False, False, True, True] == [one.is_cause for one in refused]

        # What was tried in vain was no restart: the next back-off is the first one.
        await until(lambda: waits_for(node, "boss") == "CrashLoopBackOff")
        ended = trio.current_time()
        await until(lambda: has_run(node, "boss", 2), 20)
        assert 10 == pytest.approx(trio.current_time() - ended, abs=2)


async def test_of_two_causes_each_waits_as_often_as_it_has_ended(autojump_clock: MockClock) -> None:
    bench, rounds = Bench(), []
    both = [
        container(name, ["exit", "88", after], restart_policy="Never", restart_policy_rules=(ALL,))
        for name, after in (("boss", "2"), ("chief", "2.5"))
    ]
    async with bench.agent(pod("again", *both)) as node:
        for times in range(5):
            await until(lambda times=times: has_run(node, "boss", times), 400)  # type: ignore[misc]
            rounds.append(trio.current_time())

    assert [2, 12, 22, 42] == [pytest.approx(after - before, abs=2.5) for before, after in pairwise(rounds)]


async def test_debugger_does_not_wait_for_the_pods_back_off(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(again()) as node:
        await until(lambda: has_run(node, "boss", 3), 100)
        await until(lambda: waits_for(node, "boss") == "CrashLoopBackOff")
        debugger = k8s.EphemeralContainer(name="debug", image="app:1", command=("run",))
        spec = msgspec.structs.replace(again().spec, ephemeral_containers=(debugger,))
        node.slots["file"].put(Snapshot((msgspec.structs.replace(again(), spec=spec),)))

        await until(lambda: bench.running() == ["debug"], 5)
        assert "CrashLoopBackOff" == waits_for(node, "boss")
        await until(lambda: has_run(node, "boss", 4), 60)
        assert "debug" in bench.running()


async def test_a_debugger_that_cannot_start_holds_up_nothing(autojump_clock: MockClock) -> None:
    bench, rounds = Bench(), []
    debugger = k8s.EphemeralContainer(name="debug", image="missing:1", command=("run",))
    spec = msgspec.structs.replace(again().spec, ephemeral_containers=(debugger,))
    async with bench.agent(msgspec.structs.replace(again(), spec=spec)) as node:
        for times in range(6):
            await until(lambda times=times: has_run(node, "boss", times), 400)  # type: ignore[misc]
            rounds.append(trio.current_time())

    assert [3, 13, 23, 43, 83] == [pytest.approx(after - before - 1, abs=1.5) for before, after in pairwise(rounds)]


@pytest.mark.parametrize("after_seconds", [0.0005, 0.0015, 0.0025, 0.004])
async def test_an_attempt_that_is_cut_as_the_cause_goes_has_counted_it(
    after_seconds: float, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, reset, cut = Bench(), PodKiller.reset, []

    async def cut_once(self: PodKiller, pod: Pod, resets: Sequence[Reset]) -> None:
        if resets[0].is_cause and not cut:
            cut.append(resets)
            with trio.move_on_after(after_seconds):
                await reset(self, pod, resets)
            raise RuntimeFailure("the answer is lost")
        await reset(self, pod, resets)

    monkeypatch.setattr(PodKiller, "reset", cut_once)
    async with bench.agent(again()) as node:
        await until(lambda: has_run(node, "boss", 1), 60)
        await until(lambda: waits_for(node, "boss") == "CrashLoopBackOff", 10)
        ended = trio.current_time()
        await until(lambda: has_run(node, "boss", 2), 20)

        assert 10 == pytest.approx(trio.current_time() - ended, abs=2)


async def test_what_had_ended_before_is_shown_as_restarting_too(autojump_clock: MockClock) -> None:
    bench = Bench()
    boss = container("boss", ["exit", "88", "2"], restart_policy_rules=(ALL,))
    job = container("job", ["exit", "0", "1"], restart_policy="Never")
    async with bench.agent(pod("again", boss, job)) as node:
        await until(lambda: waits_for(node, "boss") == "CrashLoopBackOff")
        await trio.sleep(2)

        assert "RestartingAllContainers" == waits_for(node, "job")


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
@pytest.mark.parametrize("refusals", [0, 2])
async def test_a_watcher_beside_the_others_has_them_restarted_whatever_the_policy(
    policy: str, refusals: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, left, remove = Bench(), [refusals], MemoryRuntime.remove_container

    async def refuse(self: MemoryRuntime, container_id: str) -> None:
        if left[0]:
            left[0] -= 1
            raise RuntimeFailure("simulated failure")
        await remove(self, container_id)

    monkeypatch.setattr(MemoryRuntime, "remove_container", refuse)
    watcher = container("watcher", ["exit", "88", "5"], restart_policy="Always", restart_policy_rules=(ALL,))
    later = container("later", ["exit", "0", "1"])
    watched = pod("again", container("web"), init=[container("setup", ["exit", "0", "1"]), watcher, later])
    spec = msgspec.structs.replace(watched.spec, restart_policy=policy)
    async with bench.agent(msgspec.structs.replace(watched, spec=spec)) as node:
        shown = []
        node.statuses.changed.add(lambda _uid, _pod, status, _version: shown.append(status.phase))
        for times in range(4):
            await until(lambda times=times: has_run(node, "web", times), 200)  # type: ignore[misc]

        assert {"Pending", "Running"} == set(shown)
        assert 4 == statuses(node)["watcher"].restart_count + 1


async def test_an_init_container_that_is_stopped_for_it_runs_again(autojump_clock: MockClock) -> None:
    bench = Bench()
    watcher = container("watcher", ["exit", "88", "2"], restart_policy="Always", restart_policy_rules=(ALL,))
    slow = container("slow", ["exit", "0", "5"])
    watched = pod("again", container("web"), init=[watcher, slow], policy="Never")
    async with bench.agent(watched) as node:
        await until(lambda: statuses(node).get("slow") is not None and statuses(node)["slow"].restart_count == 3, 200)

        assert "Pending" == phase(node, UID)


async def test_a_sibling_that_cannot_be_made_again_is_waited_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, create, refused = Bench(), MemoryRuntime.create_container, []

    async def refuse(self: MemoryRuntime, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        if config.name == "web" and config.attempt == 1 and len(refused) < 3:
            refused.append(config)
            raise RuntimeFailure("simulated failure")
        return await create(self, sandbox_id, config, sandbox)

    monkeypatch.setattr(MemoryRuntime, "create_container", refuse)
    boss = container("boss", ["exit", "88", "2"], restart_policy="Never", restart_policy_rules=(ALL,))
    async with bench.agent(pod("again", boss, container("web"), policy="Never")) as node:
        await until(lambda: has_run(node, "web", 1), 100)

        assert 3 == len(refused)


async def test_what_backed_off_itself_is_shown_as_restarting_too(autojump_clock: MockClock) -> None:
    bench = Bench()
    boss = container("boss", ["exit", "88", "8"], restart_policy_rules=(ALL,))
    async with bench.agent(pod("again", boss, container("crashing", ["exit", "1", "1"]))) as node:
        await until(lambda: waits_for(node, "crashing") == "CrashLoopBackOff")
        await until(lambda: waits_for(node, "boss") == "CrashLoopBackOff", 60)
        await trio.sleep(1)

        assert "RestartingAllContainers" == waits_for(node, "crashing")


async def test_old_logs_on_a_slow_disk_hold_up_no_container(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, removed = Bench(), []
    for attempt in range(30):
        bench.files.content[f"/var/log/pods/default_again_{UID}/boss/{attempt}.log"] = b""  # type: ignore[attr-defined]

    async def remove(path: str) -> None:
        await trio.sleep(5)
        removed.append(path)

    monkeypatch.setattr(bench.files, "remove_container_logs", remove)
    async with bench.agent(pod("again", container("boss"), container("web"))):
        await until(lambda: "boss" in bench.running())
        began = trio.current_time()
        await until(lambda: "web" in bench.running())

    assert 2 > trio.current_time() - began


async def test_of_a_container_that_the_runtime_has_forgotten_any_number_of_old_logs_goes(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    runs = 2 * LOGGED_ATTEMPTS_MAX + 50
    directory = f"/var/log/pods/default_again_{UID}"
    bench.files.directories.add(directory)  # type: ignore[attr-defined]
    for attempt in range(runs):
        bench.files.content[f"{directory}/boss/{attempt}.log"] = b""  # type: ignore[attr-defined]

    async with bench.agent(pod("again", container("boss"), container("web"))):
        await until(lambda: "web" in bench.running())

        assert [runs, runs - 1] == list(await bench.files.log_attempts(directory, "boss"))


async def test_old_logs_that_do_not_go_are_not_tried_again_and_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory may be called as one."""
    bench, asked = Bench(), []
    for attempt in range(30):
        bench.files.content[f"/var/log/pods/default_again_{UID}/boss/{attempt}.log"] = b""  # type: ignore[attr-defined]

    async def leave(path: str) -> None:
        await trio.lowlevel.checkpoint()
        asked.append(path)
        assert len(asked) < 100

    monkeypatch.setattr(bench.files, "remove_container_logs", leave)
    async with bench.agent(pod("again", container("boss"), container("web"))):
        await until(lambda: "web" in bench.running())

    assert len(set(asked)) == len(asked) == 29


async def test_the_logs_of_the_last_two_runs_stay(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(again()) as node:
        await until(lambda: has_run(node, "boss", 5) and has_run(node, "web", 5), 400)
        (directory,) = [config.log_directory for config in bench.world.sandbox_configs.values()]

        assert {name: [5, 4] for name in ("boss", "web", "first")} == {
            name: list(await bench.files.log_attempts(directory, name)) for name in ("boss", "web", "first")
        }
