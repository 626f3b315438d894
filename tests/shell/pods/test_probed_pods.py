"""Pods with probes on a whole node in memory: what is shown, who is killed, who waits for whom, on virtual time.

How a container answers is written in its probe, see ``testing.health``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from shell.pods.shellkit import Bench, until
from trikubelet.model import k8s
from trikubelet.model.pod_notes import Note
from trikubelet.model.runtime import ContainerState
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_handlers import MemoryHandlers

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.testing import MockClock

    from trikubelet.app.node import Node


def http(words: str, name: str = "main", **timing: int) -> k8s.Probe:
    """A probe that asks the container of that name, each second unless said otherwise."""
    action = k8s.HTTPGetAction(port=80, path=f"/{name}/{words.replace(' ', '/')}", scheme="HTTP")
    return k8s.Probe(http_get=action, **{"period_seconds": 1, **timing})


def command(words: str, **timing: int) -> k8s.Probe:
    """A probe that runs a command."""
    action = k8s.ExecAction(command=("check", *words.split()))
    return k8s.Probe(exec=action, **{"period_seconds": 1, **timing})


def grpc(words: str, **timing: int) -> k8s.Probe:
    """A probe by gRPC."""
    action = k8s.GRPCAction(port=80, service=f"main/{words.replace(' ', '/')}")
    return k8s.Probe(grpc=action, **{"period_seconds": 1, **timing})


TCP = k8s.Probe(tcp_socket=k8s.TCPSocketAction(port=80), period_seconds=1)


def probed(command: tuple[str, ...] = ("run",), *, name: str = "web", source: str = "file", **probes: Any) -> k8s.Pod:
    """A pod with one container."""
    return pod(name, container("main", command, **probes), uid=f"uid-{name}", source=source)


def shown(node: Node, uid: str = "uid-web", name: str = "main") -> k8s.ContainerStatus | None:
    status = node.statuses.get(uid)
    if status is None:
        return None
    return next(c for c in (*status.init_container_statuses, *status.container_statuses) if c.name == name)


def flags(node: Node, uid: str = "uid-web", name: str = "main") -> tuple[bool, bool | None]:
    """Return whether a container is shown as ready, and as started."""
    found = shown(node, uid, name)
    return (found.ready, found.started) if found else (False, False)


def is_ready(node: Node, uid: str = "uid-web") -> bool:
    status = node.statuses.get(uid)
    return status is not None and any(c.type == "Ready" and c.status == "True" for c in status.conditions)


def restarts(node: Node) -> int:
    found = shown(node)
    return found.restart_count if found else 0


def waiting_reason(node: Node) -> str:
    found = shown(node)
    return found.state.waiting.reason if found and found.state and found.state.waiting else ""


def messages(node: Node, reason: str) -> list[str]:
    return [event.message for event in node.events.all() if event.reason == reason]


def runs(node: Node) -> bool:
    found = shown(node)
    return found is not None and found.state is not None and found.state.running is not None


@pytest.mark.parametrize("probe", [http("late 5"), command("late 5"), grpc("late 5")], ids=["http", "exec", "grpc"])
async def test_a_pod_is_ready_once_its_probe_says_so(probe: k8s.Probe, autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(probed(readiness_probe=probe)) as node:
        await until(lambda: runs(node), 5)
        assert (False, True) == flags(node)
        began = trio.current_time()
        await until(lambda: is_ready(node), 10)

    assert 3 <= trio.current_time() - began <= 7


async def test_a_connection_that_is_taken_is_enough_for_a_tcp_probe(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(probed(readiness_probe=TCP, liveness_probe=TCP)) as node:
        await until(lambda: is_ready(node), 3)


async def test_readiness_goes_and_comes_back_and_nothing_is_killed(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(probed(readiness_probe=http("flips 10", failure_threshold=2))) as node:
        for expected in (True, False, True, False):
            await until(lambda expected=expected: is_ready(node) is expected, 15)  # type: ignore[misc]
        assert ["Readiness probe failed: HTTP probe failed with statuscode: 500"] == messages(node, "Unhealthy")

    assert 0 == restarts(node)


async def test_a_container_that_fails_its_liveness_probe_is_killed_and_started_again(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(probed(liveness_probe=command("dies 5", failure_threshold=3))) as node:
        await until(lambda: runs(node), 5)
        assert is_ready(node)
        await until(lambda: restarts(node) == 1 and runs(node), 30)

    assert ["Container main failed liveness probe, will be restarted"] == messages(node, "Killing")
    assert ["Liveness probe failed: ill\n"] == messages(node, "Unhealthy")


@pytest.mark.parametrize("probe", ["liveness_probe", "startup_probe"])
async def test_container_killed_repeatedly_by_a_probe_backs_off(probe: str, autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(probed(**{probe: command("dies 0", failure_threshold=1)})) as node:
        await until(lambda: waiting_reason(node) == "CrashLoopBackOff", 60)
        assert 2 <= restarts(node) <= 3
        await trio.sleep(600)

    assert 8 >= restarts(node)
    assert messages(node, "BackOff")


async def test_a_pod_that_never_restarts_ends_with_its_killed_container(autojump_clock: MockClock) -> None:
    it = probed(liveness_probe=command("dies 3", failure_threshold=1))
    it = msgspec.structs.replace(it, spec=msgspec.structs.replace(it.spec, restart_policy="Never"))
    bench = Bench()
    async with bench.agent(it) as node:
        await until(lambda: bool((status := node.statuses.get("uid-web")) and status.phase == "Failed"), 30)

    assert ["Liveness probe failed: ill\n"] == messages(node, "Unhealthy")


async def test_as_many_failures_as_the_threshold_and_not_one_less_kill(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(probed(liveness_probe=http("flips 5", failure_threshold=6))) as node:
        await trio.sleep(60)
        assert 0 == restarts(node)

    assert [] == messages(node, "Killing")


async def test_a_failed_liveness_probe_has_its_own_grace(autojump_clock: MockClock) -> None:
    """The pod would give half a minute to a container that minds no signal."""
    probe = command("dies 2", failure_threshold=1, termination_grace_period_seconds=4)
    bench = Bench()
    async with bench.agent(probed(("stubborn",), liveness_probe=probe)) as node:
        await until(lambda: bool(messages(node, "Killing")), 10)
        began = trio.current_time()
        first = min(bench.world.containers)
        await until(lambda: bench.world.container(first).state is ContainerState.EXITED, 40)

    assert 3.5 < trio.current_time() - began < 5


async def test_until_it_has_started_only_the_startup_probe_is_asked(autojump_clock: MockClock) -> None:
    it = probed(
        startup_probe=http("late 20", failure_threshold=30),
        liveness_probe=http("late 15", failure_threshold=1),
        readiness_probe=http("ok"),
    )
    bench = Bench()
    async with bench.agent(it) as node:
        await until(lambda: runs(node), 5)
        await trio.sleep(10)
        assert (False, False) == flags(node)
        await until(lambda: flags(node) == (True, True), 15)
        await trio.sleep(30)
        assert 0 == restarts(node)

    assert {"Startup probe failed: HTTP probe failed with statuscode: 500"} == set(messages(node, "Unhealthy"))


async def test_a_container_has_as_many_periods_to_start_as_its_threshold_says(autojump_clock: MockClock) -> None:
    """It is asked at once, since it may have started; that failure does not count."""
    slow = http("late 9", failure_threshold=1, period_seconds=10)
    bench = Bench()
    async with bench.agent(probed(startup_probe=slow)) as node:
        await until(lambda: flags(node) == (True, True), 15)
        assert 0 == restarts(node)


async def test_a_container_is_not_killed_for_its_first_moments(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(probed(liveness_probe=http("late 8", failure_threshold=1, period_seconds=10))) as node:
        await trio.sleep(30)
        assert 0 == restarts(node)

    assert [] == messages(node, "Unhealthy")


async def test_a_container_that_does_not_start_in_time_is_killed(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(probed(startup_probe=http("late 60", failure_threshold=5))) as node:
        await until(lambda: restarts(node) == 1, 30)

    assert "Container main failed startup probe, will be restarted" in messages(node, "Killing")


@pytest.mark.parametrize(
    ("kind", "words", "has_spoken"),
    [
        ("readiness_probe", "ok", is_ready),
        ("startup_probe", "ok", is_ready),
        ("liveness_probe", "fail", lambda node: bool(messages(node, "Killing"))),
    ],
)
async def test_the_initial_delay_counts_from_the_containers_start(
    kind: str, words: str, has_spoken: Callable[[Node], bool], autojump_clock: MockClock
) -> None:
    probe = http(words, initial_delay_seconds=30, period_seconds=60, failure_threshold=1)
    bench = Bench()
    async with bench.agent(probed(**{kind: probe})) as node:
        await until(lambda: runs(node), 5)
        began = trio.current_time()
        await until(lambda: has_spoken(node), 40)

    assert 28 < trio.current_time() - began < 31


class Deaf(MemoryHandlers):
    """Takes no connection, and refuses none."""

    async def tcp_connect(self, host: str, port: int) -> None:
        await trio.sleep_forever()


@pytest.mark.parametrize("kind", ["liveness_probe", "readiness_probe", "startup_probe"])
@pytest.mark.parametrize(
    ("handler", "message"),
    [
        ({"http_get": http("hang").http_get}, "context deadline exceeded"),
        ({"tcp_socket": TCP.tcp_socket}, "i/o timeout"),
        ({"grpc": grpc("hang").grpc}, "within 7s: context deadline exceeded"),
    ],
    ids=["http", "tcp", "grpc"],
)
async def test_an_answer_is_waited_for_as_long_as_the_probe_says(
    handler: dict[str, Any], message: str, kind: str, autojump_clock: MockClock
) -> None:
    probe = k8s.Probe(**handler, timeout_seconds=7, initial_delay_seconds=5, period_seconds=60, failure_threshold=1)
    bench = Bench()
    bench.handlers = Deaf(bench.world)
    async with bench.agent(probed(**{kind: probe})) as node:
        await until(lambda: runs(node), 5)
        began = trio.current_time()
        await until(lambda: bool(messages(node, "Unhealthy")), 30)

    assert message in messages(node, "Unhealthy")[0]
    assert 11 < trio.current_time() - began < 13


async def test_hanging_probe_times_out_and_delays_no_other(autojump_clock: MockClock) -> None:
    bench = Bench()
    hangs = probed(name="hangs", liveness_probe=http("hang", timeout_seconds=2, failure_threshold=2, period_seconds=1))
    async with bench.agent(hangs, probed(readiness_probe=http("ok"))) as node:
        await until(lambda: is_ready(node), 5)
        await until(lambda: bool(messages(node, "Killing")), 15)

    assert "context deadline exceeded" in messages(node, "Unhealthy")[0]


async def test_runtime_errors_of_probes_are_reported_and_kill_no_container(autojump_clock: MockClock) -> None:
    """A port without a name cannot be asked, whatever the container does."""
    nameless = k8s.Probe(tcp_socket=k8s.TCPSocketAction(port="nameless"), period_seconds=1, failure_threshold=1)
    bench = Bench()
    async with bench.agent(probed(liveness_probe=nameless)) as node:
        await trio.sleep(30)
        assert 0 == restarts(node)

    expected = 'Liveness probe errored and resulted in unknown state: port "nameless" not found'
    assert [expected] == messages(node, "Unhealthy")


async def test_a_sidecar_that_has_started_lets_the_next_container_go(autojump_clock: MockClock) -> None:
    sidecar = container("proxy", restart_policy="Always", startup_probe=http("late 10", "proxy", failure_threshold=30))
    bench = Bench()
    async with bench.agent(pod("web", init=[sidecar])) as node:
        await until(lambda: bench.running() == ["proxy"], 5)
        await trio.sleep(8)
        assert ["proxy"] == bench.running()
        await until(lambda: bench.running() == ["main", "proxy"], 8)
        assert (True, True) == flags(node, name="proxy")


async def test_a_sidecar_that_fails_is_restarted_beside_the_others(autojump_clock: MockClock) -> None:
    probe = http("dies 20", "proxy", failure_threshold=1)
    sidecar = container("proxy", restart_policy="Always", liveness_probe=probe)
    bench = Bench()
    async with bench.agent(pod("web", init=[sidecar])) as node:
        await until(lambda: bool((found := shown(node, name="proxy")) and found.restart_count == 1), 60)

    assert ["Init container proxy failed liveness probe"] == messages(node, "Killing")
    assert 0 == restarts(node)


async def test_a_pod_that_is_stopped_is_shown_unready_before_it_has_stopped(autojump_clock: MockClock) -> None:
    """Its endpoint must go while it still has its grace; and nothing it does now gets it killed."""
    it = probed(
        ("stubborn",),
        readiness_probe=http("dies 20", failure_threshold=1),
        liveness_probe=http("dies 20", failure_threshold=1),
    )
    bench = Bench()
    async with bench.agent(it) as node:
        await until(lambda: is_ready(node), 10)
        node.slots["file"].put(Snapshot(()))
        await until(lambda: not is_ready(node), 25)
        assert ["main"] == bench.running()
        assert ["Stopping container main"] == messages(node, "Killing")
        await until(lambda: bench.running() == [], 30)

    assert {"Readiness probe failed: HTTP probe failed with statuscode: 500"} == set(messages(node, "Unhealthy"))


async def test_probes_end_with_their_pod(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(probed(readiness_probe=http("ok"))) as node:
        await until(lambda: is_ready(node), 10)
        assert 1 == len(node.probes)
        node.slots["file"].put(Snapshot(()))
        await until(lambda: len(node.probes) == 0, 60)


async def test_a_restarted_agent_believes_a_status_until_the_probe_says_something_else(
    autojump_clock: MockClock,
) -> None:
    """The pod was ready and is ready, and nobody sees anything else in between."""
    it = probed(
        source="api",
        startup_probe=http("dies 5", failure_threshold=1),
        readiness_probe=http("ok", period_seconds=20),
        liveness_probe=http("ok", period_seconds=20),
    )
    bench = Bench()
    async with bench.agent(it, sources=("api",)) as node:
        await until(lambda: is_ready(node), 5)
        await trio.sleep(30)
        last = node.statuses.get("uid-web")
    it = msgspec.structs.replace(it, status=last)
    seen: list[bool] = []
    async with bench.agent(it, sources=("api",)) as node:
        node.statuses.changed.add(lambda *_: seen.append(is_ready(node)))
        await trio.sleep(60)
        assert is_ready(node)

    assert set(seen) == {True}
    assert ["main"] == bench.running()
    assert 1 == len(bench.world.containers)


async def test_a_restarted_agent_believes_what_its_earlier_life_noted_of_a_static_pod(
    autojump_clock: MockClock,
) -> None:
    """Nobody else has a status of it; its startup probe can be answered well once only."""
    it = probed(
        startup_probe=http("dies 5", failure_threshold=1),
        readiness_probe=http("ok", period_seconds=20),
        liveness_probe=http("ok", period_seconds=20),
    )
    bench = Bench()
    async with bench.agent(it) as node:
        await until(lambda: is_ready(node), 5)
        await trio.sleep(30)
    seen: list[bool] = []
    async with bench.agent(it) as node:
        node.statuses.changed.add(lambda *_: seen.append(is_ready(node)))
        await trio.sleep(60)
        assert is_ready(node)

    assert set(seen) == {True}
    assert 1 == len(bench.world.containers)


async def test_an_agent_that_hears_no_does_not_leave_an_earlier_ones_yes_to_a_later_one(
    autojump_clock: MockClock,
) -> None:
    """The second agent came within ten seconds of the start and did not believe the note, so its no was no news."""
    it = probed(readiness_probe=http("dies 5", period_seconds=2, failure_threshold=2))
    bench = Bench()
    async with bench.agent(it) as node:
        await until(lambda: is_ready(node), 3)
    await trio.sleep(6)
    async with bench.agent(it) as node:
        await trio.sleep(15)
        assert not is_ready(node)
    seen: list[bool] = []
    async with bench.agent(it) as node:
        node.statuses.changed.add(lambda *_: seen.append(is_ready(node)))
        await trio.sleep(20)

    assert {False} == set(seen)
    assert 1 == len(bench.world.containers)


@pytest.mark.parametrize("noted", [b"", b"{", b'{"main": {"containerId": "another", "ready": true}}'])
async def test_a_restarted_agent_that_knows_nothing_says_not_ready_until_it_has_asked(
    noted: bytes, autojump_clock: MockClock
) -> None:
    it = probed(readiness_probe=http("ok", period_seconds=20))
    bench = Bench()
    async with bench.agent(it) as node:
        await until(lambda: is_ready(node), 5)
        await trio.sleep(30)
    bench.files.note("uid-web", Note.PROBES, noted)
    async with bench.agent(it) as node:
        await until(lambda: runs(node), 5)
        assert not is_ready(node)
        await until(lambda: is_ready(node), 25)


async def test_what_was_found_running_is_not_asked_all_at_once(autojump_clock: MockClock) -> None:
    them = [probed(name=f"p{n}", source="api", readiness_probe=http("ok", period_seconds=20)) for n in range(20)]
    bench = Bench()
    async with bench.agent(*them, sources=("api",)) as node:
        await until(lambda: all(is_ready(node, f"uid-p{n}") for n in range(20)), 30)
        await trio.sleep(30)
    async with bench.agent(*them, sources=("api",)) as node:
        times: list[float] = []
        await until(lambda: len(node.statuses) == 20, 10)
        began = trio.current_time()
        node.statuses.changed.add(lambda *_: times.append(trio.current_time() - began))
        await until(lambda: all(is_ready(node, f"uid-p{n}") for n in range(20)), 40)

    assert max(times) - min(times) > 10
    assert 4 >= max(times.count(time) for time in times)


async def test_a_new_containers_verdict_is_its_own(autojump_clock: MockClock) -> None:
    """One that ended by itself was ready; the one after it is not before it says so."""
    bench = Bench()
    ended = probed(("exit", "0", "10"), readiness_probe=http("late 3"))
    async with bench.agent(ended) as node:
        await until(lambda: is_ready(node), 8)
        await until(lambda: restarts(node) == 1 and runs(node), 30)
        assert (False, True) == flags(node)
        await until(lambda: is_ready(node), 8)
    assert 2 == sum(c.state in (ContainerState.RUNNING, ContainerState.EXITED) for c in bench.world.all_containers())
