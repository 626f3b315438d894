"""Pods resized while they run, from the new spec to the runtime and back into the status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.core.admission import Admitted
from trikubelet.core.containers.memory_rules import MemoryRules
from trikubelet.core.lifecycle import Starting
from trikubelet.model import k8s
from trikubelet.model.pod_notes import Note
from trikubelet.model.runtime import ContainerState, HeldResources
from trikubelet.model.runtime_errors import NotImplementedByRuntime
from trikubelet.pods.resizes import PERIODIC
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_host import MemoryPodCgroups
from trikubelet.testing.world import World

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from trio.testing import MockClock

    from trikubelet.app.node import Node
    from trikubelet.core.admission import Rejection
    from trikubelet.model.runtime import ContainerStatus
    from trikubelet.model.runtime_config import LinuxResources

TWO_CORES = {"cpu": 2000, "memory": 1 << 30, "pods": 10}
SMALL, LARGE, HUGE = ("100m", "64Mi"), ("400m", "128Mi"), ("1800m", "64Mi")


def web(cpu: str, memory: str, generation: int = 1, name: str = "web", **fields: Any) -> k8s.Pod:
    """A Guaranteed pod of one container that asks for so much, in the form the server keeps."""
    amounts: dict[str, k8s.Quantity] = {"cpu": cpu, "memory": memory}
    policies = tuple(
        k8s.ContainerResizePolicy(resource_name=one, restart_policy="RestartContainer")
        for one in fields.pop("restarts", ())
    )
    asked = k8s.ResourceRequirements(limits=amounts, requests=amounts)
    command = fields.pop("command", ("run",))
    made = pod(name, container("a", command, resources=asked, resize_policy=policies), source="api", **fields)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, generation=generation))


class Journal(MemoryPodCgroups):
    """Writes into the bench's trace what a pod's cgroup suffices for."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.beside: list[dict[str, k8s.Quantity]] = []

    async def ensure(self, pod: k8s.Pod, *, beside: k8s.Pod | None = None) -> None:
        """Note the processor limits of the pod's first container."""
        limits = [one.spec.containers[0].resources.limits["cpu"] for one in (beside, pod) if one]  # type: ignore[union-attr]
        self.bench.told.append("cgroup " + " and ".join(map(str, limits)))
        if beside is not None and (amounts := beside.spec.containers[0].resources) is not None:
            self.beside.append(dict(amounts.limits))
        await super().ensure(pod, beside=beside)


class NotedWorld(World):
    """A world that writes into the bench's trace what containers are held to, or refuses it."""

    def __init__(self, bench: ResizeBench) -> None:
        super().__init__()
        self.bench = bench

    def hold(self, container_id: str, resources: LinuxResources) -> None:
        """See ``World.hold``."""
        if self.bench.refuses is not None:
            raise self.bench.refuses
        self.bench.told.append(f"{self.container(container_id).name} {resources.cpu_quota_us // 100}m")
        super().hold(container_id, resources)


class ResizeBench(Bench):
    """A bench that tells in which order cgroups and containers were changed."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**{"allocatable": TWO_CORES, **fields})
        self.told: list[str] = []
        self.cgroups = Journal(self)
        self.refuses: Exception | None = None
        self.world = NotedWorld(self)

    def api(self, *pods: k8s.Pod) -> AbstractAsyncContextManager[Node]:
        """An agent whose pods are a server's."""
        return self.agent(*pods, sources=("api",))

    def container(self, name: str = "a") -> ContainerStatus:
        """The newest of that name."""
        return [one for one in self.world.all_containers() if one.name == name][-1]

    def order(self) -> list[str]:
        """Return the reports, repeated ones once."""
        return [one for n, one in enumerate(self.told) if n == 0 or self.told[n - 1] != one]


def put(node: Node, *pods: k8s.Pod) -> None:
    node.slots["api"].put(Snapshot(pods))


def shown(node: Node, uid: str = "uid-web") -> k8s.PodStatus:
    return node.statuses.get(uid) or k8s.PodStatus()


