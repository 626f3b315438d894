"""A whole node in memory: pods come up, restart, end and go, on virtual time."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from msgspec.structs import replace

from trikubelet.app.node import Node, Ports, Rules, build_node, run_node
from trikubelet.core.containers import NodeFacts
from trikubelet.core.restarts import BackoffLimits
from trikubelet.images.puller import PullRules
from trikubelet.model.bounds import Bounds
from trikubelet.model.k8s import ContainerStateWaiting, PodResourceClaim, PodStatus, ResourceRequirements
from trikubelet.model.runtime import ContainerState, SandboxState
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.chance import Odds, Problems
from trikubelet.testing.memory_handlers import MemoryHandlers
from trikubelet.testing.memory_host import (
    MemoryContainerLogs,
    MemoryPodCgroups,
    MemoryPodFiles,
    MemoryVolumes,
    VirtualClock,
)
from trikubelet.testing.memory_images import MemoryImages
from trikubelet.testing.memory_pulls import MemoryLogins, MemoryPullRecords
from trikubelet.testing.memory_runtime import MemoryRuntime
from trikubelet.testing.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from trio.testing import MockClock

    from trikubelet.model.k8s import Pod


class Bench:
    """A world and the disk beside it; agents come and go."""

    def __init__(self) -> None:
        self.world = World()
        self.files = MemoryPodFiles()
        self.volumes = MemoryVolumes()
        self.cgroups = MemoryPodCgroups()
        self.images = MemoryImages(["app:1"], ["web:2"])

    @asynccontextmanager
    async def agent(
        self, *pods: Pod, invalid_manifests: tuple[str, ...] = (), embedded: bool = False, late: tuple[str, ...] = ()
    ) -> AsyncIterator[Node]:
        """An agent for the length of the block; leaving the block kills it as SIGKILL would. ``late``: sources beside
        the manifests that have not spoken."""
        ports = Ports(
            MemoryRuntime(self.world, Problems(Odds(latency_seconds=0.002))),
            self.images,
            self.files,
            MemoryContainerLogs(self.files),
            self.volumes,
            self.cgroups,
            MemoryHandlers(self.world),
            MemoryPullRecords(),
            MemoryLogins(),
            VirtualClock(),
        )
        facts = NodeFacts(node_name="n", host_ips=("192.0.2.1",), memory_bytes=1 << 33, embedded=embedded)
        rules = Rules(Bounds(), BackoffLimits(), PullRules(5))
        node = build_node(ports, facts, rules, ["file", *late], random.Random(1))
        async with trio.open_nursery() as nursery:
            await nursery.start(run_node, node)
            node.slots["file"].put(Snapshot(pods, invalid_manifests))
            yield node
            nursery.cancel_scope.cancel()

    def running(self) -> list[str]:
        return sorted(c.name for c in self.world.all_containers() if c.state is ContainerState.RUNNING)


async def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait, on virtual time, for something to become true. The world has no events to wait on: it is looked at."""
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.05)


def phase(node: Node, name: str) -> str:
    status = node.statuses.get(f"uid-{name}")
    return status.phase if status else ""


def waiting(node: Node, name: str) -> ContainerStateWaiting:
    """Why the pod's first container waits; an empty reason when it does not."""
    status = node.statuses.get(f"uid-{name}")
    first = status.container_statuses[0].state if status and status.container_statuses else None
    return (first.waiting if first else None) or ContainerStateWaiting()


def starts_and_ends(bench: Bench) -> list[str]:
    """Which containers started and ended, in order."""
    found = []
    for line in bench.world.trace:
        match line.split()[1:]:
            case ["start", _, name]:
                found.append(f"start {name.partition('/')[2]}")
            case [_, name, "ended", "with", _]:
                found.append(f"end {name}")
    return found


