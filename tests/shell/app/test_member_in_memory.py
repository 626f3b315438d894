"""A whole node that is a member of a cluster, in memory: what the cluster wants comes up, is told of, and goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from shell.memberkit import Bench, until
from trikubelet.app.node import Node, run_node
from trikubelet.app.report import START_SECONDS_MAX
from trikubelet.model import k8s
from trikubelet.model.api import CONFIG_MAPS, EVENTS, PODS, RUNTIME_CLASSES, SERVICE_ACCOUNTS, PatchKind, Selection
from trikubelet.model.bounds import Bounds
from trikubelet.model.decoding import decode_object
from trikubelet.model.runtime import RuntimeCondition, RuntimeInfo
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.testing.apiserver.store import Write


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_pod_bound_to_the_node_runs_and_is_told_ready_within_a_second(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.agent() as (_, member):
        with trio.fail_after(1):
            await member.publisher.registered.wait()
        assert "True" == bench.node_ready().status
        bench.schedule("web")
        await until(lambda: bench.is_ready("web"), 1)

    found = bench.pod("web")
    assert found is not None
    assert found.status is not None
    assert ("Running", "192.0.2.1") == (found.status.phase, found.status.host_ip)
    assert ["main"] == bench.running()


async def test_the_node_is_told_ready_as_soon_as_its_runtime_is(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = MemoryRuntime.info
    is_ready = False

    async def info(runtime: MemoryRuntime) -> RuntimeInfo:
        found = await healthy(runtime)
        return replace(found, conditions=(RuntimeCondition("RuntimeReady", is_ready), *found.conditions[1:]))

    monkeypatch.setattr(MemoryRuntime, "info", info)
    async with bench.agent() as (_, member):
        await member.publisher.registered.wait()
        await trio.sleep(12)  # just after a look at the status, which there is one of every 10 s
        assert "False" == bench.node_ready().status
        is_ready = True
        await until(lambda: "True" == bench.node_ready().status, Bounds().runtime_not_ready_check_seconds + 0.5)


async def test_the_node_is_told_ready_as_soon_as_it_has_come_up(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(node: Node, *, task_status: trio.TaskStatus[None]) -> None:
        await trio.sleep(START_SECONDS_MAX + 2)  # just after the first report, which waits no longer
        assert "True" != bench.node_ready().status
        await run_node(node, task_status=task_status)

    monkeypatch.setattr("shell.memberkit.run_node", late)
    async with bench.agent():
        await until(lambda: "True" == bench.node_ready().status, 0.5)


async def test_a_deleted_pods_object_goes_as_soon_as_nothing_of_it_is_left(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tear_down = bench.volumes.tear_down

    async def slowly(uid: str) -> None:
        await trio.sleep(12)  # past the last change of its status, and the look at all of them
        await tear_down(uid)
        down.append(trio.current_time())

    down: list[float] = []
    monkeypatch.setattr(bench.volumes, "tear_down", slowly)
    async with bench.agent():
        bench.schedule("web", termination_grace_period_seconds=30)
        await until(lambda: bench.is_ready("web"))
        bench.server.delete(PODS, "web", "default", None, "")
        await until(lambda: bench.pod("web") is None)

        assert down[0] <= trio.current_time() <= down[0] + 1


async def test_a_deleted_pod_ends_with_its_grace_and_its_object_goes_after_its_containers(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.agent():
        bench.schedule("web", termination_grace_period_seconds=30)
        await until(lambda: bench.is_ready("web"))
        bench.server.delete(PODS, "web", "default", None, "")
        assert bench.pod("web") is not None
        running_when_gone = []

        def gone() -> bool:
            if bench.pod("web") is None:
                running_when_gone.append(bench.running())
                return True
            return False

        await until(gone)

    assert [[]] == running_when_gone


@pytest.mark.parametrize("where", ["requests", "limits"])
@pytest.mark.parametrize("other", ["requests", "limits"])
async def test_a_pod_with_an_amount_that_is_none_is_its_own_problem(
    autojump_clock: MockClock, bench: Bench, where: str, other: str
) -> None:
    def odd(kind: str) -> k8s.Container:
        return k8s.Container(name="odd", image="web:1", resources=k8s.ResourceRequirements(**{kind: {"cpu": "lots"}}))

    async with bench.agent(pod("static", odd(other), priority_class_name="system-node-critical")):
        bench.schedule("odd", odd(where))
        body = {
            "status": {
                "startTime": "noon",
                "conditions": [{"type": "X", "status": "True", "lastTransitionTime": "soon"}],
            }
        }
        bench.server.patch(PODS, "odd", body, "default", kind=PatchKind.STRATEGIC, subresource="status")
        bench.server.delete(PODS, bench.schedule("ends", odd(where)).metadata.name, "default", None, "")
        await trio.sleep(30)
        bench.schedule("web")
        await until(lambda: bench.is_ready("web"), 10)
        await until(lambda: bench.pod("ends") is None)

    assert ["main"] == bench.running()


async def test_a_pod_deleted_by_force_is_stopped(autojump_clock: MockClock, bench: Bench) -> None:
    async with bench.agent():
        bench.schedule("web")
        await until(lambda: bench.is_ready("web"))
        bench.server.delete(PODS, "web", "default", 0, "")
        await until(lambda: not bench.running(), 60)
        assert bench.pod("web") is None


async def test_another_pod_of_the_same_name_gets_a_life_of_its_own(autojump_clock: MockClock, bench: Bench) -> None:
    async with bench.agent() as (node, _):
        first = bench.schedule("web")
        await until(lambda: bench.is_ready("web"))
        bench.server.delete(PODS, "web", "default", 0, "")
        second = bench.schedule("web")
        await until(lambda: bench.is_ready("web"))
        await until(lambda: len(bench.running()) == 1)

    assert first.metadata.uid != second.metadata.uid
    assert {second.metadata.uid} == {one.metadata.uid for one in node.desired}


async def test_pod_failed_by_another_client_ends_at_once_and_stays_failed(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.agent():
        bench.schedule("web", termination_grace_period_seconds=1)
        await until(lambda: bench.is_ready("web"))
        body = {"status": {"phase": "Failed", "reason": "SomebodySaysSo"}}
        bench.server.patch(PODS, "web", body, "default", kind=PatchKind.STRATEGIC, subresource="status")
        await until(lambda: not bench.running(), 5)
        await trio.sleep(120)
        found = bench.pod("web")

    assert [] == bench.running()
    assert found is not None
    assert found.status is not None
    assert ("Failed", "SomebodySaysSo") == (found.status.phase, found.status.reason)


async def test_a_pod_that_failed_stays_so_though_nothing_here_tells_of_it_any_more(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.agent():
        bench.schedule(
            "once", k8s.Container(name="main", image="web:1", command=["exit", "1", "0"]), restart_policy="Never"
        )
        await until(lambda: bench.phase("once") == "Failed")
    for sandbox in list(bench.world.sandboxes):
        bench.world.remove_sandbox(sandbox)
    async with bench.agent():
        await trio.sleep(120)

    assert 1 == sum(map(len, bench.world.runs.values()))
    assert "Failed" == bench.phase("once")


async def test_a_static_pod_has_a_mirror_which_comes_back_and_goes_with_it(
    autojump_clock: MockClock, bench: Bench
) -> None:
    static = pod("web")
    annotations = {"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": static.metadata.uid}
    static = msgspec.structs.replace(static, metadata=msgspec.structs.replace(static.metadata, annotations=annotations))
    async with bench.agent(static) as (node, _):
        await until(lambda: bench.is_ready("web"), 5)
        before = bench.world.all_containers()
        first = bench.uid("web")
        bench.server.delete(PODS, "web", "default", None, "")
        await until(lambda: bench.uid("web") not in ("", first) and bench.is_ready("web"), 10)
        assert [c.id for c in before] == [c.id for c in bench.world.all_containers()]

        node.slots["file"].put(Snapshot())
        await until(lambda: bench.pod("web") is None, 90)
        assert [] == bench.running()


@pytest.mark.parametrize("away_seconds", [0.5, 3])
async def test_the_mirror_of_a_pod_that_is_brought_back_shows_nothing_of_its_earlier_instance(
    autojump_clock: MockClock, bench: Bench, away_seconds: float
) -> None:
    once = k8s.Container(name="once", image="web:1", command=["exit", "0", "1"])
    static = pod("web", once, k8s.Container(name="main", image="web:1"), policy="Never")
    annotations = {"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": static.metadata.uid}
    static = msgspec.structs.replace(static, metadata=msgspec.structs.replace(static.metadata, annotations=annotations))
    ended: dict[str, list[str]] = {}

    def note(write: Write) -> None:
        if write.resource == PODS and write.after is not None:
            status = msgspec.convert(write.after, k8s.Pod).status or k8s.PodStatus()
            states = (one.state for one in status.container_statuses if one.name == "main" and one.state)
            ids = [one.terminated.container_id for one in states if one.terminated]
            ended.setdefault(write.after["metadata"]["uid"], []).extend(ids)

    async with bench.agent(static) as (node, _):
        await until(lambda: len(bench.running()) == 1, 30)
        await trio.sleep(15)
        first = bench.uid("web")
        bench.server.store.watchers.append(note)
        node.slots["file"].put(Snapshot())
        await trio.sleep(away_seconds)
        node.slots["file"].put(Snapshot([static]))
        await until(lambda: bench.uid("web") not in ("", first) and bench.running() == ["main"], 60)
        await trio.sleep(60)

    assert [bench.uid("web")] == [uid for uid in ended if uid != first]
    assert [] == ended[bench.uid("web")]


async def test_a_rejected_static_pod_gets_a_new_mirror_when_it_begins_and_no_phase_goes_back(
    autojump_clock: MockClock, bench: Bench
) -> None:
    def on_port_80(name: str) -> k8s.Pod:
        port = k8s.ContainerPort(container_port=80, host_port=80)
        static = pod(name, k8s.Container(name="main", image="web:1", ports=(port,)))
        annotations = {"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": static.metadata.uid}
        return msgspec.structs.replace(
            static, metadata=msgspec.structs.replace(static.metadata, annotations=annotations)
        )

    phases: dict[str, list[str]] = {}

    def note(write: Write) -> None:
        if write.resource == PODS and write.after is not None:
            status = msgspec.convert(write.after, k8s.Pod).status or k8s.PodStatus()
            phases.setdefault(write.after["metadata"]["uid"], []).append(status.phase)

    bench.server.store.watchers.append(note)
    holder, waiting = on_port_80("holder"), on_port_80("waiting")
    async with bench.agent(holder, waiting) as (node, _):
        await until(lambda: bench.is_ready("holder") and bench.phase("waiting") == "Failed", 30)
        first = bench.uid("waiting")
        node.slots["file"].put(Snapshot([waiting]))
        await until(lambda: bench.is_ready("waiting"), 90)
        await trio.sleep(60)

    assert first != bench.uid("waiting")
    assert "Failed" == phases[first][-1]
    assert "Failed" not in phases[bench.uid("waiting")]
    assert all("Failed" not in seen or {*seen[seen.index("Failed") :]} == {"Failed"} for seen in phases.values())


async def test_a_restart_of_the_agent_shows_nowhere(autojump_clock: MockClock, bench: Bench) -> None:
    async with bench.agent():
        bench.schedule("web")
        await until(lambda: bench.is_ready("web"))
        await trio.sleep(5)
    before, node_before = bench.pod("web"), bench.node_ready()
    containers = bench.world.all_containers()
    for _ in range(3):
        await trio.sleep(2)
        async with bench.agent():
            await trio.sleep(15)

    assert before == bench.pod("web")
    assert containers == bench.world.all_containers()
    assert node_before.last_transition_time == bench.node_ready().last_transition_time


async def test_without_an_api_server_static_pods_start_and_nothing_known_stops(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.agent():
        bench.schedule("web")
        await until(lambda: bench.is_ready("web"))
    bench.link.down()
    async with bench.agent(pod("static")):
        await until(lambda: len(bench.running()) == 2)
        await trio.sleep(3600)
        assert 2 == len(bench.running())
        bench.server.delete(PODS, "web", "default", None, "")
        bench.link.up()
        await until(lambda: bench.pod("web") is None, 45)

    assert 1 == len(bench.running())


async def test_a_job_that_ended_is_reported_and_never_run_again(autojump_clock: MockClock, bench: Bench) -> None:
    async with bench.agent():
        bench.schedule("job", restart_policy="Never")
        await until(lambda: bench.running() == ["main"])
        (container,) = bench.world.all_containers()
        bench.world.end(container.id, 0)
        await until(lambda: bench.phase("job") == "Succeeded")
    async with bench.agent():
        await trio.sleep(120)

    assert "Succeeded" == bench.phase("job")
    assert [] == bench.running()


async def test_events_are_reported(autojump_clock: MockClock, bench: Bench) -> None:
    async with bench.agent():
        bench.schedule("web")
        await until(lambda: bench.is_ready("web"))
        await trio.sleep(2)

    told = [decode_object(item.raw, k8s.Event) for item in bench.server.list(EVENTS, Selection()).items]
    about = {event.reason for event in told if event.involved_object.name == "web"}
    assert {"Created", "Started"} <= about


async def test_readiness_gate_counts_as_soon_as_it_is_set(autojump_clock: MockClock, bench: Bench) -> None:
    async with bench.agent():
        bench.schedule("web", readiness_gates=(k8s.PodReadinessGate(condition_type="example.com/ok"),))
        await until(lambda: bench.running() == ["main"])
        await trio.sleep(5)
        assert not bench.is_ready("web")
        bench.write_condition("web", "example.com/ok")
        await until(lambda: bench.is_ready("web"), 2)


async def test_a_gate_that_opens_and_shuts_is_followed_at_once_and_without_a_sync(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.agent() as (node, _):
        gates = (k8s.PodReadinessGate(condition_type="example.com/ok"),)
        uid = bench.schedule("web", readiness_gates=gates).metadata.uid
        await until(lambda: bench.running() == ["main"])
        await trio.sleep(5)
        worker = node.workers.worker(uid)
        assert worker is not None
        before = worker.statistics()
        for number in range(10):
            opens = number % 2 == 0
            bench.write_condition("web", "example.com/ok", str(opens))
            await until(lambda opens=opens: bench.is_ready("web") is opens, 0.2)

        assert before == worker.statistics()


@pytest.mark.parametrize("gates", [(), ("example.com/ok",)], ids=["no gates", "a gate"])
async def test_what_others_write_into_a_status_costs_the_node_nothing(
    gates: tuple[str, ...], autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.agent() as (node, _):
        asked = tuple(k8s.PodReadinessGate(condition_type=gate) for gate in gates)
        uid = bench.schedule("web", readiness_gates=asked).metadata.uid
        for gate in gates:
            bench.write_condition("web", gate)
        await until(lambda: bench.is_ready("web"))
        await trio.sleep(5)
        worker = node.workers.worker(uid)
        assert worker is not None
        before, patches = worker.statistics(), sum(one.startswith("patch") for one in bench.api.requests)
        bench.write_condition("web", "example.com/other")
        await trio.sleep(5)

        assert before == worker.statistics()
        assert patches == sum(one.startswith("patch") for one in bench.api.requests)
        assert "example.com/other" in {one.type for one in (worker.pod.status or k8s.PodStatus()).conditions}


ACCESS = k8s.Volume(
    name="access",
    projected=k8s.ProjectedVolumeSource(
        sources=(
            k8s.VolumeProjection(service_account_token=k8s.ServiceAccountTokenProjection(path="token")),
            k8s.VolumeProjection(config_map=k8s.ConfigMapProjection(name="ca")),
        )
    ),
)


async def test_a_pod_waits_for_the_objects_its_volumes_name_and_is_told_of_their_changes(
    autojump_clock: MockClock, bench: Bench
) -> None:
    def content() -> dict[str, bytes]:
        (files,) = bench.volumes.files.values()
        return {path: file.content for path, file in files.items()}

    async with bench.agent() as (node, member):
        bench.schedule("web", volumes=(ACCESS,))
        await trio.sleep(10)
        assert [] == bench.running()
        assert "Pending" == bench.phase("web")
        said = [event.message for event in node.events.all() if event.reason == "FailedMount"]
        assert (
            'MountVolume.SetUp failed for volume "access" : '
            '[failed to fetch token: serviceaccounts "default" not found, configmap "ca" not found]'
        ) in said

        bench.server.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default")
        bench.server.create(CONFIG_MAPS, {"metadata": {"name": "ca"}, "data": {"ca.crt": "1"}}, "default")
        await until(lambda: bench.is_ready("web"), 3)
        token = content()["token"]
        assert {"token": token, "ca.crt": b"1"} == content()

        bench.server.patch(CONFIG_MAPS, "ca", {"data": {"ca.crt": "2"}}, "default", kind=PatchKind.MERGE)
        await until(lambda: content()["ca.crt"] == b"2", 3)
        for written in (b"1", b"2"):  # a sync that does nothing at the runtime is not waited for to show there
            bench.server.patch(
                CONFIG_MAPS, "ca", {"data": {"ca.crt": written.decode()}}, "default", kind=PatchKind.MERGE
            )
            await until(lambda written=written: content()["ca.crt"] == written, 0.2)
        bench.server.delete(CONFIG_MAPS, "ca", "default")
        await trio.sleep(4000)  # one source is gone, so nothing of the volume changes any more
        assert {"token": token, "ca.crt": b"2"} == content()
        assert ["main"] == bench.running()

        bench.server.delete(PODS, "web", "default", 0)
        await until(lambda: len(member.objects.config_maps) == 0)
        assert {} == bench.volumes.files


async def test_a_token_is_renewed_in_the_volume_before_it_ends(autojump_clock: MockClock, bench: Bench) -> None:
    bench.server.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default")
    bench.server.create(CONFIG_MAPS, {"metadata": {"name": "ca"}}, "default")
    async with bench.agent():
        bench.schedule("web", volumes=(ACCESS,))
        await until(lambda: bench.is_ready("web"))
        (files,) = bench.volumes.files.values()
        await trio.sleep(3600 - 60)
        (later,) = bench.volumes.files.values()

    assert files["token"].content != later["token"].content


async def test_every_volume_that_is_broken_has_an_event_of_its_own(autojump_clock: MockClock, bench: Bench) -> None:
    volumes = tuple(
        k8s.Volume(name=name, config_map=k8s.ConfigMapVolumeSource(name=name)) for name in ("there", "one", "two")
    )
    bench.server.create(CONFIG_MAPS, {"metadata": {"name": "there"}}, "default")
    async with bench.agent() as (node, _):
        bench.schedule("web", volumes=volumes)
        await trio.sleep(10)
        said = {event.message for event in node.events.all() if event.reason == "FailedMount"}

    assert {
        f'MountVolume.SetUp failed for volume "{name}" : configmap "{name}" not found' for name in ("one", "two")
    } == said


async def test_undecodable_pod_gets_an_event_and_keeps_its_containers(autojump_clock: MockClock, bench: Bench) -> None:
    async with bench.agent():
        bench.schedule("read")
        bench.schedule("unread")
        await until(lambda: bench.is_ready("read") and bench.is_ready("unread"))
    uid = bench.uid("unread")
    at = ("default", "unread")
    tree = bench.server.store.get(PODS, at) or {}
    bench.server.store.put(PODS, at, tree | {"spec": tree["spec"] | {"containers": "none"}})
    bench.server.delete(PODS, "read", "default", 0, "")
    async with bench.agent() as (node, _):
        await until(lambda: node.pleg.uids() == [uid], 60)
        await trio.sleep(300)  # through the collection of garbage, too
        assert ["main"] == bench.running()
        assert {uid} == bench.files.pods
        (event,) = [event for event in node.events.all() if event.about.uid == uid]
        assert ("Warning", "FailedValidation", "default/unread", 1) == (
            event.type,
            event.reason,
            str(event.about),
            event.count,
        )
        assert event.message.startswith("Error validating pod default/unread from api: ")
        bench.server.delete(PODS, "unread", "default", 0, "")
        await until(lambda: not bench.running() and node.pleg.uids() == [], 60)


async def test_a_pod_waits_for_its_runtime_class_and_runs_with_its_handler(
    autojump_clock: MockClock, bench: Bench
) -> None:
    async with bench.agent() as (node, member):
        bench.schedule("web", runtime_class_name="quick")
        await trio.sleep(10)
        assert [] == bench.running()
        told = 'Failed to create pod sandbox: runtimeclass.node.k8s.io "quick" not found'
        assert told in [event.message for event in node.events.all() if event.reason == "FailedCreatePodSandBox"]

        bench.server.create(RUNTIME_CLASSES, {"metadata": {"name": "quick"}, "handler": "kata"})
        await until(lambda: bench.is_ready("web"), 3)
        assert ["kata"] == [config.runtime_handler for config in bench.world.sandbox_configs.values()]

        bench.server.delete(RUNTIME_CLASSES, "quick")  # a class that goes stops nobody
        await trio.sleep(200)
        assert ["main"] == bench.running()
        bench.server.delete(PODS, "web", "default", 0)
        await until(lambda: len(member.objects.classes) == 0)


async def test_a_pod_that_ends_for_a_critical_one_is_told_to_have_failed_once_nothing_of_it_runs(
    autojump_clock: MockClock, bench: Bench
) -> None:
    def asks(name: str, cpu: str) -> k8s.Container:
        return k8s.Container(name=name, image="web:1", resources=k8s.ResourceRequirements(requests={"cpu": cpu}))

    running_when_told = []

    def note(_: object) -> None:
        if "Failed" == bench.phase("lesser"):
            running_when_told.append("lesser" in bench.running())

    async with bench.agent():
        bench.schedule("lesser", asks("lesser", "3"))
        bench.schedule("spared", asks("spared", "1"))
        await until(lambda: bench.is_ready("lesser") and bench.is_ready("spared"))
        bench.server.store.watchers.append(note)
        bench.schedule("critical", asks("critical", "2"), priority=2_000_001_000)
        await until(lambda: "Failed" == bench.phase("lesser") and bench.is_ready("critical"))

    told = bench.pod("lesser")
    assert told is not None
    assert told.status is not None
    assert "Preempting" == told.status.reason
    assert ("True", "TerminationByKubelet") in [
        (one.status, one.reason) for one in told.status.conditions if one.type == "DisruptionTarget"
    ]
    assert {False} == set(running_when_told)
    assert ["critical", "spared"] == sorted(bench.running())


async def test_a_bug_in_what_is_noted_of_one_pod_keeps_no_other_from_being_run(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    async with bench.agent() as (node, _):

        def observed(pod: k8s.Pod) -> None:
            if pod.metadata.name == "bad":
                raise ValueError("oops")

        monkeypatch.setattr(node.startups, "observed", observed)
        bench.schedule("bad", container("bad"))
        bench.schedule("web", container("web"))
        await until(lambda: bench.running() == ["bad", "web"])
        await until(lambda: bench.phase("bad") == bench.phase("web") == "Running")

    assert 1 == sum("Pod default/bad: a bug in recording its state" in line for line in caplog.messages)