def resizing(node: Node, uid: str = "uid-web") -> list[tuple[str, str, str, int | None]]:
    """The conditions that tell of a resize."""
    return [
        (one.type, one.reason, one.message, one.observed_generation)
        for one in shown(node, uid).conditions
        if one.type.startswith("PodResize")
    ]


def has(node: Node, amounts: tuple[str, str], uid: str = "uid-web") -> bool:
    """True if the status shows that the container has them, and no resize."""
    cpu, memory = amounts
    told = k8s.ResourceRequirements(limits={"cpu": cpu, "memory": memory}, requests={"cpu": cpu, "memory": memory})
    found = [(one.resources, one.allocated_resources) for one in shown(node, uid).container_statuses]
    return not resizing(node, uid) and found == [(told, told.requests)]


def events(node: Node, uid: str = "uid-web") -> list[str]:
    return [one.reason for one in node.events.about(uid) if one.reason.startswith("Resize")]


async def test_a_container_is_changed_as_it_runs_within_a_cgroup_that_suffices(autojump_clock: MockClock) -> None:
    bench = ResizeBench()
    async with bench.api(web(*SMALL)) as node:
        await until(lambda: phase(node, "uid-web") == "Running" and has(node, SMALL))
        before = bench.container()
        put(node, web(*LARGE, 2))
        await until(lambda: has(node, LARGE))

        assert (before.id, HeldResources(100_000, 40_000, 409, 128 << 20)) == (
            bench.container().id,
            bench.container().resources,
        )
        assert ["cgroup 100m", "cgroup 100m and 400m", "a 400m", "cgroup 400m"] == bench.order()
        assert ["ResizeStarted", "ResizeCompleted"] == events(node)
        assert 2 == shown(node).observed_generation

        put(node, web(*SMALL, 3))
        await until(lambda: has(node, SMALL))

        assert ["cgroup 400m and 100m", "a 100m", "cgroup 100m"] == bench.order()[4:]


async def test_a_status_that_has_seen_the_new_spec_tells_of_the_resize_until_it_is_done(
    autojump_clock: MockClock,
) -> None:
    bench = ResizeBench()
    seen: list[tuple[int | None, bool, k8s.Quantity]] = []

    def look(_uid: str, _pod: k8s.Pod, status: k8s.PodStatus, _version: int) -> None:
        has_condition = any(one.type.startswith("PodResize") for one in status.conditions)
        told = [one.resources for one in status.container_statuses if one.resources is not None]
        seen.extend((status.observed_generation, has_condition, one.limits["cpu"]) for one in told)

    async with bench.api(web(*SMALL)) as node:
        await until(lambda: phase(node, "uid-web") == "Running" and has(node, SMALL))
        node.statuses.changed.add(look)
        put(node, web(*LARGE, 2))
        await until(lambda: has(node, LARGE))

    assert (2, True, "100m") in seen
    assert {(2, "400m")} == {(generation, cpu) for generation, is_told, cpu in seen if not is_told}


async def test_a_container_is_recreated_where_its_policy_wants_it(autojump_clock: MockClock) -> None:
    bench = ResizeBench()
    async with bench.api(web(*SMALL, restarts=("memory",))) as node:
        await until(lambda: phase(node, "uid-web") == "Running" and has(node, SMALL))
        put(node, web(*LARGE, 2, restarts=("memory",)))
        await until(lambda: has(node, LARGE) and shown(node).container_statuses[0].restart_count == 1)

        assert HeldResources(100_000, 40_000, 409, 128 << 20) == bench.container().resources
        assert ["a"] == bench.running()
        assert "Container a resize requires restart" in [one.message for one in node.events.about("uid-web")]
        assert ["cgroup 100m", "cgroup 100m and 400m", "cgroup 400m"] == bench.order()


async def test_what_is_recreated_with_less_memory_gives_back_what_it_uses(autojump_clock: MockClock) -> None:
    """The memory runtime's containers use a megabyte each: of this one more than it may have then."""
    bench = ResizeBench()
    async with bench.api(web(*SMALL, restarts=("memory",))) as node:
        await until(lambda: phase(node, "uid-web") == "Running" and has(node, SMALL))
        put(node, web("100m", "512Ki", 2, restarts=("memory",)))
        await until(lambda: has(node, ("100m", "512Ki")))

        assert (1, 512 << 10) == (
            bench.container().attempt,
            (bench.container().resources or HeldResources()).memory_limit_bytes,
        )
        assert ["ResizeStarted", "ResizeCompleted"] == events(node)


