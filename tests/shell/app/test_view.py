"""What the servers see of a whole node in memory, while its pods come, crash and go."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
import trio

from shell.app.test_node_in_memory import Bench, until
from trikubelet.app.view import View
from trikubelet.core.file_source import FileState
from trikubelet.core.kubectl.pod_row import pod_row
from trikubelet.core.lifecycle import Finished, StopReason, Terminating
from trikubelet.core.pleg_pod import UninspectedPod
from trikubelet.core.timestamps import parse_rfc3339
from trikubelet.httpd.messages import json
from trikubelet.model import k8s
from trikubelet.model.faults import Fault
from trikubelet.model.runtime import ContainerState, ContainerStatus, PodObservation, SandboxState, SandboxStatus
from trikubelet.pleg.cache import PodCache
from trikubelet.server.node_view import ManifestNote, NodeNote, NoSuchPod, NotShown, ObjectNote, RunningContainer
from trikubelet.sources.snapshot import Snapshot
from trikubelet.status.memory import PodStatuses
from trikubelet.status.recorder import EventRecorder
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_host import MemoryPodFiles, VirtualClock
from trikubelet.testing.world import wall_ns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from trio.testing import MockClock

    from trikubelet.app.node import Node
    from trikubelet.core.lifecycle import State
    from trikubelet.model.k8s import Pod
    from trikubelet.pods.worker import PodWorker


@asynccontextmanager
async def seen(bench: Bench, *pods: Pod) -> AsyncIterator[tuple[Node, View]]:
    """An agent and the view of it."""
    async with bench.agent(*pods) as node:
        yield node, View(node, VirtualClock(), "n", "/logs", dict)


def words(view: View) -> list[tuple[str, str, str]]:
    """Name, READY and STATUS of each pod."""
    rows = [pod_row(pod, wall_ns()) for pod in view.pods()]
    return [(row.name, row.ready, row.status) for row in rows]


async def test_a_pod_is_seen_from_its_manifest_to_its_last_breath(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with seen(bench, pod("web", container(command=["stubborn"]), grace=20)) as (node, view):
        await until(lambda: words(view) == [("web", "1/1", "Running")])
        await trio.sleep(30)
        born = parse_rfc3339(view.pods()[0].metadata.creation_timestamp)
        assert 30 <= (wall_ns() - born) // 10**9 <= 32

        node.slots["file"].put(Snapshot())
        await until(lambda: words(view) == [("web", "1/1", "Terminating")])
        first = view.pods()[0].metadata.deletion_timestamp
        await trio.sleep(10)
        assert first == view.pods()[0].metadata.deletion_timestamp
        await until(lambda: words(view) == [])


async def test_an_age_survives_a_restart_of_the_agent(autojump_clock: MockClock) -> None:
    bench, web = Bench(), pod("web")
    async with seen(bench, web) as (_, view):
        await until(lambda: words(view) == [("web", "1/1", "Running")])
        born = view.pods()[0].metadata.creation_timestamp
    await trio.sleep(1000)
    async with seen(bench, web) as (_, view):
        await until(lambda: words(view) == [("web", "1/1", "Running")])

        assert born == view.pods()[0].metadata.creation_timestamp


async def test_an_unchanged_pod_is_the_same_object(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with seen(bench, pod("a"), pod("b", container(command=["exit", "1", "40"]))) as (_, view):
        await until(lambda: {"Running"} == {word for _, _, word in words(view)})
        await trio.sleep(5)
        before = {shown.metadata.name: shown for shown in view.pods()}
        await trio.sleep(15)
        assert all(before[shown.metadata.name] is shown for shown in view.pods())
        await trio.sleep(30)
        after = {shown.metadata.name: shown for shown in view.pods()}

    assert before["a"] is after["a"]
    assert before["b"] is not after["b"]


async def test_events_and_work_are_those_of_the_node(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with seen(bench, pod("web")) as (_, view):
        await until(lambda: words(view) == [("web", "1/1", "Running")])
        events, (work,) = view.events(), view.work()

    about = {event.involved_object for event in events}
    assert {("v1", "Pod", "web", "uid-web")} == {(one.api_version, one.kind, one.name, one.uid) for one in about}
    assert {"Pulled", "Created", "Started"} <= {event.reason for event in events}
    assert ("uid-web", "Syncing", "") == (work.uid, work.state, work.last_error)


async def test_a_pod_that_cannot_be_inspected_is_reported_with_its_work(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with seen(Bench(), pod("web"), pod("well")) as (node, view):
        await until(lambda: len(view.work()) == 2)
        late = UninspectedPod("uid-web", "web", "default", trio.current_time() - 45, "no answer yet")
        monkeypatch.setattr(node.pleg, "uninspected_pods", lambda: [late])
        told = {work.uid: (work.unseen_seconds, work.unseen_because) for work in view.work()}

    assert {"uid-web": (45, "no answer yet"), "uid-well": (None, "")} == told


async def test_a_node_says_why_it_cannot_work(autojump_clock: MockClock) -> None:
    state = SimpleNamespace(unhealthy=lambda: "runtime is down", network_problem=lambda: None)
    desired = SimpleNamespace(sources_not_ready=frozenset({"http"}))
    pleg = SimpleNamespace(remark=lambda: "cannot inspect default/web (70s: no answer yet)")
    stuck = cast("Node", SimpleNamespace(runtime_state=state, desired=desired, pleg=pleg))
    async with seen(Bench(), pod("web")) as (_, view):
        await until(lambda: words(view) == [("web", "1/1", "Running")])
        assert NodeNote("n") == view.node()

    assert (
        NodeNote(
            "n",
            (
                "runtime is down",
                "cannot inspect default/web (70s: no answer yet)",
                "no data yet from the source http: its pods are unknown",
            ),
        )
        == View(stuck, VirtualClock(), "n", "/logs", dict).node()
    )


async def test_a_log_is_that_of_the_run_that_is_meant(autojump_clock: MockClock) -> None:
    bench = Bench()
    crash = pod("crash", container(command=["exit", "1", "1"]))
    async with seen(bench, crash, pod("web")) as (_, view):
        await until(lambda: ("web", "1/1", "Running") in words(view))
        assert (
            "/var/log/pods/default_web_uid-web/main/0.log"
            == (await view.log("default", "web", "main", previous=False)).path
        )
        with pytest.raises(NotShown, match='container "main" of pod "web" has no earlier run on this node'):
            await view.log("default", "web", "main", previous=True)

        await until(lambda: ("crash", "0/1", "CrashLoopBackOff") in words(view))
        waits = await view.log("default", "crash", "main", previous=False)
        assert waits.path == (await view.log("default", "crash", "main", previous=True)).path
        assert waits.is_over()
        number = int(waits.path.rsplit("/", 1)[1].removesuffix(".log"))

        await until(lambda: ("crash", "1/1", "Running") in words(view))
        runs = await view.log("default", "crash", "main", previous=False)
        assert f"/var/log/pods/default_crash_uid-crash/main/{number + 1}.log" == runs.path
        assert waits.path == (await view.log("default", "crash", "main", previous=True)).path
        assert not runs.is_over()
        await trio.sleep(3)
        assert runs.is_over()


async def test_what_runs_can_be_talked_to_and_nothing_else(autojump_clock: MockClock) -> None:
    bench = Bench()
    told = container("t", command=["run"], tty=True)
    async with seen(bench, pod("web", container(), told), pod("crash", container(command=["exit", "1", "0"]))) as (
        node,
        view,
    ):
        await until(lambda: {("web", "2/2", "Running"), ("crash", "0/1", "CrashLoopBackOff")} == set(words(view)))
        uid = next(one.metadata.uid for one in view.pods() if one.metadata.name == "web")
        seen_ids = {run.name: run.id for run in node.cache.get(uid).running}

        assert RunningContainer(seen_ids["main"], tty=False) == view.running_container("default", "web", "main")
        assert RunningContainer(seen_ids["t"], tty=True) == view.running_container("default", "web", "t", uid)
        sandbox = node.cache.get(uid).ready_sandbox
        assert sandbox is not None
        assert {sandbox.id} == {view.running_sandbox("default", "web", one) for one in ("", uid)}
        for name, of, which in [("web", "", "x"), ("web", "other", "main"), ("crash", "", "main")]:
            with pytest.raises(NotShown, match=f'container not found \\("{which}"\\)'):
                view.running_container("default", name, which, of)
        with pytest.raises(NotShown, match="pod not found"):
            view.running_sandbox("default", "web", "other")
        with pytest.raises(NoSuchPod):
            view.running_container("other", "web", "main")
        with pytest.raises(NoSuchPod):
            view.running_sandbox("default", "x")


async def test_what_has_no_log_is_told_why(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with seen(bench, pod("web", container(image="missing:1", image_pull_policy="Never"))) as (_, view):
        await until(lambda: ("web", "0/1", "ErrImageNeverPull") in words(view))
        with pytest.raises(NoSuchPod, match=r'pod "x" is not on this node \(namespace "default"\)'):
            await view.log("default", "x", "main", previous=False)
        with pytest.raises(NotShown, match='pod "web" has no container "x"; it has main'):
            await view.log("default", "web", "x", previous=False)
        with pytest.raises(NotShown, match='container "main" of pod "web" has not started: ErrImageNeverPull'):
            await view.log("default", "web", "main", previous=False)


async def test_log_of_a_removed_container_is_found_on_the_disk(autojump_clock: MockClock) -> None:
    directory = "/logs/default_web_uid-web/main"
    bench = Bench()
    for name in ("2.log", "10.log.20261121-070102", "x"):  # of the last one only what was rotated away
        bench.files.content[f"{directory}/{name}"] = b""
    never = pod("web", container(image="missing:1", image_pull_policy="Never"))
    async with seen(bench, never) as (_, view):
        await until(lambda: ("web", "0/1", "ErrImageNeverPull") in words(view))

        assert f"{directory}/10.log" == (await view.log("default", "web", "main", previous=False)).path
        assert f"{directory}/2.log" == (await view.log("default", "web", "main", previous=True)).path


async def test_disk_that_does_not_list_logs_times_out(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: str) -> list[int]:
        await trio.sleep_forever()
        raise AssertionError

    bench = Bench()
    async with seen(bench, pod("web", container(image="missing:1", image_pull_policy="Never"))) as (_, view):
        await until(lambda: ("web", "0/1", "ErrImageNeverPull") in words(view))
        monkeypatch.setattr(bench.files, "log_attempts", hang)
        why = "/logs/default_web_uid-web: the disk did not answer within 10 s"
        with pytest.raises(NotShown, match=why):
            await view.log("default", "web", "main", previous=False)


class NothingEarlier:
    """No pod waits for another's end."""

    def has_another(self, _: Pod) -> bool:
        return False

    def orphan_under_uid(self, _: Pod) -> None:
        return None

    def waits_because(self, _: Pod) -> str:
        return ""