async def test_a_pod_comes_up_ready_within_a_second(autojump_clock: MockClock) -> None:
    bench = Bench()
    began = trio.current_time()
    async with bench.agent(pod("web", container("a"), container("b"))) as node:
        await until(lambda: bench.running() == ["a", "b"])
        await until(lambda: phase(node, "web") == "Running")
        status = node.statuses.get("uid-web")

    assert trio.current_time() - began < 1
    assert [True, True] == [c.ready for c in status.container_statuses]
    assert {"True"} == {c.status for c in status.conditions}


async def test_stopping_the_agent_stops_no_container_and_the_next_one_adopts_them(autojump_clock: MockClock) -> None:
    bench = Bench()
    web = pod("web")
    async with bench.agent(web):
        await until(lambda: bench.running() == ["main"])
    before = bench.world.all_containers()
    async with bench.agent(web) as node:
        await until(lambda: phase(node, "web") == "Running")
        await trio.sleep(10)

    assert before == bench.world.all_containers()


async def test_init_containers_run_in_order_before_the_regular_ones(autojump_clock: MockClock) -> None:
    bench = Bench()
    init = [container("first", ["exit", "0", "3"]), container("second", ["exit", "0", "3"])]
    async with bench.agent(pod("web", init=init)) as node:
        await until(lambda: bench.running() == ["first"])
        assert phase(node, "web") == "Pending"
        await until(lambda: bench.running() == ["second"])
        await until(lambda: bench.running() == ["main"])


@pytest.mark.parametrize(
    ("expected", "policy", "code"),
    [
        ("Running", "Always", "0"),
        ("Running", "OnFailure", "1"),
        ("Succeeded", "OnFailure", "0"),
        ("Failed", "Never", "1"),
        ("Succeeded", "Never", "0"),
    ],
)
async def test_whether_an_ended_container_is_restarted_is_its_pods_restart_policy(
    expected: str, policy: str, code: str, autojump_clock: MockClock
) -> None:
    bench = Bench()
    web = pod("web", container("main", ["exit", code, "1"]))
    async with bench.agent(replace(web, spec=replace(web.spec, restart_policy=policy))) as node:
        await trio.sleep(60)
        status = node.statuses.get("uid-web")

    assert expected == status.phase
    assert (expected == "Running") == (status.container_statuses[0].restart_count > 0)


async def test_a_sidecar_starts_before_and_outlives_the_regular_containers(autojump_clock: MockClock) -> None:
    bench = Bench()
    sidecar = container("proxy", restart_policy="Always")
    async with bench.agent(pod("job", container("main", ["exit", "0", "5"]), init=[sidecar], policy="Never")) as node:
        await until(lambda: bench.running() == ["main", "proxy"])
        await until(lambda: phase(node, "job") == "Succeeded")
        await until(lambda: bench.running() == [])

    assert ["start proxy", "start main", "end main", "end proxy"] == starts_and_ends(bench)


