"""Plans carried out with care: in order, within one grace, and knowing what exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from shell.pods.shellkit import Bench, Said, phase, until
from trikubelet.core.actions import PodActions, Reset, Start
from trikubelet.core.lifecycle import Terminating
from trikubelet.kit.turnstile import Turnstile
from trikubelet.model import k8s
from trikubelet.model.bounds import Bounds
from trikubelet.model.errors import PodSyncError, RetryAt
from trikubelet.model.runtime import ContainerState, ContainerStatus, PodObservation, SandboxState, SandboxStatus
from trikubelet.model.runtime_errors import NotImplementedByRuntime
from trikubelet.pods.carry_out import CarryOut, most_urgent
from trikubelet.pods.making_paces import MakingPaces
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.chance import Odds
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from trio.testing import MockClock

SIDECAR = container("proxy", ["stubborn"], restart_policy="Always")
BOX = SandboxStatus("s", "uid-web", "web", "default", 0, SandboxState.READY, 0, ("10.0.0.1",))


class Starter:
    """Starts nothing; fails for those it is told."""

    def __init__(self, *waits: RetryAt, **failures: PodSyncError) -> None:
        self.waits = waits
        self.failures = failures
        self.asked: list[str] = []

    def back_offs(self, *_: object) -> list[RetryAt]:
        """Return what keeps the pod from starting over."""
        return list(self.waits)

    async def start(self, _: object, start: Start) -> None:
        """Note the name, or fail."""
        await trio.lowlevel.checkpoint()
        self.asked.append(start.container.name)
        if start.container.name in self.failures:
            raise self.failures[start.container.name]


class Idle:
    """Stands in for parts that are asked for nothing that matters here."""

    async def stop_some(self, *_: object) -> None:
        """Nothing is to be stopped."""

    async def configure(self, *_: object, is_new: bool) -> None:
        """Nobody looks at the configuration."""


async def perform(starter: Starter, actions: PodActions) -> None:
    idle = Idle()
    carry_out = CarryOut(
        sandboxes=idle,
        starter=starter,
        killer=idle,
        paces=MakingPaces(),
        events=Said(),
        turnstile=Turnstile(1, 1.0),
        bounds=Bounds(),
    )
    init = [SIDECAR, container("first"), container("second")]
    web = pod("web", container("a"), container("b"), init=init)
    debugger = k8s.EphemeralContainer(name="debug", image="app:1")
    web = msgspec.structs.replace(web, spec=msgspec.structs.replace(web.spec, ephemeral_containers=(debugger,)))
    await carry_out.perform(web, PodObservation("uid-web", sandboxes=(BOX,)), actions, {})


@pytest.mark.parametrize(
    ("failing", "asked"),
    [("proxy", ["proxy", "first", "a", "b"]), ("first", ["proxy", "first"]), ("a", ["proxy", "first", "a", "b"])],
)
async def test_only_a_plain_init_container_that_fails_ends_the_pass(
    failing: str, asked: list[str], autojump_clock: MockClock
) -> None:
    starter = Starter(**{failing: PodSyncError("R", "m", failing)})
    with pytest.raises(PodSyncError):
        await perform(starter, PodActions(sandbox_id="s", init_to_start=(0, 1), to_start=(0, 1)))

    assert asked == starter.asked


@pytest.mark.parametrize(
    ("after", "failure"),
    [
        pytest.param(100, None, id="it starts"),
        pytest.param(Bounds().retry_seconds, PodSyncError("ErrImagePull", "m", "debug"), id="it fails"),
        pytest.param(30, RetryAt("ImagePullBackOff", "m", 30.0, "debug"), id="it backs off"),
        pytest.param(5, RetryAt("ImagePullBackOff", "m", 5.0, "debug"), id="it backs off for a moment"),
        pytest.param(100, RetryAt("ImagePullBackOff", "m", 300.0, "debug"), id="it backs off for longer than the pod"),
    ],
)
async def test_a_debugger_is_tried_again_in_time_while_its_pod_backs_off(
    after: float, failure: PodSyncError | None, autojump_clock: MockClock
) -> None:
    now = trio.current_time()
    if isinstance(failure, RetryAt):
        failure = RetryAt(failure.reason, failure.message, now + failure.at, failure.container)
    waits = RetryAt("CrashLoopBackOff", "m", now + 100, "a"), RetryAt("CrashLoopBackOff", "m", now + 50, "b")
    starter = Starter(*waits, **({} if failure is None else {"debug": failure}))
    cause = Reset(ContainerStatus("a-0", "a", 0, ContainerState.EXITED, 1), kill=False, is_cause=True)
    with pytest.raises(RetryAt) as raised:
        await perform(starter, PodActions(sandbox_id="s", to_reset=(cause,), ephemeral_to_start=(0,)))

    assert (["debug"], "CrashLoopBackOff", "a") == (starter.asked, raised.value.reason, raised.value.container)
    assert after == pytest.approx(raised.value.at - now)


def test_a_real_failure_is_more_urgent_than_a_back_off_and_the_first_back_off_to_end_than_others() -> None:
    real, late, soon = PodSyncError("R", "m"), RetryAt("R", "m", 9.0), RetryAt("R", "m", 3.0)

    assert real is most_urgent([late, real, soon])
    assert soon is most_urgent([late, soon])


async def test_without_a_cluster_the_name_of_a_runtime_class_is_its_handlers(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web", runtime_class_name="kata")):
        await until(lambda: ["main"] == bench.running())

    assert ["kata"] == [config.runtime_handler for config in bench.world.sandbox_configs.values()]


async def test_the_grace_of_a_pod_is_one_budget_for_containers_and_sidecars(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web", container("main", ["stubborn"]), init=[SIDECAR], grace=20)) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        node.slots["file"].put(Snapshot())
        await until(lambda: bench.running() == [])

    graces = [line.split("grace")[-1] for line in bench.world.trace if "StopContainer" in line]
    assert 2 == len(graces)
    ends = [float(line.split()[0]) for line in bench.world.trace if " ended with 137" in line]
    assert 2.0 == pytest.approx(ends[1] - ends[0], abs=0.1)


async def test_after_a_change_the_pod_is_relisted_without_waiting_for_the_clock(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_events(_: MemoryRuntime) -> None:
        raise NotImplementedByRuntime("no events")

    monkeypatch.setattr(MemoryRuntime, "events", no_events)  # they would lead there as well
    bench = Bench()
    async with bench.agent() as node:
        await trio.sleep(0.5)
        node.slots["file"].put(Snapshot((pod("web"),)))
        await until(lambda: phase(node, "uid-web") == "Running")

    started = next(place for place, line in enumerate(bench.world.trace) if " start c" in line)
    following = [line for line in bench.world.trace[started:] if "ListPodSandbox" in line]
    assert following[0].endswith("ListPodSandbox uid-web")


async def test_a_runtime_that_says_stopped_of_what_runs_is_asked_again(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web")) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        runtime = node.pleg._runtime
        honest = runtime.stop_container, runtime.stop_sandbox

        async def lie(id_: str, grace_seconds: int = 0) -> None:
            await trio.lowlevel.checkpoint()

        runtime.stop_container, runtime.stop_sandbox = lie, lie  # type: ignore[method-assign]
        node.slots["file"].put(Snapshot())
        await trio.sleep(30)
        worker = node.workers.worker("uid-web")
        assert worker is not None
        assert isinstance(worker.state, Terminating)
        assert ["main"] == bench.running()
        assert "FailedKillPod: 2 of its containers and sandboxes still run" == worker.statistics().last_error
        runtime.stop_container, runtime.stop_sandbox = honest  # type: ignore[method-assign]
        await until(lambda: bench.running() == [] and not bench.world.sandboxes)


async def test_a_call_that_makes_something_is_finished_although_its_sync_is_given_up(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with bench.agent() as node:
        bench.problems.odds = Odds(latency_seconds=0.5)
        node.slots["file"].put(Snapshot((pod("web"),)))
        await until(lambda: any("CreateContainer" in line for line in bench.world.trace))
        worker = node.workers.worker("uid-web")
        assert worker is not None
        assert worker._sync is not None
        assert not bench.world.containers
        worker._sync.cancel()
        await trio.testing.wait_all_tasks_blocked()
        created = "CreateContainer"
        await until(lambda: bool(bench.world.containers))

        assert 1 == sum(created in line for line in bench.world.trace)


async def made_and_not_started() -> Bench:
    """Where an agent made the container of pod "web", and ended before it was started."""
    bench = Bench()
    bench.problems.odds = Odds(0.002, hang=1.0, only=frozenset({"StartContainer"}))
    async with bench.agent(pod("web")):
        await until(lambda: bool(bench.world.containers))
    bench.problems.odds = Odds(0.002)
    return bench


async def test_a_container_that_an_agent_made_and_never_started_is_recreated_and_no_restart(
    autojump_clock: MockClock,
) -> None:
    bench = await made_and_not_started()
    async with bench.agent(pod("web")) as node:
        await until(lambda: "Running" == phase(node, "uid-web"))
        await trio.sleep(5)
        status = node.statuses.get("uid-web")

    assert [(ContainerState.RUNNING, 0)] == [(one.state, one.attempt) for one in bench.world.all_containers()]
    assert status is not None
    assert [0] == [one.restart_count for one in status.container_statuses]


async def test_what_the_logs_remember_of_later_attempts_counts_although_an_earlier_one_never_started(
    autojump_clock: MockClock,
) -> None:
    bench = await made_and_not_started()
    bench.files.content["/var/log/pods/default_web_uid-web/main/4.log"] = b""
    async with bench.agent(pod("web")) as node:
        await until(lambda: "Running" == phase(node, "uid-web"))

    assert [5] == [one.attempt for one in bench.world.all_containers()]