class Workers(list["PodWorker"]):
    """Workers, none of which has the UID of another pod."""

    earlier = NothingEarlier()


class Parts:
    """The parts of a node that the view looks at, each set by hand."""

    def __init__(self, *pods: Pod) -> None:
        self.desired = list(pods)
        self.workers = Workers()
        self.files = MemoryPodFiles()
        self.cache = PodCache()
        self.statuses = PodStatuses()
        self.events = EventRecorder(VirtualClock(), 10)
        self.admission = SimpleNamespace(waits_because=lambda pod: "")

    def view(self) -> View:
        return View(cast("Node", self), VirtualClock(), "n", "/logs", dict)

    def observe(self, uid: str, *sandboxes: int, containers: Sequence[str] = ()) -> None:
        """Let the runtime have sandboxes made at these seconds, and containers."""
        self.cache.put(
            PodObservation(
                uid,
                sandboxes=tuple(
                    SandboxStatus(str(at), uid, "web", "default", 0, SandboxState.READY, at * 10**9) for at in sandboxes
                ),
                containers=tuple(
                    ContainerStatus(name, name, 0, ContainerState.EXITED, 10**9, log_path=f"/l/{uid}/{name}.log")
                    for name in containers
                ),
            )
        )

    def worker(self, pod: Pod, state: State) -> None:
        self.workers.append(cast("PodWorker", SimpleNamespace(pod=pod, state=state)))