async def test_sidecars_of_a_removed_pod_end_after_the_regular_containers_last_started_first(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    sidecars = [container(name, restart_policy="Always") for name in ("proxy", "shipper")]
    async with bench.agent(pod("web", container("main"), init=sidecars)) as node:
        await until(lambda: bench.running() == ["main", "proxy", "shipper"])
        node.slots["file"].put(Snapshot())
        await until(lambda: bench.running() == [])

    assert ["start proxy", "start shipper", "start main", "end main", "end shipper", "end proxy"] == starts_and_ends(
        bench
    )


async def test_a_pod_that_comes_again_does_not_wait_for_the_reason_of_its_earlier_instance(
    autojump_clock: MockClock,
) -> None:
    bench, broken = Bench(), pod("web", container("main", image="absent:1"))
    initializing = pod("web", container("main", image="absent:1"), init=[container("first")])
    async with bench.agent(broken) as node:
        await until(lambda: waiting(node, "web").reason in {"ErrImagePull", "ImagePullBackOff"})
        node.slots["file"].put(Snapshot())
        await until(lambda: node.statuses.get("uid-web") is None)
        node.slots["file"].put(Snapshot((initializing,)))
        await until(lambda: bench.running() == ["first"])
        await until(lambda: waiting(node, "web").reason != "")

        assert "PodInitializing" == waiting(node, "web").reason


async def test_a_crashing_container_backs_off_and_counts_its_restarts(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("crash", container("main", ["exit", "1", "1"]))) as node:
        await until(lambda: phase(node, "crash") == "Running")
        await trio.sleep(60)
        (status,) = node.statuses.get("uid-crash").container_statuses
        reasons = {event.reason for event in node.events.all()}

    assert "CrashLoopBackOff" == status.state.waiting.reason
    assert status.state.waiting.message.startswith("back-off 40s restarting failed container=main pod=crash_default(")
    assert 3 == status.restart_count
    assert {"Pulled", "Created", "Started", "BackOff"} <= reasons


async def test_a_finished_pod_never_runs_again_and_keeps_its_last_container(autojump_clock: MockClock) -> None:
    bench = Bench()
    job = pod("job", container("main", ["exit", "3", "1"]), policy="Never")
    async with bench.agent(job) as node:
        await until(lambda: phase(node, "job") == "Failed")
        await trio.sleep(300)
    async with bench.agent(job) as node:
        await until(lambda: phase(node, "job") == "Failed")
        await trio.sleep(300)

    assert 1 == sum("start c" in line for line in bench.world.trace)
    assert [3] == [c.exit_code for c in bench.world.all_containers()]


async def test_a_removed_pod_stops_with_grace_and_leaves_nothing(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web", container("main", ["stubborn"]), grace=7)) as node:
        await until(lambda: phase(node, "web") == "Running")
        asked = trio.current_time()
        node.slots["file"].put(Snapshot())
        await until(lambda: bench.running() == [])
        took = trio.current_time() - asked
        await until(lambda: not bench.world.sandboxes and not bench.files.pods, 180)
        assert not node.workers

    assert 7 <= took < 9
    assert {} == bench.world.containers


async def test_an_edited_manifest_replaces_its_pod_one_after_the_other(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web", container("old"), uid="uid-1")) as node:
        await until(lambda: bench.running() == ["old"])
        node.slots["file"].put(Snapshot((pod("web", container("new"), uid="uid-2"),)))
        await until(lambda: bench.running() == ["new"])

    started = [line.split()[-1] for line in bench.world.trace if " start " in line or "ended" in line]
    assert ["default/old"] != started  # the trace names both
    order = [line for line in bench.world.trace if "old ended" in line or ("start" in line and "web/new" in line)]
    assert "old ended" in order[0]


async def test_a_pod_that_nothing_wants_is_stopped_but_not_before_every_source_has_spoken(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with bench.agent(pod("web")):
        await until(lambda: bench.running() == ["main"])
    ports = Ports(
        MemoryRuntime(bench.world),
        bench.images,
        bench.files,
        MemoryContainerLogs(bench.files),
        bench.volumes,
        bench.cgroups,
        MemoryHandlers(bench.world),
        MemoryPullRecords(),
        MemoryLogins(),
        VirtualClock(),
    )
    facts = NodeFacts(node_name="n", host_ips=("192.0.2.1",))
    node = build_node(ports, facts, Rules(Bounds(), BackoffLimits(), PullRules(5)), ["file", "http"], random.Random(1))
    async with trio.open_nursery() as nursery:
        await nursery.start(run_node, node)
        node.slots["file"].put(Snapshot())
        await trio.sleep(60)
        assert bench.running() == ["main"]
        node.slots["http"].put(Snapshot())
        await until(lambda: bench.running() == [])
        nursery.cancel_scope.cancel()


async def test_a_dead_sandbox_is_replaced_and_its_containers_with_it(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web")) as node:
        await until(lambda: phase(node, "web") == "Running")
        bench.world.stop_sandbox(next(iter(bench.world.sandboxes)))
        await until(lambda: [1] == [s.attempt for s in bench.world.sandboxes.values() if s.state is SandboxState.READY])
        await until(lambda: bench.running() == ["main"])
        assert {"SandboxChanged"} <= {event.reason for event in node.events.all()}


async def test_initialisation_starts_over_in_a_new_sandbox(autojump_clock: MockClock) -> None:
    bench = Bench()
    init = [container("first", ["exit", "0", "3"]), container("second", ["exit", "0", "3"])]
    async with bench.agent(pod("web", init=init)):
        await until(lambda: bench.running() == ["main"])
        bench.world.stop_sandbox(next(iter(bench.world.sandboxes)))
        for running in ("first", "second", "main"):
            await until(lambda running=running: [running] == bench.running())  # type: ignore[misc]
            assert [1] == [s.attempt for s in bench.world.sandboxes.values() if s.state is SandboxState.READY]


async def test_an_image_that_cannot_be_had_is_reported_in_upstreams_words(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web", container(image="nowhere:1"))) as node:
        await until(lambda: waiting(node, "web").reason == "ErrImagePull")
        await until(lambda: waiting(node, "web").reason == "ImagePullBackOff")
        later = waiting(node, "web")

    assert later.message.startswith('Back-off pulling image "nowhere:1": ErrImagePull: ')


async def test_fifty_pods_come_up_together(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(*(pod(f"p{n}") for n in range(50))):
        await until(lambda: len(bench.running()) == 50, 10)


@pytest.mark.parametrize("name", ["unmakeable", "unstartable"])
async def test_a_container_that_cannot_start_does_not_hold_up_its_siblings(
    name: str, autojump_clock: MockClock
) -> None:
    bench = Bench()
    async with bench.agent(pod("web", container("bad", [name]), container("good"))) as node:
        await until(lambda: bench.running() == ["good"])
        await trio.sleep(1)
        reason = waiting(node, "web").reason

    assert reason in {"CreateContainerError", "RunContainerError", "CrashLoopBackOff"}


async def test_a_pod_that_left_and_came_back_under_its_uid_lives_again(autojump_clock: MockClock) -> None:
    bench = Bench()
    job = pod("job", container("main", ["exit", "0", "1"]), policy="OnFailure")
    async with bench.agent(job) as node:
        await until(lambda: phase(node, "job") == "Succeeded")
        await trio.sleep(10)
        node.slots["file"].put(Snapshot())
        await trio.sleep(0.1)
        node.slots["file"].put(Snapshot((pod("job", container("main", ["exit", "0", "100"]), policy="Always"),)))
        await until(lambda: phase(node, "job") == "Running")
        await until(lambda: bench.running() == ["main"])


async def test_what_a_pod_asks_for_in_vain_is_reported_once(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web", resource_claims=(PodResourceClaim(name="gpu"),))) as node:
        await until(lambda: phase(node, "web") == "Running")
        (event,) = [event for event in node.events.all() if event.reason == "UnsupportedFields"]

    assert 1 == event.count
    assert "spec.resourceClaims: claims are not prepared yet" in event.message


@pytest.mark.parametrize("embedded", [True, False])
async def test_what_the_embedded_runtime_does_without_is_told_where_it_is_the_runtime(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, *, embedded: bool
) -> None:
    bench = Bench()
    limited = container("main", resources=ResourceRequirements(limits={"memory": "50Mi"}))
    async with bench.agent(pod("web", limited), embedded=embedded) as node:
        await until(lambda: phase(node, "web") == "Running")
        events = [event for event in node.events.all() if event.reason == "UnsupportedFields"]

    told = "uses fields that the embedded runtime ignores: spec.containers[0].resources.limits[memory]: it is not"
    assert [1] * embedded == [event.count for event in events if told in event.message]
    assert embedded == (f"Pod default/web {told}" in caplog.text)


async def test_an_agent_that_restarts_tells_it_in_its_log_alone(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The event of its earlier life is still there, where the API server keeps it."""
    bench = Bench()
    started = PodStatus(phase="Running", start_time="2027-01-15T08:00:00Z")
    known = pod("web", resource_claims=(PodResourceClaim(name="gpu"),), source="api")
    async with bench.agent(replace(known, status=started)) as node:
        await until(lambda: phase(node, "web") == "Running")

        assert "UnsupportedFields" not in [event.reason for event in node.events.all()]
    assert "spec.resourceClaims: claims are not prepared yet" in caplog.text


async def test_bodies_of_a_crashing_container_do_not_pile_up(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("crash", container("main", ["exit", "1", "1"]))) as node:
        await until(lambda: phase(node, "crash") == "Running")
        await until(lambda: any(c.attempt == 3 for c in bench.world.all_containers()))
        await trio.sleep(3)

    assert [3] == [c.attempt for c in bench.world.all_containers()]


async def test_orphans_are_left_alone_while_a_manifest_cannot_be_read(autojump_clock: MockClock) -> None:
    bench = Bench()
    job = pod("job", container("main", ["exit", "0", "1"]), policy="Never")
    web = pod("web")
    async with bench.agent(web, job) as node:
        await until(lambda: bench.running() == ["main"] and node.statuses.get("uid-job") is not None)
        await trio.sleep(5)
    unreadable = ("/manifests/all.yaml",)
    async with bench.agent(invalid_manifests=unreadable) as node:
        await trio.sleep(300)
        assert ["main"] == bench.running()
        assert {"uid-web", "uid-job"} == set(node.pleg.uids())
        assert {"uid-web", "uid-job"} <= bench.files.pods
        node.slots["file"].put(Snapshot((web,)))
        await until(lambda: {"uid-web"} == set(node.pleg.uids()))
        assert ["main"] == bench.running()


@pytest.mark.parametrize("invalid", [(), ("/manifests/broken.yaml",)])
@pytest.mark.parametrize("late", [(), ("api",)])
async def test_a_pod_that_was_edited_while_no_agent_lived_begins_after_the_end_of_its_earlier_version(
    autojump_clock: MockClock, invalid: tuple[str, ...], late: tuple[str, ...]
) -> None:
    bench = Bench()
    async with bench.agent(pod("web", uid="uid-before"), pod("other", container("other"))):
        await until(lambda: bench.running() == ["main", "other"])
    async with bench.agent(pod("web"), invalid_manifests=invalid, late=late) as node:
        await until(lambda: phase(node, "web") == "Running")
        told = [line for line in starts_and_ends(bench) if not line.endswith("other")]
        assert ["start main", "end main", "start main"] == told
        await trio.sleep(60)
        # What has another name may still be wanted by whom nobody can read.
        assert {"uid-web"} | ({"uid-other"} if invalid or late else set()) == {
            uid for uid in node.pleg.uids() if node.pleg.is_running(uid)
        }


async def test_an_edit_made_while_no_agent_lived_is_undone_without_the_api_server(autojump_clock: MockClock) -> None:
    bench = Bench()
    before, after = pod("web", container("a"), uid="uid-1"), pod("web", container("b"), uid="uid-2")
    async with bench.agent(before, late=("api",)):
        await until(lambda: bench.running() == ["a"])
    async with bench.agent(after, late=("api",)) as node:
        await until(lambda: bench.running() == ["b"])
        node.slots["file"].put(Snapshot((before,)))
        await until(lambda: bench.running() == ["a"])


@pytest.mark.parametrize("seconds", [0.5, 20])
async def test_a_static_pod_that_left_and_came_back_lives_again_without_the_api_server(
    seconds: float, autojump_clock: MockClock
) -> None:
    bench, web = Bench(), pod("web", container("a"))
    async with bench.agent(web, late=("api",)) as node:
        await until(lambda: bench.running() == ["a"])
        node.slots["file"].put(Snapshot())
        await trio.sleep(seconds)
        node.slots["file"].put(Snapshot((web,)))
        await trio.sleep(0.5)
        await until(lambda: bench.running() == ["a"] and not node.workers.is_termination_requested("uid-web"))


async def test_a_pod_waits_while_a_source_that_is_late_may_want_what_runs_under_its_name(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    before = pod("web", uid="uid-before", source="http")
    async with bench.agent(before):
        await until(lambda: bench.running() == ["main"])
    async with bench.agent(pod("web"), late=("http",)) as node:
        await trio.sleep(50)
        node.slots["http"].put(Snapshot((before,)))
        await trio.sleep(60)
        assert ["start main"] == starts_and_ends(bench)
        node.slots["http"].put(Snapshot())
        await until(lambda: phase(node, "web") == "Running")
    assert ["start main", "end main", "start main"] == starts_and_ends(bench)


@pytest.mark.parametrize("uid", ["uid-before", "0f9c3c7e-5b1a-4c55-9a55-2f1f0f9a7a11"])
@pytest.mark.parametrize("command", [["run"], ["exit", "1", "30"]])
async def test_a_pod_does_not_wait_for_a_manifest_url_that_never_answers(
    command: list[str], uid: str, autojump_clock: MockClock
) -> None:
    bench = Bench()
    async with bench.agent(pod("web", container("before", command), uid=uid)):
        await until(lambda: bench.running() == ["before"])
    async with bench.agent(pod("web"), late=("http",)):
        await until(lambda: bench.running() == ["main"])


async def test_a_pod_of_the_api_server_under_a_static_pods_name_lives_on_while_that_is_late(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    static = pod("web", container("static", ["exit", "1", "20"]))
    other = pod("web", container("other"), uid="0f9c3c7e-5b1a-4c55-9a55-2f1f0f9a7a11", source="api")
    async with bench.agent(static, late=("api",)) as node:
        node.slots["api"].put(Snapshot((other,)))
        await until(lambda: bench.running() == ["other", "static"])
    async with bench.agent(static, late=("api", "http")) as node:
        # The static pod is looked after meanwhile: it may be what the API server runs in.
        await until(lambda: starts_and_ends(bench).count("start static") == 3)
        await trio.sleep(120)
        node.slots["api"].put(Snapshot((other,)))
        node.slots["http"].put(Snapshot())
        await trio.sleep(60)
        assert "end other" not in starts_and_ends(bench)


async def test_static_pod_waits_for_the_api_server_that_may_have_a_pod_of_its_name(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with bench.agent(pod("web", uid="0f9c3c7e-5b1a-4c55-9a55-2f1f0f9a7a11")):
        await until(lambda: bench.running() == ["main"])
    async with bench.agent(pod("web"), late=("api",)) as node:
        await trio.sleep(120)
        assert ["start main"] == starts_and_ends(bench)
        node.slots["api"].put(Snapshot())
        await until(lambda: phase(node, "web") == "Running")
    assert ["start main", "end main", "start main"] == starts_and_ends(bench)


async def test_what_a_pod_left_that_ended_beside_an_invalid_manifest_goes(autojump_clock: MockClock) -> None:
    bench, unreadable = Bench(), ("/manifests/broken.yaml",)
    async with bench.agent(pod("web"), invalid_manifests=unreadable) as node:
        await until(lambda: phase(node, "web") == "Running")
        bench.files.pods.add("uid-before")  # of which this agent knows nothing
        node.slots["file"].put(Snapshot((), unreadable))
        await until(lambda: bench.files.pods == {"uid-before"})
        await until(lambda: not bench.files.log_names)


async def test_a_pod_ends_when_its_active_deadline_is_over_and_not_at_the_next_resync(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    limited = pod("limited", active_deadline_seconds=20)
    async with bench.agent(limited) as node:
        await until(lambda: bench.running() == ["main"])
        began = trio.current_time()
        await until(lambda: bench.running() == [])
        assert 18 <= trio.current_time() - began <= 52  # 20 s, then its container's end within 30 s of grace
        status = node.statuses.get(limited.metadata.uid)
        assert status is not None
        assert ("Failed", "DeadlineExceeded") == (status.phase, status.reason)
