"""A pod that the node rejects fails with its reason and nothing of it starts; what runs is not evaluated again."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.app.node import run_node
from trikubelet.app.view import View
from trikubelet.core.admission.another_try import EVALUATED_IN_ONE_PASS_MAX
from trikubelet.core.names import CONFIG_MIRROR
from trikubelet.model import k8s
from trikubelet.model.runtime_errors import RuntimeUnavailable
from trikubelet.node.housekeeping import BEGUN_IN_ONE_STEP_MAX
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_host import VirtualClock
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from trio.testing import MockClock

    from trikubelet.app.node import Node
    from trikubelet.core.admission import Admitted, Rejection
    from trikubelet.model.runtime import RuntimeInfo


TWO_CORES = {"cpu": 2000, "memory": 1 << 33, "pods": 110_000}


def serving(name: str, port: int = 80, **fields: Any) -> k8s.Pod:
    """A pod on a port of the node."""
    return pod(name, container(ports=(k8s.ContainerPort(container_port=80, host_port=port),)), **fields)


def asking(cpu: str, port: int = 0, **fields: Any) -> k8s.Pod:
    """A pod that asks for so much processor time, and for a port of the node if it is not 0."""
    ports = (k8s.ContainerPort(container_port=80, host_port=port),) if port else ()
    resources = k8s.ResourceRequirements(requests={"cpu": cpu})
    return pod("web", container(resources=resources, ports=ports), **fields)


def strict(name: str, port: int = 80) -> k8s.Pod:
    """A pod that only a runtime that gives groups strictly can run."""
    bare = serving(name, port)
    context = k8s.PodSecurityContext(supplemental_groups_policy="Strict")
    return msgspec.structs.replace(bare, spec=msgspec.structs.replace(bare.spec, security_context=context))


class Late(MemoryRuntime):
    """A runtime that does not say for a while what it can do, nor (for another while) what it holds."""

    status_at = lists_at = 0.0

    async def info(self) -> RuntimeInfo:
        """The world's, once it is time."""
        if trio.current_time() < self.status_at:
            raise RuntimeUnavailable("server is not initialized yet")
        return await super().info()

    async def list_sandboxes(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """The world's, once it is time."""
        if trio.current_time() < self.lists_at:
            raise RuntimeUnavailable("server is not initialized yet")
        return await super().list_sandboxes(pod_uid)


@pytest.mark.parametrize("sources", [("file",), ("file", "api")], ids=["all spoke", "the API server is away"])
@pytest.mark.parametrize(("status", "lists"), [(10, 0), (0, 10), (10, 5), (5, 10)])
async def test_no_pod_is_rejected_before_the_runtime_has_answered(
    autojump_clock: MockClock, status: float, lists: float, sources: tuple[str, ...]
) -> None:
    bench = Bench()
    async with bench.agent(strict("old")):
        await until(lambda: ["main"] == bench.running())
    before = bench.world.all_containers()
    late = Late(bench.world, bench.problems)
    late.status_at, late.lists_at = trio.current_time() + status, trio.current_time() + lists
    node = bench.build_node(sources, late)
    async with trio.open_nursery() as nursery:
        # as a manifest's pods come, whatever the runtime does; the new one's edits come to a pod without a worker
        node.slots["file"].put(Snapshot((strict("old"), strict("new", 81))))
        await nursery.start(run_node, node)
        await trio.sleep(1)
        edited = msgspec.structs.replace(strict("new", 81).metadata, labels={"edited": "yes"})
        node.slots["file"].put(Snapshot((strict("old"), msgspec.structs.replace(strict("new", 81), metadata=edited))))
        await until(lambda: "Running" == phase(node, "uid-old") and "Running" == phase(node, "uid-new"))

        assert {} == node.admission.rejected
        assert [] == [one for one in before if one not in bench.world.all_containers()]
        nursery.cancel_scope.cancel()


async def test_before_the_first_list_no_pod_passes_for_one_that_an_earlier_agent_admitted(
    autojump_clock: MockClock,
) -> None:
    bench = Bench(allocatable=TWO_CORES)
    late = Late(bench.world, bench.problems)
    late.lists_at = trio.current_time() + 10
    node = bench.build_node(runtime=late)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_node, node)
        node.slots["file"].put(Snapshot((asking("3"),)))
        await until(lambda: "Failed" == phase(node, "uid-web"))
        assert 1 == node.admission.rejected.total()
        nursery.cancel_scope.cancel()