async def test_a_pod_is_as_old_as_the_oldest_thing_ever_seen_of_it(autojump_clock: MockClock) -> None:
    parts = Parts(pod("web"))
    view = parts.view()
    ages = []
    for sandboxes in ((), (300,), (300, 200), (400,)):
        parts.observe("uid-web", *sandboxes)
        ages.append(view.pods()[0].metadata.creation_timestamp)

    assert ["", "1970-01-01T00:05:00Z", "1970-01-01T00:03:20Z", "1970-01-01T00:03:20Z"] == ages


async def test_a_pod_that_ended_by_itself_is_not_going(autojump_clock: MockClock) -> None:
    parts = Parts(pod("web"), pod("api"))
    parts.worker(parts.desired[0], Terminating(30, StopReason.COMPLETED))
    parts.worker(parts.desired[1], Terminating(30, StopReason.REMOVED, deleted=True))

    assert [False, True] == [bool(shown.metadata.deletion_timestamp) for shown in parts.view().pods()]


async def test_a_finished_pod_is_shown_as_long_as_its_source_wants_it(autojump_clock: MockClock) -> None:
    parts = Parts(pod("web"))
    for name in ("web", "api"):
        parts.worker(pod(name), Finished(StopReason.COMPLETED))

    assert ["web"] == [shown.metadata.name for shown in parts.view().pods()]