async def test_what_does_not_fit_waits_and_the_more_important_go_first_when_there_is_room(
    autojump_clock: MockClock,
) -> None:
    bench = ResizeBench()
    other = web("1", "64Mi", name="other")
    low, high = web(*SMALL, name="low", priority=1), web(*SMALL, name="high", priority=2)
    async with bench.api(low, high, other) as node:
        await until(lambda: len(bench.running()) == 3)
        grown = [web("1500m", "64Mi", 2, name=name, priority=n) for name, n in (("low", 1), ("high", 2))]
        put(node, *grown, other)
        await until(lambda: bool(resizing(node, "uid-low")) and bool(resizing(node, "uid-high")))
        why = "Node didn't have enough resource: cpu, requested: 1500, used: 1100, capacity: 2000"
        assert [("PodResizePending", "Deferred", why, 2)] == resizing(node, "uid-low")
        await trio.sleep(400)
        assert ["ResizeDeferred"] == events(node, "uid-low")
        assert ("100m", "100m") == tuple(
            status.container_statuses[0].resources.limits["cpu"]  # type: ignore[union-attr]
            for status in (shown(node, "uid-low"), shown(node, "uid-high"))
        )

        put(node, *grown)
        await until(lambda: has(node, ("1500m", "64Mi"), "uid-high"))
        assert "Deferred" == resizing(node, "uid-low")[0][1]
        assert {"pods_removed": 1} == node.figures.resizes_accepted
        assert {("container_level", "guaranteed"): 3} == node.figures.admitted
        assert [(("accepted", "medium"), 1)] == [(k, one.count) for k, one in node.figures.resizes_deferred.items()]

        put(node, grown[0])
        await until(lambda: has(node, ("1500m", "64Mi"), "uid-low"))