async def test_pod_waiting_for_rejection_gets_no_worker_by_an_edit(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    late = Late(bench.world, bench.problems)
    late.status_at = trio.current_time() + 10
    node = bench.build_node(runtime=late)
    async with trio.open_nursery() as nursery:
        node.slots["file"].put(Snapshot((serving("a"), serving("b"))))
        await nursery.start(run_node, node)
        await until(lambda: "Running" == phase(node, "uid-a"))
        edited = msgspec.structs.replace(serving("b").metadata, labels={"edited": "yes"})
        node.slots["file"].put(Snapshot((serving("a"), msgspec.structs.replace(serving("b"), metadata=edited))))
        await trio.sleep(3)
        assert ("uid-b" in node.workers, ["main"]) == (False, bench.running())
        view = View(node, VirtualClock(), "n", "/logs", dict)
        shown, waiting = (one.status or k8s.PodStatus() for one in view.pods())
        assert ("", "Pending", "WaitsForRuntime") == (shown.reason, waiting.phase, waiting.reason)
        assert "has not answered yet; unless its answer changes this" in waiting.message
        said = "node(s) didn't have free ports for the requested pod ports: host port 80/TCP is in use by pod default/a"
        assert waiting.message.endswith(said)
        assert node.statuses.get("uid-b") is None, "what is not certain is told to nobody else"
        assert view.pods()[1] is view.pods()[1]
        await until(lambda: "Failed" == phase(node, "uid-b"))
        assert "NodePorts" == (view.pods()[1].status or k8s.PodStatus()).reason
        assert {"NodePorts": 1} == node.admission.rejected
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def waiting(bench: Bench, *pods: k8s.Pod, sources: tuple[str, ...] = ("file",)) -> AsyncIterator[Node]:
    """An agent whose runtime does not say for ten seconds what it can do, three seconds after it began."""
    late = Late(bench.world, bench.problems)
    late.status_at = trio.current_time() + 10
    node = bench.build_node(sources, late)
    async with trio.open_nursery() as nursery:
        node.slots[sources[0]].put(Snapshot(pods))
        await nursery.start(run_node, node)
        await trio.sleep(3)
        yield node
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("source", ["file", "api"])
async def test_a_pod_that_is_resized_while_it_waits_is_judged_by_what_it_asks_for_now(
    autojump_clock: MockClock, source: str
) -> None:
    bench = Bench(allocatable=TWO_CORES)
    async with waiting(bench, asking("3", source=source), sources=(source,)) as node:
        assert "uid-web" not in node.workers
        node.slots[source].put(Snapshot((asking("1", source=source),)))
        await until(lambda: "Running" == phase(node, "uid-web"))


async def test_a_pod_that_asks_for_too_much_while_it_waits_is_rejected_for_that(autojump_clock: MockClock) -> None:
    bench = Bench(allocatable=TWO_CORES)
    holder = serving("holder", source="api")
    async with waiting(bench, holder, asking("1", source="api", port=80), sources=("api",)) as node:
        assert "uid-web" not in node.workers
        node.slots["api"].put(Snapshot((asking("100", source="api", port=80),)))
        await until(lambda: "Failed" == phase(node, "uid-web"))
        status = node.statuses.get("uid-web")
        assert status is not None
        assert "OutOfcpu" == status.reason


async def test_pods_that_come_and_go_without_a_worker_are_allocated_nothing(autojump_clock: MockClock) -> None:
    bench = Bench(allocatable=TWO_CORES)
    async with waiting(bench, asking("3")) as node:
        assert "uid-web" not in node.workers
        node.slots["file"].put(Snapshot(()))
        await trio.sleep(30)
        assert "<Allocations of 0 pods>" == repr(node.resizes._allocations)


async def test_the_second_pod_on_a_port_fails_and_the_first_runs(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(serving("a"), serving("b")) as node:
        await until(lambda: "Running" == phase(node, "uid-a") and node.workers.is_finished("uid-b"))

        assert 1 == len(bench.running())
        rejected = node.statuses.get("uid-b")
        assert rejected is not None
        assert ("Failed", "NodePorts") == (rejected.phase, rejected.reason)
        assert rejected.message.startswith("Pod was rejected: Predicate NodePorts failed")
        assert ["NodePorts"] == [event.reason for event in node.events.about("uid-b")]


async def test_the_port_is_free_again_once_its_pod_has_ended(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(serving("a")) as node:
        await until(lambda: "Running" == phase(node, "uid-a"))
        node.slots["file"].put(Snapshot(()))
        await until(lambda: not bench.running() and "uid-a" not in node.workers)
        node.slots["file"].put(Snapshot((serving("b"),)))
        await until(lambda: "Running" == phase(node, "uid-b"))


async def test_a_static_pod_that_was_rejected_begins_when_its_port_is_free(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(serving("a"), serving("b")) as node:
        await until(lambda: "Failed" == phase(node, "uid-b") and "Running" == phase(node, "uid-a"))
        rejected = node.statuses.get("uid-b")
        assert rejected is not None
        assert rejected.message.endswith("host port 80/TCP is in use by pod default/a")
        await trio.sleep(60)
        assert "Failed" == phase(node, "uid-b")
        assert [("NodePorts", 1)] == [(event.reason, event.count) for event in node.events.about("uid-b")]

        node.slots["file"].put(Snapshot((serving("b"),)))
        await until(lambda: "Running" == phase(node, "uid-b"))
        status = node.statuses.get("uid-b")
        assert status is not None
        assert ("", "") == (status.reason, status.message)
        assert {"NodePorts": 1} == node.admission.rejected
        assert ["main"] == bench.running()


async def test_a_rejected_static_pod_waits_until_the_holder_of_its_port_has_ended(autojump_clock: MockClock) -> None:
    bench = Bench()
    stubborn = container(command=["stubborn"], ports=(k8s.ContainerPort(container_port=80, host_port=80),))
    async with bench.agent(pod("a", stubborn), serving("b")) as node:
        await until(lambda: "Failed" == phase(node, "uid-b") and "Running" == phase(node, "uid-a"))
        node.slots["file"].put(Snapshot((serving("b"),)))
        await until(lambda: node.workers.is_termination_requested("uid-a"))
        while node.workers.could_have_running_containers("uid-a"):
            assert "Failed" == phase(node, "uid-b")
            await trio.sleep(0.1)
        await until(lambda: "Running" == phase(node, "uid-b"))


@pytest.mark.parametrize("source", ["api", "file"])
async def test_a_pod_that_lacked_cpu_begins_when_it_is_free_if_it_is_static(
    source: str, autojump_clock: MockClock
) -> None:
    bench = Bench(allocatable=TWO_CORES)
    holder = pod("holder", container(resources=k8s.ResourceRequirements(requests={"cpu": "1500m"})))
    async with bench.agent(holder, sources=("file", "api")) as node:
        await until(lambda: "Running" == phase(node, "uid-holder"))
        late = asking("1", source=source)
        node.slots["api"].put(Snapshot((late,) if source == "api" else ()))
        node.slots["file"].put(Snapshot((holder, late) if source == "file" else (holder,)))
        await until(lambda: "Failed" == phase(node, "uid-web"))
        node.slots["file"].put(Snapshot((late,) if source == "file" else ()))
        await until(lambda: "uid-holder" not in node.workers)
        await trio.sleep(60)
        assert ("Running" if source == "file" else "Failed") == phase(node, "uid-web")


async def test_a_hundred_rejected_static_pods_are_evaluated_a_few_at_a_time(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    async with bench.agent(*(serving(f"p{n}") for n in range(100))) as node:
        await until(lambda: 99 == node.admission.rejected["NodePorts"])
        await trio.sleep(10)
        asked: list[str] = []
        evaluate = node.admission._evaluation.evaluate_beside_all

        def noted(pod: k8s.Pod) -> Admitted | Rejection:
            asked.append(pod.metadata.uid)
            return evaluate(pod)

        monkeypatch.setattr(node.admission._evaluation, "evaluate_beside_all", noted)
        await until(lambda: 99 == len(set(asked)))
        passes = -(-99 // EVALUATED_IN_ONE_PASS_MAX)
        assert len(asked) <= 2 * passes * EVALUATED_IN_ONE_PASS_MAX, "each once in a round"
        assert {"NodePorts": 99} == node.admission.rejected


async def test_a_pod_rejected_by_an_earlier_agent_begins_when_its_port_is_free(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(serving("a"), serving("b")) as node:
        await until(lambda: "Failed" == phase(node, "uid-b") and "Running" == phase(node, "uid-a"))
    async with bench.agent(serving("a"), serving("b")) as node:
        await until(lambda: "Failed" == phase(node, "uid-b") and "Running" == phase(node, "uid-a"))
        node.slots["file"].put(Snapshot((serving("b"),)))
        await until(lambda: "Running" == phase(node, "uid-b"))


async def test_an_edited_manifest_has_the_port_of_the_pod_it_replaces(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(serving("a")) as node:
        await until(lambda: "Running" == phase(node, "uid-a"))
        node.slots["file"].put(Snapshot((serving("a", uid="edited"),)))
        await until(lambda: "Running" == phase(node, "edited"))
        assert 1 == len(bench.running())


async def test_what_has_ended_is_not_rejected_for_it(autojump_clock: MockClock) -> None:
    bench = Bench()
    ended = msgspec.structs.replace(serving("b"), status=k8s.PodStatus(phase="Succeeded"))
    async with bench.agent(serving("a"), ended) as node:
        await until(lambda: "Running" == phase(node, "uid-a") and node.workers.is_finished("uid-b"))
        assert "Succeeded" == phase(node, "uid-b")
        assert () == node.events.about("uid-b")
        assert {} == node.admission.rejected


async def test_a_pod_that_housekeeping_sees_first_is_evaluated_too(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent() as node:
        await until(lambda: node.desired.all_ready)
        node.desired.replace("file", {one.metadata.uid: one for one in (serving("a"), serving("b"))})
        await node.housekeeping.compare()
        assert ["NodePorts"] == [event.reason for event in node.events.about("uid-b")]


class Begun(trio.abc.Instrument):
    """How many pods were begun with in one step at most, and ``then``, what happens after the first."""

    def __init__(self, node: Node, patch: pytest.MonkeyPatch, then: Callable[[], None] = lambda: None) -> None:
        self.in_step = self.most = self.count = 0
        self._then = then
        self._begin = node.admission.begin
        patch.setattr(node.admission, "begin", self.begin)

    def begin(self, pod: k8s.Pod) -> None:
        self.in_step, self.count = self.in_step + 1, self.count + 1
        self.most = max(self.most, self.in_step)
        self._begin(pod)
        if self.count == 1:
            self._then()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.in_step = 0


def many(count: int) -> dict[str, k8s.Pod]:
    return {f"uid-p{n}": pod(f"p{n}") for n in range(count)}


async def test_many_pods_that_housekeeping_finds_are_not_admitted_in_one_step(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Bench().agent() as node:
        await until(lambda: node.desired.all_ready)
        begun = Begun(node, monkeypatch)
        trio.lowlevel.add_instrument(begun)
        node.desired.replace("file", many(100))
        await node.housekeeping.compare()
        trio.lowlevel.remove_instrument(begun)
        assert (100, BEGUN_IN_ONE_STEP_MAX) == (begun.count, begun.most)


async def test_a_pod_that_goes_while_others_are_admitted_is_not(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Bench().agent() as node:
        await until(lambda: node.desired.all_ready)
        Begun(node, monkeypatch, then=lambda: node.desired.replace("file", many(40)))
        node.desired.replace("file", many(60))
        await node.housekeeping.compare()
        assert many(40).keys() == set(node.workers.uids)


async def test_pod_being_deleted_is_not_started_by_any_path(autojump_clock: MockClock) -> None:
    bench = Bench()
    web = pod("web", source="api")
    deleting = msgspec.structs.replace(web.metadata, deletion_timestamp="2027-01-15T08:00:00Z")
    async with bench.agent(sources=("api",)) as node:
        await until(lambda: node.desired.all_ready)
        node.desired.replace("api", {"uid-web": msgspec.structs.replace(web, metadata=deleting)})
        await node.housekeeping.compare()
        await until(lambda: node.workers.is_finished("uid-web"))
        assert not [line for line in bench.world.trace if " start " in line]


async def test_unsupported_fields_are_reported_by_any_path(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent() as node:
        await until(lambda: node.desired.all_ready)
        web = pod("web", resource_claims=(k8s.PodResourceClaim(name="gpu"),))
        node.desired.replace("file", {"uid-web": web})
        await node.housekeeping.compare()
        await node.housekeeping.compare()
        assert [("UnsupportedFields", 1)] == [(event.reason, event.count) for event in node.events.about("uid-web")]


async def test_mirror_pod_is_not_started_by_any_path(autojump_clock: MockClock) -> None:
    bench = Bench()
    web = pod("web", source="api")
    annotations = {**web.metadata.annotations, CONFIG_MIRROR: "uid-static"}
    mirror = msgspec.structs.replace(web, metadata=msgspec.structs.replace(web.metadata, annotations=annotations))
    async with bench.agent(sources=("api",)) as node:
        await until(lambda: node.desired.all_ready)
        node.desired.replace("api", {"uid-web": mirror})
        await node.housekeeping.compare()
        assert "uid-web" not in node.workers


async def test_a_pod_that_was_rejected_is_forgotten_with_its_manifest(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(serving("a"), serving("b")) as node:
        await until(lambda: "Failed" == phase(node, "uid-b"))
        node.slots["file"].put(Snapshot((serving("a"),)))
        await until(lambda: "uid-b" not in node.workers)
        assert node.statuses.get("uid-b") is None


async def test_what_runs_when_the_agent_starts_is_not_evaluated_again(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(serving("a"), serving("b", 81)) as node:
        await until(lambda: 2 == len(bench.running()))
    moved = (serving("b", 81), serving("a", 81))  # as if a rule had become stricter meanwhile
    async with bench.agent(*moved) as node:
        await until(lambda: "Running" == phase(node, "uid-a") and "Running" == phase(node, "uid-b"))
        assert 2 == len(bench.running())


async def test_a_resource_that_a_pod_names_is_reported_in_its_status_and_not_in_a_metrics_label(
    autojump_clock: MockClock,
) -> None:
    bench = Bench(allocatable=TWO_CORES)
    greedy = container(resources=k8s.ResourceRequirements(requests={"hugepages-7Mi": "7Mi"}))
    async with bench.agent(pod("web", greedy, source="api"), sources=("api",)) as node:
        await until(lambda: "Failed" == phase(node, "uid-web"))
        status = node.statuses.get("uid-web")
        assert status is not None
        assert "OutOfhugepages-7Mi" == status.reason
        assert {"OutOfExtendedResources": 1} == node.admission.rejected
