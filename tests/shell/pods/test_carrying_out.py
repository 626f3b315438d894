"""Plans carried out with care: in order, within one grace, and knowing what exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Bench, NothingThere, Said, phase, until
from trikubelet.core.actions import PodActions
from trikubelet.core.lifecycle import Terminating
from trikubelet.core.relist import ContainerRecord, PodRecord
from trikubelet.model.bounds import Bounds
from trikubelet.model.errors import PodSyncError, RetryAt
from trikubelet.model.runtime import PodObservation, SandboxState, SandboxStatus
from trikubelet.model.runtime_errors import NotImplementedByRuntime
from trikubelet.pods.carry_out import CarryOut, most_urgent
from trikubelet.pods.desired import DesiredPods
from trikubelet.pods.housekeeping import Housekeeping
from trikubelet.pods.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.chance import Odds
from trikubelet.testing.memory_host import MemoryPodCgroups, MemoryPodFiles, MemoryVolumes
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.model.k8s import Container

SIDECAR = container("proxy", ["stubborn"], restart_policy="Always")
BOX = SandboxStatus("s", "uid-web", "web", "default", 0, SandboxState.READY, 0, ("10.0.0.1",))


class Starter:
    """Starts nothing; fails for those it is told."""

    def __init__(self, **failures: PodSyncError) -> None:
        self.failures = failures
        self.asked: list[str] = []

    async def start(self, _: object, wanted: Container, **__: object) -> None:
        """Note the name, or fail."""
        await trio.lowlevel.checkpoint()
        self.asked.append(wanted.name)
        if wanted.name in self.failures:
            raise self.failures[wanted.name]


class Idle:
    """Stands in for parts that are asked for nothing that matters here."""

    async def stop_some(self, *_: object) -> None:
        """Nothing is to be stopped."""

    def sandbox(self, *_: object) -> None:
        """Nobody looks at the configuration."""


async def perform(starter: Starter, actions: PodActions) -> None:
    idle = Idle()
    carry_out = CarryOut(
        runtime=idle,
        configs=idle,
        starter=starter,
        stopper=idle,
        events=Said(),
        bounds=Bounds(),  # type: ignore[arg-type]
    )
    init = [SIDECAR, container("first"), container("second")]
    web = pod("web", container("a"), container("b"), init=init)
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


def test_a_real_failure_is_more_urgent_than_a_back_off_and_the_first_back_off_to_end_than_others() -> None:
    real, late, soon = PodSyncError("R", "m"), RetryAt("R", "m", 9.0), RetryAt("R", "m", 3.0)

    assert real is most_urgent([late, real, soon])
    assert soon is most_urgent([late, soon])


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


async def test_after_acting_the_pod_is_looked_at_without_waiting_for_the_clock(
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


async def test_a_call_that_makes_something_is_finished_although_its_attempt_is_given_up(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with bench.agent() as node:
        bench.troubles.odds = Odds(latency_seconds=0.5)
        node.slots["file"].put(Snapshot((pod("web"),)))
        await until(lambda: any("CreateContainer" in line for line in bench.world.trace))
        worker = node.workers.worker("uid-web")
        assert worker is not None
        assert worker._attempt is not None
        assert not bench.world.containers
        worker._attempt.cancel()
        await trio.testing.wait_all_tasks_blocked()
        created = "CreateContainer"
        await until(lambda: bool(bench.world.containers))

        assert 1 == sum(created in line for line in bench.world.trace)


async def test_the_directory_of_a_pod_that_runs_is_not_touched_whoever_started_it(autojump_clock: MockClock) -> None:
    class Gone:
        """Everything may go."""

        def should_content_be_removed(self, _: str) -> bool:
            return True

    class Someone(NothingThere):
        """A container runs that nobody here knows."""

        def pods(self) -> list[object]:
            return [PodRecord("uid-alive", "x", "default", (), (ContainerRecord("c", "c", 0, 1, ""),))]

    files = MemoryPodFiles()
    for uid in ("uid-alive", "uid-dead"):
        files.make_pod(uid)
    housekeeping = Housekeeping(
        desired=DesiredPods([]),
        workers=Gone(),  # type: ignore[arg-type]
        runtime_pods=Someone(),  # type: ignore[arg-type]
        files=files,
        volumes=MemoryVolumes(),
        cgroups=MemoryPodCgroups(),
        bounds=Bounds(),
    )
    await housekeeping.remove_directories()

    assert {"uid-alive"} == files.pods_on_disk()