async def test_a_bug_that_one_waiting_pod_provokes_is_its_own(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = ResizeBench()
    other, third = web("1", "64Mi", name="other"), web(*SMALL, name="third")
    bad, good = web(*SMALL, name="bad", priority=2), web(*SMALL, name="good", priority=1)
    async with bench.api(bad, good, third, other) as node:
        await until(lambda: len(bench.running()) == 4)
        evaluate = node.evaluation.evaluate

        def ask(pod: k8s.Pod) -> Admitted | Rejection:
            if pod.metadata.name == "bad":
                raise ValueError("a bug")
            return evaluate(pod)

        monkeypatch.setattr(node.evaluation, "evaluate", ask)
        bad, good = (web("900m", "64Mi", 2, name=name, priority=n) for name, n in (("bad", 2), ("good", 1)))
        put(node, bad, good, third, other)
        await until(lambda: bool(resizing(node, "uid-bad")) and bool(resizing(node, "uid-good")))
        why = "a bug in the node's agent prevents a decision (see its log)"
        assert [("PodResizePending", "Deferred", why, 2)] == resizing(node, "uid-bad")
        await trio.sleep(400)
        put(node, bad, good, web("200m", "64Mi", 2, name="third"), other)
        await until(lambda: has(node, ("200m", "64Mi"), "uid-third"))
        put(node, bad, good, web("200m", "64Mi", 2, name="third"))
        await until(lambda: has(node, ("900m", "64Mi"), "uid-good"))

        said = [one for one in caplog.messages if "a bug in deciding about its resize" in one]
        assert ["Pod default/bad: a bug in deciding about its resize; it will be decided again later"] == said
        assert ["ResizeDeferred"] == events(node, "uid-bad")
        monkeypatch.undo()
        await until(lambda: has(node, ("900m", "64Mi"), "uid-bad"), 400)


@pytest.mark.parametrize("has_waited", [False, True])
async def test_a_critical_pod_gets_the_room_of_one_that_had_not_begun_yet(
    has_waited: bool, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is over the moment it is to end, in the middle of deciding."""
    bench = ResizeBench()
    critical = 2_000_000_000
    first = web("1500m", "64Mi", name="first", priority=0, grace=30, command=("stubborn",))
    between = web("1500m", "64Mi", name="between", priority=critical)
    small, grown = web(*SMALL, priority=critical + 1), web("1500m", "64Mi", 2, priority=critical + 1)
    async with bench.api(small, first) as node:
        await until(lambda: len(bench.running()) == 2)
        if has_waited:
            with monkeypatch.context() as full:

                def allocate(_: k8s.Pod) -> None:
                    raise OSError("no space left on device")

                full.setattr(node.resizes._allocations, "allocate", allocate)
                full.setattr(node.evaluation, "evaluate", lambda _: Admitted())
                put(node, grown, first)
                await until(lambda: bool(resizing(node)))
        put(node, grown if has_waited else small, first, between)
        await until(lambda: "uid-between" in node.workers)
        worker = node.workers.worker("uid-between")
        assert worker is not None
        assert Starting() == worker.state
        if has_waited:
            node.resizes.retry(PERIODIC)
        else:
            put(node, grown, first, between)
        await until(lambda: has(node, ("1500m", "64Mi")))
        await trio.sleep(60)

        assert has(node, ("1500m", "64Mi"))
        assert 1 == events(node).count("ResizeStarted")
        assert "ResizeDeferred" in events(node)


async def test_one_that_waits_may_be_taken_back(autojump_clock: MockClock) -> None:
    bench = ResizeBench()
    other = web("1", "64Mi", name="other")
    async with bench.api(web(*SMALL), other) as node:
        await until(lambda: len(bench.running()) == 2)
        put(node, web(*HUGE, 2), other)
        await until(lambda: bool(resizing(node)))
        put(node, web(*SMALL, 3), other)
        await until(lambda: has(node, SMALL) and shown(node).observed_generation == 3)
        assert [("reverted", "normal")] == list(node.figures.resizes_deferred)
        put(node, web(*SMALL, 3))
        await trio.sleep(400)

        assert has(node, SMALL)
        assert "<Resizes, 0 wait>" == repr(node.resizes)


async def test_a_new_pod_finds_room_by_what_others_are_allocated_and_not_by_what_they_ask_for(
    autojump_clock: MockClock,
) -> None:
    bench = ResizeBench()
    other = web("1", "64Mi", name="other")
    async with bench.api(web(*SMALL), other) as node:
        await until(lambda: len(bench.running()) == 2)
        put(node, web(*HUGE, 2), other)
        await until(lambda: bool(resizing(node)))
        put(node, web(*HUGE, 2), other, web("800m", "64Mi", name="new"))
        await until(lambda: len(bench.running()) == 3)


async def test_what_was_asked_for_while_no_agent_lived_is_decided_about_by_the_next(autojump_clock: MockClock) -> None:
    bench = ResizeBench()
    other = web("1", "64Mi", name="other")
    async with bench.api(web(*SMALL), other):
        await until(lambda: len(bench.running()) == 2)
    async with bench.api(web(*HUGE, 2), other) as node:
        await until(lambda: [one[1] for one in resizing(node)] == ["Deferred"] and "Node" in resizing(node)[0][2])
        assert {"cgroup 100m", "cgroup 1"} == {*bench.order()}
        assert ["ResizeDeferred"] == events(node)
    async with bench.api(web(*HUGE, 2)) as node:
        await until(lambda: has(node, HUGE))

        assert HeldResources(100_000, 180_000, 1843, 64 << 20) == bench.container().resources


async def test_another_class_is_infeasible_and_the_pod_stays_in_its_cgroup(autojump_clock: MockClock) -> None:
    """A manifest that gives its UID may have been edited so while no agent lived; the server refuses it."""
    bench = ResizeBench()
    async with bench.api(web(*SMALL)):
        await until(lambda: bench.running() == ["a"])
    asked = k8s.ResourceRequirements(limits={"cpu": "400m"})
    small = web(*SMALL, 2)
    burstable = msgspec.structs.replace(
        small, spec=msgspec.structs.replace(small.spec, containers=(container("a", resources=asked),))
    )
    bench.told.clear()
    async with bench.api(burstable) as node:
        await until(lambda: [one[1] for one in resizing(node)] == ["Infeasible"])
        await trio.sleep(400)

        why = "A pod that is Guaranteed cannot be made Burstable in place: it must be recreated."
        assert [("PodResizePending", "Infeasible", why, 2)] == resizing(node)
        assert ["cgroup 100m"] == bench.order()
        assert ("Guaranteed", {"qos_class": 1}) == (shown(node).qos_class, node.figures.resizes_infeasible)


async def test_what_was_granted_is_carried_out_by_the_next_agent(autojump_clock: MockClock) -> None:
    bench = ResizeBench()
    async with bench.api(web(*SMALL)) as node:
        await until(lambda: phase(node, "uid-web") == "Running" and has(node, SMALL))
        bench.refuses = NotImplementedByRuntime("not here")
        put(node, web(*LARGE, 2))
        await until(lambda: "ResizeError" in events(node))
        assert [("PodResizeInProgress", "Error", 'container "a" cannot be resized: not here', 2)] == resizing(node)
    bench.refuses = None
    async with bench.api(web(*LARGE, 2)) as node:
        await until(lambda: has(node, LARGE) and bench.container().attempt == 0)

        assert HeldResources(100_000, 40_000, 409, 128 << 20) == bench.container().resources


async def test_a_limit_below_what_is_used_is_refused_until_it_is_raised(autojump_clock: MockClock) -> None:
    """The memory runtime's containers use a megabyte each."""
    bench = ResizeBench()
    async with bench.api(web(*SMALL)) as node:
        await until(lambda: phase(node, "uid-web") == "Running" and has(node, SMALL))
        put(node, web("100m", "512Ki", 2))
        await until(lambda: "ResizeError" in events(node))
        ((_, reason, message, generation),) = resizing(node)
        assert ("Error", 2) == (reason, generation)
        assert (
            "cannot decrease memory limits: attempting to set pod memory limit (524288) below current usage (1048576), "
            'attempting to set container "a" memory limit (524288) below current usage (1048576)'
        ) == message
        assert 64 << 20 == (bench.container().resources or HeldResources()).memory_limit_bytes
        await trio.sleep(60)
        assert ["ResizeStarted", "ResizeError"] == events(node)

        put(node, web("100m", "32Mi", 3))
        await until(lambda: has(node, ("100m", "32Mi")))
        assert ["ResizeStarted", "ResizeError", "ResizeStarted", "ResizeCompleted"] == events(node)


async def test_memory_of_what_may_swap_is_infeasible_until_the_spec_changes(autojump_clock: MockClock) -> None:
    def burstable(memory: str, generation: int) -> k8s.Pod:
        asked = k8s.ResourceRequirements(requests={"memory": memory, "cpu": "1"})
        made = pod("web", container("a", resources=asked), source="api")
        return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, generation=generation))

    bench = Bench(allocatable=TWO_CORES, rules=MemoryRules(swap_bytes=1 << 30, swap_controlled=True))
    async with bench.agent(burstable("64Mi", 1), sources=("api",)) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        put(node, burstable("128Mi", 2))
        await until(lambda: bool(resizing(node)))

        assert [("PodResizePending", "Infeasible", "In-place resize of containers with swap is not supported.", 2)] == (
            resizing(node)
        )
        assert ["ResizeInfeasible"] == events(node)
        assert "<Resizes, 0 wait>" == repr(node.resizes)
        put(node, burstable("64Mi", 3))
        await until(lambda: not resizing(node))


