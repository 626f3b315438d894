"""Lifecycle hooks on a node in memory: when they run, what waits for them, and what becomes of those that fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
from msgspec.structs import replace

from shell.pods.shellkit import Bench, does, phase, until
from trikubelet.app.node import run_node
from trikubelet.core.hooks import POST_START_ERROR
from trikubelet.model import k8s
from trikubelet.model.handlers import HttpAnswer, HttpTarget, NotTls, Unreachable
from trikubelet.model.runtime import ExecResult
from trikubelet.model.runtime_errors import RuntimeFailure, RuntimeLost
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.app.node import Node


def sleeps(seconds: int) -> k8s.LifecycleHandler:
    """A hook that waits."""
    return k8s.LifecycleHandler(sleep=k8s.SleepAction(seconds=seconds))


def hooked(name: str = "main", command: tuple[str, ...] = ("run",), **hooks: k8s.LifecycleHandler) -> k8s.Container:
    """A container with hooks."""
    return container(name, command, lifecycle=k8s.Lifecycle(**hooks))


def when(bench: Bench, what: str) -> float:
    """When the only line of the trace that has these words was written."""
    (line,) = [line for line in bench.world.trace if what in line]
    return float(line.split()[0])


def said(node: Node, reason: str) -> list[str]:
    """Messages of the events of that reason."""
    return [event.message for event in node.events.all() if event.reason == reason]


def waiting(node: Node) -> k8s.ContainerStateWaiting | None:
    """Return the shown reason for which the pod's first container waits."""
    status = node.statuses.get("uid-web")
    state = status.container_statuses[0].state if status else None
    return state.waiting if state else None


@pytest.mark.parametrize("hook", [does("exit", "0", "7"), sleeps(7)])
async def test_the_next_container_starts_when_the_hook_of_the_one_before_is_over(
    hook: k8s.LifecycleHandler, autojump_clock: MockClock
) -> None:
    bench = Bench()
    async with bench.agent(pod("web", hooked("a", post_start=hook), container("b"))) as node:
        await until(lambda: ["a", "b"] == bench.running())
        await until(lambda: phase(node, "uid-web") == "Running")

    first, second = (float(line.split()[0]) for line in bench.world.trace if " start c" in line)
    assert 7 == pytest.approx(second - first, abs=0.1)