async def test_of_two_lives_of_a_name_the_one_that_ran_has_the_log(autojump_clock: MockClock) -> None:
    parts = Parts(pod("web", container(), uid="new"))
    parts.worker(pod("web", container(), uid="old"), Terminating(30, StopReason.REMOVED, deleted=True))
    parts.observe("old", 100, containers=["main"])

    assert "/l/old/main.log" == (await parts.view().log("default", "web", "main", previous=False)).path


async def test_faults_name_the_pods_that_go_on_running(autojump_clock: MockClock) -> None:
    files = {
        "/m/b.yaml": FileState((), (Fault("/m/b.yaml", 1, "", "is no YAML"),)),
        "/m/a.yaml": FileState(
            (pod("web"), pod("fresh")),
            (Fault("/m/a.yaml", 3, "spec.x", "unknown field", "remove it"),),
            {"fresh_default": 9},
        ),
        "/m/c.yaml": FileState((pod("good"),), ()),
    }
    async with Bench().agent() as node:
        faults = View(node, VirtualClock(), "n", "/logs", lambda: files).faults()

    assert ["/m/a.yaml:3: spec.x: unknown field (remove it)", "/m/b.yaml:1: is no YAML"] == list(map(str, faults))
    assert [("default/web",), ()] == [fault.running for fault in faults]


async def test_manifests_bring_pods_and_objects_without_values(autojump_clock: MockClock) -> None:
    meta = k8s.ObjectMeta(name="top", namespace="default", labels={"a": "b"}, annotations={"last": "hunter2"})
    secret = k8s.Secret(metadata=meta, data={"pw": "aHVudGVyMg=="}, string_data={"user": "hunter2"}, type="Opaque")
    settings = k8s.ConfigMap(metadata=meta, data={"x": "hunter2"}, binary_data={"b": "aHVudGVyMg=="}, immutable=True)
    files = {"/m/b.yaml": FileState(objects=(secret, settings)), "/m/\udcff.yaml": FileState((pod("web", uid="u"),))}
    async with Bench().agent() as node:
        notes = View(node, VirtualClock(), "n", "/logs", lambda: files).manifests()

    assert [
        ManifestNote(
            "/m/b.yaml",
            (),
            (
                ObjectNote("Secret", "default", "top", ("pw", "user"), "Opaque", False, {"a": "b"}),
                ObjectNote("ConfigMap", "default", "top", ("b", "x"), "", True, {"a": "b"}),
            ),
        ),
        ManifestNote(r"/m/\udcff.yaml", ("u",)),
    ] == notes
    assert b"hunter2" not in json({"manifests": notes}).body


async def test_fault_of_an_undecodable_file_name_can_be_sent(autojump_clock: MockClock) -> None:
    fault = Fault("/m/\udcff.yaml", None, "", "as in /m/\udcfe.yaml")
    async with Bench().agent() as node:
        view = View(node, VirtualClock(), "n", "/logs", lambda: {fault.source: FileState(faults=(fault,))})

    assert r"/m/\udcff.yaml: as in /m/\udcfe.yaml" == str(view.faults()[0])
    assert json({"faults": view.faults()}).body