async def test_where_nothing_can_be_written_down_nothing_is_granted(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = ResizeBench()
    async with bench.api(web(*SMALL)) as node:
        await until(lambda: phase(node, "uid-web") == "Running" and has(node, SMALL))
        with monkeypatch.context() as full:

            def note(*_: object) -> None:
                raise OSError("no space left on device")

            full.setattr(bench.files, "note", note)
            put(node, web(*LARGE, 2))
            await until(lambda: bool(resizing(node)))
            why = "cannot write the allocation: no space left on device"
            assert [("PodResizePending", "Deferred", why, 2)] == resizing(node)
            assert has_small(node)
        await until(lambda: has(node, LARGE), 400)
        assert {"periodic_retry": 1} == node.figures.resizes_accepted


def has_small(node: Node) -> bool:
    (one,) = shown(node).container_statuses
    return one.resources is not None and one.resources.limits["cpu"] == "100m"


async def test_a_note_that_cannot_be_read_is_said_and_what_the_runtime_tells_is_mended(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = ResizeBench()
    async with bench.api(web(*SMALL)):
        await until(lambda: bench.running() == ["a"])
    bench.files.note("uid-web", Note.RESOURCES, b"{")
    async with bench.api(web(*LARGE, 2, restarts=("cpu",))) as node:
        await until(lambda: has(node, LARGE))

        assert "cannot read its allocation, its spec counts" in caplog.text
        assert (0, HeldResources(100_000, 40_000, 409, 128 << 20)) == (
            bench.container().attempt,
            bench.container().resources,
        )


async def test_unnoted_container_keeps_its_room_while_it_uses_too_much(
    autojump_clock: MockClock,
) -> None:
    """The memory runtime's containers use a megabyte each."""
    bench = ResizeBench()
    async with bench.api(web(*LARGE)):
        await until(lambda: bench.running() == ["a"])
    bench.files.note("uid-web", Note.RESOURCES, b"{")
    bench.told.clear()
    async with bench.api(web("100m", "512Ki", 2)) as node:
        await until(lambda: "ResizeError" in events(node))
        await trio.sleep(60)

        assert ["cgroup 400m and 100m"] == bench.order()
        assert {str(128 << 20)} == {one["memory"] for one in bench.cgroups.beside}
        assert 128 << 20 == (bench.container().resources or HeldResources()).memory_limit_bytes


async def test_a_pods_own_amounts_are_its_cgroups_and_those_of_containers_without(autojump_clock: MockClock) -> None:
    def whole(cpu: str, generation: int) -> k8s.Pod:
        own = k8s.ResourceRequirements(requests={"cpu": "100m"}, limits={"cpu": cpu})
        made = pod(
            "web",
            container("a", resources=k8s.ResourceRequirements(requests={"cpu": "100m"}, limits={"cpu": "100m"})),
            container("b"),
            source="api",
            resources=own,
        )
        return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, generation=generation))

    bench = ResizeBench()
    async with bench.api(whole("500m", 1)) as node:
        await until(lambda: len(bench.running()) == 2)
        put(node, whole("800m", 2))
        await until(lambda: events(node) == ["ResizeStarted", "ResizeCompleted"])

        assert ["b 800m"] == [one for one in bench.told if not one.startswith("cgroup")]
        assert (shown(node).resources or k8s.ResourceRequirements()).limits == {"cpu": "800m"}


async def test_a_pod_that_goes_leaves_nothing_behind(autojump_clock: MockClock) -> None:
    bench = ResizeBench()
    other = web("1", "64Mi", name="other")
    async with bench.api(web(*SMALL), other) as node:
        await until(lambda: len(bench.running()) == 2)
        put(node, web(*HUGE, 2), other)
        await until(lambda: bool(resizing(node)))
        put(node, other)
        await until(lambda: node.statuses.get("uid-web") is None)

        assert "<Resizes, 0 wait>" == repr(node.resizes)
        assert "<Allocations of 1 pods>" == repr(node.resizes._allocations)


async def test_after_a_resize_the_runtime_is_asked_what_it_holds_to(autojump_clock: MockClock) -> None:
    bench = ResizeBench()
    async with bench.api(web(*SMALL)) as node:
        await until(lambda: phase(node, "uid-web") == "Running" and has(node, SMALL))
        put(node, web(*LARGE, 2))
        await until(lambda: has(node, LARGE))
        await trio.sleep(5)
        observed = node.cache.get("uid-web").latest("a")

        assert observed is not None
        assert ContainerState.RUNNING is observed.state
        assert HeldResources(100_000, 40_000, 409, 128 << 20) == observed.resources