async def test_a_container_shows_as_waiting_until_its_hook_is_over(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web", hooked(post_start=sleeps(20)))) as node:
        await until(lambda: ["main"] == bench.running())
        await trio.sleep(10)
        status = node.statuses.get("uid-web")
        assert status is not None
        assert "Pending" == status.phase
        await until(lambda: phase(node, "uid-web") == "Running")


async def test_container_with_a_failing_post_start_hook_restarts_with_back_off(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with bench.agent(pod("web", hooked(post_start=does("exit", "3", "0")), container("other"))) as node:
        await until(lambda: 3 == sum(" start c" in line and "main" in line for line in bench.world.trace))
        assert waiting(node) is not None
        assert {"PostStartHook failed"} == set(said(node, "FailedPostStartHook"))
        assert "FailedPostStartHook" in said(node, "Killing")
        assert "other" in bench.running()


async def test_what_failed_is_reported_in_the_status_and_not_in_the_event(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web", hooked(post_start=does("exit", "3", "0")))) as node:
        await until(lambda: (found := waiting(node)) is not None and found.reason == POST_START_ERROR)
        found = waiting(node)
        assert found is not None
        told = 'Exec lifecycle hook ([exit 3 0]) for Container "main" in Pod "web_default(uid-web)" failed'
        assert found.message.startswith(told)
        assert ["PostStartHook failed"] == list(dict.fromkeys(said(node, "FailedPostStartHook")))


async def test_a_container_that_never_restarts_has_failed_when_its_first_hook_did(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web", hooked(post_start=does("exit", "3", "0")), policy="Never")) as node:
        await until(lambda: phase(node, "uid-web") == "Failed")

    assert 1 == sum(" start c" in line for line in bench.world.trace)


async def test_pod_with_a_hanging_post_start_hook_can_be_deleted(autojump_clock: MockClock) -> None:
    bench = Bench()
    hanging = pod("web", hooked(post_start=does("hang"), pre_stop=does("echo", "bye")))
    async with bench.agent(hanging) as node:
        await until(lambda: ["main"] == bench.running())
        node.slots["file"].put(Snapshot((hanging, pod("other"))))
        await until(lambda: phase(node, "uid-other") == "Running")
        node.slots["file"].put(Snapshot((pod("other"),)))
        await until(lambda: "uid-web" not in node.workers)
        assert [] == said(node, "FailedPostStartHook")

    assert [("hang",), ("echo", "bye")] == [one.command for some in bench.world.commands.values() for one in some]


async def test_a_hook_that_hangs_does_not_hold_off_its_pods_deadline(autojump_clock: MockClock) -> None:
    bench = Bench()
    hanging = pod("web", hooked(post_start=does("hang")), active_deadline_seconds=20)
    async with bench.agent(hanging) as node:
        began = trio.current_time()
        await until(lambda: phase(node, "uid-web") == "Failed")
        assert 20 == pytest.approx(trio.current_time() - began, abs=1)
        await until(lambda: [] == bench.running())
        assert ["Pod was active on the node longer than the specified deadline"] == said(node, "DeadlineExceeded")


async def test_a_hook_before_the_end_is_waited_for_and_taken_off_the_grace(autojump_clock: MockClock) -> None:
    bench = Bench()
    last = hooked(command=("stubborn",), pre_stop=does("exit", "0", "7"))
    async with bench.agent(pod("web", last, grace=20)) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot())
        await until(lambda: [] == bench.running())

    began = when(bench, "ExecSync")
    assert 7 == pytest.approx(when(bench, "StopContainer") - began, abs=0.1)
    assert 20 == pytest.approx(when(bench, "ended with 137") - began, abs=0.1)


@pytest.mark.parametrize(("hook", "events"), [(does("hang"), ["PreStopHook failed"]), (sleeps(99), [])])
async def test_pre_stop_hook_that_hangs_leaves_its_container_two_seconds(
    hook: k8s.LifecycleHandler, events: list[str], autojump_clock: MockClock
) -> None:
    bench = Bench()
    async with bench.agent(pod("web", hooked(command=("stubborn",), pre_stop=hook), grace=20)) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot())
        now = trio.current_time()
        await until(lambda: [] == bench.running())
        await trio.sleep(1)
        assert events == said(node, "FailedPreStopHook")

    assert 20 == pytest.approx(when(bench, "StopContainer") - now, abs=0.1)
    assert 2 == pytest.approx(when(bench, "ended with 137") - when(bench, "StopContainer"), abs=0.1)


async def test_pre_stop_command_that_outlasts_the_grace_lives_until_its_container_is_down(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    stays = hooked("stays", command=("stubborn",), pre_stop=does("hang"))
    ends = hooked("ends", command=("stubborn",), pre_stop=does("exit", "0", "21"))
    async with bench.agent(pod("web", stays, ends, grace=20)) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot())
        await until(lambda: [] == bench.running())
        await trio.sleep(1)
        assert ["PreStopHook failed"] == said(node, "FailedPreStopHook")

    seconds = {one.command[0]: one.ended_at - one.began_at for some in bench.world.commands.values() for one in some}
    assert {"hang": pytest.approx(22, abs=0.1), "exit": pytest.approx(21, abs=0.1)} == seconds
    assert all(one.is_over for some in bench.world.commands.values() for one in some)


async def test_pre_stop_hook_of_a_sidecar_that_outlasts_the_grace_lives_until_the_sidecar_is_down(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    proxy = container("proxy", lifecycle=k8s.Lifecycle(pre_stop=does("hang")), restart_policy="Always")
    web = pod("web", container("main", ("stubborn",)), init=[proxy], grace=10)
    async with bench.agent(web) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot())
        await until(lambda: [] == bench.running())
        await trio.sleep(1)

    ((run,),) = bench.world.commands.values()
    ended = [line for line in bench.world.trace if "proxy ended with" in line]
    assert run.ended_at == pytest.approx(float(ended[0].split()[0]), abs=0.1)


async def test_pre_stop_command_fails_once_if_the_runtime_leaves_after_the_grace(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, begun = Bench(), []

    async def exec_sync(*_: object) -> ExecResult:
        begun.append(trio.current_time())
        await trio.sleep(11)
        raise RuntimeLost("connection reset")

    monkeypatch.setattr(MemoryRuntime, "exec_sync", exec_sync)
    main = hooked(command=("stubborn",), pre_stop=does("drain"))
    async with bench.agent(pod("web", main, grace=10)) as node:
        await until(lambda: bench.running() == ["main"])
        node.slots["file"].put(Snapshot())
        await until(lambda: not bench.running(), 60)
        await trio.sleep(1)
        assert ["PreStopHook failed"] == said(node, "FailedPreStopHook")
    assert 1 == len(begun)


async def test_a_hook_before_the_end_that_fails_is_reported_and_changes_nothing(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web", hooked(pre_stop=does("exit", "1", "0")))) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot())
        await until(lambda: [] == bench.running())
        assert ["PreStopHook failed"] == said(node, "FailedPreStopHook")

    assert 1 == sum("ended with 143" in line for line in bench.world.trace)


async def test_a_bug_in_a_hook_before_the_end_does_not_keep_its_pod(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    network = answering(bench)

    async def broken(target: object) -> None:
        await trio.lowlevel.checkpoint()
        raise TypeError("no such thing")

    network.http_get = broken  # type: ignore[method-assign, assignment]
    async with bench.agent(pod("web", hooked(pre_stop=k8s.LifecycleHandler(http_get=ASKED)))) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot())
        await until(lambda: [] == bench.running())
        assert ["PreStopHook failed"] == said(node, "FailedPreStopHook")

    assert 1 == sum("a bug in a hook" in message for message in caplog.messages)


async def test_a_deletion_with_less_grace_cuts_a_hook_and_gives_it_what_is_left_now(autojump_clock: MockClock) -> None:
    bench = Bench()
    web = pod("web", hooked(pre_stop=does("hang")), grace=60, source="api")

    def deleted(grace: int) -> k8s.Pod:
        meta = replace(web.metadata, deletion_timestamp="2027-01-15T08:00:00Z", deletion_grace_period_seconds=grace)
        return replace(web, metadata=meta)

    async with bench.agent(web, sources=("api",)) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["api"].put(Snapshot((deleted(60),)))
        await until(lambda: any("ExecSync" in line for line in bench.world.trace))
        await trio.sleep(10)
        node.slots["api"].put(Snapshot((deleted(5),)))
        now = trio.current_time()
        await until(lambda: [] == bench.running())
        assert 5 == pytest.approx(trio.current_time() - now, abs=1)

    assert 2 == sum("ExecSync" in line for line in bench.world.trace)


async def test_a_hook_that_ended_is_not_run_again_when_its_container_could_not_be_stopped(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    async with bench.agent(pod("web", hooked(pre_stop=does("echo", "bye")))) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        runtime = node.pleg._runtime
        honest, tries = runtime.stop_container, []

        async def stop_container(id_: str, grace_seconds: int) -> None:
            tries.append(id_)
            if len(tries) < 3:
                raise RuntimeFailure("not now")
            await honest(id_, grace_seconds)

        async def stop_sandbox(_: str) -> None:
            await trio.lowlevel.checkpoint()

        monkeypatch.setattr(runtime, "stop_container", stop_container)
        monkeypatch.setattr(runtime, "stop_sandbox", stop_sandbox)
        node.slots["file"].put(Snapshot())
        await until(lambda: 3 == len(tries))
        monkeypatch.undo()
        await until(lambda: [] == bench.running())

    assert 1 == sum("ExecSync" in line for line in bench.world.trace)


async def test_an_agent_that_is_stopped_during_a_hook_runs_it_again_before_the_end_and_not_after_the_start(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    web = pod("web", hooked(post_start=does("exit", "0", "9"), pre_stop=does("exit", "0", "8")))
    async with bench.agent(web):
        await until(lambda: any("ExecSync" in line for line in bench.world.trace))
    async with bench.agent(web) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot())
        await until(lambda: 2 == sum("ExecSync" in line for line in bench.world.trace))
    async with bench.agent() as node:
        await until(lambda: [] == bench.running())

    words = [one.command[2] for some in bench.world.commands.values() for one in some]
    assert ["9", "8"] == words[:2]


async def test_the_hooks_of_all_run_at_once_and_a_sidecar_is_stopped_after_the_regular_ones(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    proxy = container("proxy", lifecycle=k8s.Lifecycle(pre_stop=does("echo", "proxy")), restart_policy="Always")
    web = pod("web", hooked("a", pre_stop=does("exit", "0", "5")), init=[proxy], grace=20)
    async with bench.agent(web) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot())
        await until(lambda: [] == bench.running())

    hooks = [float(line.split()[0]) for line in bench.world.trace if "ExecSync" in line]
    assert hooks[1] - hooks[0] < 0.1
    ended = [line.split()[2] for line in bench.world.trace if " ended with " in line]
    assert ["a", "proxy"] == ended


class Answering:
    """A network (``ports.Handlers``) in which those are there who were given an answer, by URL. ``plain``: the places
    where TLS is not spoken; ``hangs``: the URLs that never answer; ``asked``: every GET there was; ``cut``: when those
    that hung were given up."""

    def __init__(self) -> None:
        self.http: dict[str, HttpAnswer] = {}
        self.plain: set[str] = set()
        self.hangs: set[str] = set()
        self.asked: list[HttpTarget] = []
        self.cut: list[float] = []

    async def http_get(self, target: HttpTarget) -> HttpAnswer:
        """See ``ports.Handlers``."""
        await trio.lowlevel.checkpoint()
        self.asked.append(target)
        if target.url in self.hangs:
            try:
                await trio.sleep_forever()
            finally:
                self.cut.append(trio.current_time())
        if target.scheme == "https" and target.authority in self.plain:
            raise NotTls("http: server gave HTTP response to HTTPS client")
        if target.url not in self.http:
            raise Unreachable(f"dial tcp {target.authority}: connect: connection refused")
        return self.http[target.url]


def answering(bench: Bench) -> Answering:
    """Such a network for the bench."""
    network = Answering()
    bench.handlers = network  # type: ignore[assignment] # hooks ask in one way only
    return network


ASKED = k8s.HTTPGetAction(path="/ready", port=8080)


async def test_a_hook_asks_the_pods_address_under_its_own_name_and_any_answer_will_do(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    network = answering(bench)
    network.http["http://10.88.0.2:8080/ready"] = HttpAnswer(500)
    async with bench.agent(pod("web", hooked(post_start=k8s.LifecycleHandler(http_get=ASKED)))) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        assert [] == said(node, "FailedPostStartHook")

    (target,) = network.asked
    assert ("User-Agent", "kube-lifecycle/1.37") in target.headers


async def test_a_hook_of_a_pod_on_the_hosts_network_asks_the_host(autojump_clock: MockClock) -> None:
    bench = Bench()
    network = answering(bench)
    network.http["http://192.0.2.1:8080/ready"] = HttpAnswer(200)
    main = hooked(post_start=k8s.LifecycleHandler(http_get=ASKED))
    async with bench.agent(pod("web", main, host_network=True)) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        assert [] == said(node, "FailedPostStartHook")


async def test_a_hook_that_finds_no_tls_is_reported_again_without_it_and_without_the_secret(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    network = answering(bench)
    network.plain.add("10.88.0.2:8080")
    network.http["http://10.88.0.2:8080/ready"] = HttpAnswer(200)
    secret = k8s.HTTPHeader(name="Authorization", value="Bearer x")
    action = replace(ASKED, scheme="HTTPS", http_headers=(secret,))
    async with bench.agent(pod("web", hooked(post_start=k8s.LifecycleHandler(http_get=action)))) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        told = "request to HTTPS lifecycle hook 10.88.0.2:8080 got HTTP response, retry with HTTP succeeded"
        assert [told] == said(node, "LifecycleHTTPFallback")
        assert [] == said(node, "FailedPostStartHook")

    first, second = network.asked
    assert ("Authorization", "Bearer x") in first.headers
    assert "Authorization" not in dict(second.headers)


@pytest.mark.parametrize(
    ("expected", "action"),
    [
        ("dial tcp 10.88.0.2:8080: connect: connection refused", ASKED),
        ('port "nobody" not found', replace(ASKED, port="nobody")),
    ],
)
async def test_hook_without_a_listener_has_failed(
    expected: str, action: k8s.HTTPGetAction, autojump_clock: MockClock
) -> None:
    bench = Bench()
    answering(bench)
    async with bench.agent(pod("web", hooked(post_start=k8s.LifecycleHandler(http_get=action)))) as node:
        await until(lambda: (found := waiting(node)) is not None and found.reason == POST_START_ERROR)
        found = waiting(node)
        assert found is not None
        assert found.message.startswith('HTTP lifecycle hook (/ready) for Container "main" in Pod "web_default(')
        assert found.message.endswith(expected)


async def test_pre_stop_request_that_is_not_answered_stays_open_until_its_container_is_down(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    network = answering(bench)
    network.hangs.add("http://10.88.0.2:8080/ready")
    main = hooked(command=("stubborn",), pre_stop=k8s.LifecycleHandler(http_get=ASKED))
    async with bench.agent(pod("web", main, grace=5)) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot())
        now = trio.current_time()
        await until(lambda: [] == bench.running())
        await trio.sleep(1)
        assert 5 == pytest.approx(when(bench, "StopContainer") - now, abs=0.5)
        assert when(bench, "ended with 137") == pytest.approx(network.cut[0], abs=0.1)
        assert ["PreStopHook failed"] == said(node, "FailedPreStopHook")


async def test_a_hook_that_says_nothing_of_what_to_do_has_failed(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web", hooked(pre_stop=k8s.LifecycleHandler()))) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot())
        await until(lambda: [] == bench.running())
        assert ["PreStopHook failed"] == said(node, "FailedPreStopHook")


async def test_a_pre_stop_hook_cut_by_the_runtimes_restart_runs_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, begun = Bench(), []

    async def exec_sync(*_: object) -> ExecResult:
        begun.append(trio.current_time())
        await trio.sleep(20 if len(begun) == 1 else 60)
        if len(begun) == 1:
            raise RuntimeLost("connection reset")
        return ExecResult(0)

    monkeypatch.setattr(MemoryRuntime, "exec_sync", exec_sync)
    async with bench.agent(pod("web", hooked(pre_stop=does("drain")), grace=300)) as node:
        await until(lambda: bench.running() == ["main"])
        node.slots["file"].put(Snapshot(()))
        await until(lambda: len(begun) == 2, 60)
        await trio.sleep(59)
        assert ["main"] == bench.running()
        await until(lambda: not bench.running(), 30)
    assert 2 == len(begun)


@pytest.mark.parametrize("away_seconds", [60, 200])
async def test_a_pod_that_ends_while_the_runtime_is_away_has_its_hook_and_its_grace(
    away_seconds: float, autojump_clock: MockClock
) -> None:
    bench = Bench()
    runtime = MemoryRuntime(bench.world, bench.problems)
    node = bench.build_node(runtime=runtime)
    web = pod("web", hooked(command=("stubborn",), pre_stop=does("exit", "0", "3")), grace=20)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_node, node)
        node.slots["file"].put(Snapshot((web,)))
        await until(lambda: phase(node, "uid-web") == "Running")
        with runtime.caller.away():
            node.slots["file"].put(Snapshot(()))
            await trio.sleep(away_seconds)
        back_at = trio.current_time()
        await until(lambda: [] == bench.running())
        lived_seconds = trio.current_time() - back_at
        nursery.cancel_scope.cancel()

    assert 20 == pytest.approx(lived_seconds, abs=5)  # the next try may come some seconds later
    assert 3 == pytest.approx(when(bench, "StopContainer") - when(bench, "ExecSync"), abs=0.1)


async def test_a_container_that_is_killed_by_its_probe_while_the_runtime_is_away_has_its_hook_and_its_grace(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    runtime = MemoryRuntime(bench.world, bench.problems)
    node = bench.build_node(runtime=runtime)
    get = k8s.HTTPGetAction(path="/main/dies/10", port=80)
    probe = k8s.Probe(http_get=get, period_seconds=1, failure_threshold=1)
    main = replace(hooked(command=("stubborn",), pre_stop=does("exit", "0", "3")), liveness_probe=probe)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_node, node)
        node.slots["file"].put(Snapshot((pod("web", main, grace=20),)))
        await until(lambda: phase(node, "uid-web") == "Running")
        with runtime.caller.away():
            await until(lambda: [] != said(node, "Killing"), 30)
            await trio.sleep(60)
        back_at = trio.current_time()
        await until(lambda: any("main ended with" in line for line in bench.world.trace))
        lived_seconds = trio.current_time() - back_at
        nursery.cancel_scope.cancel()

    assert 20 == pytest.approx(lived_seconds, abs=1)
    assert 3 == pytest.approx(when(bench, "StopContainer") - when(bench, "ExecSync"), abs=0.1)


@pytest.mark.parametrize(("grace", "edited"), [(1, False), (30, False), (30, True)])
async def test_a_hook_that_takes_the_runtime_away_each_time_fails_at_the_second(
    grace: int, edited: bool, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, begun = Bench(), []

    async def exec_sync(*_: object) -> ExecResult:
        begun.append(trio.current_time())
        await trio.sleep(0.3)
        raise RuntimeLost("connection reset")

    monkeypatch.setattr(MemoryRuntime, "exec_sync", exec_sync)
    async with bench.agent(pod("web", hooked(pre_stop=does("restart", "containerd")), grace=grace)) as node:
        await until(lambda: bench.running() == ["main"])
        node.slots["file"].put(Snapshot((pod("web", container("next"), uid="uid-web2"),) if edited else ()))
        await until(lambda: "main" not in bench.running(), 60)
        assert ["PreStopHook failed"] == said(node, "FailedPreStopHook")
    assert 2 == len(begun)
