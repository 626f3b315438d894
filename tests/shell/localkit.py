"""A node to look at, made by hand, and its local API on a real socket."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

from shell.threadkit import AtOnce
from trikubelet.cli.client import AgentClient
from trikubelet.core.relist import Counts
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339, rfc3339
from trikubelet.images.figures import PullFigures
from trikubelet.kit.call_figures import CallFigures
from trikubelet.kit.distribution import Distribution
from trikubelet.model import k8s
from trikubelet.model.device_figures import DeviceFigures
from trikubelet.model.node_startup import NodeStartup
from trikubelet.model.shutdown_times import ShutdownTimes
from trikubelet.model.summary import NodeStats, Summary
from trikubelet.model.volume_figures import VolumeFigures
from trikubelet.pleg.figures import Figures, Measured
from trikubelet.pods.figures import PodFigures
from trikubelet.pods.startups import Startups
from trikubelet.probes.figures import ProbeFigures
from trikubelet.server.agent_view import ConfigNote, ImageNote
from trikubelet.server.local_api import serve_local_api
from trikubelet.server.node_figures import NodeFigures, Setup, Tally
from trikubelet.server.node_view import (
    LogPlace,
    ManifestFault,
    ManifestNote,
    NodeNote,
    NoSuchPod,
    NotShown,
    PodWork,
    RunningContainer,
)
from trikubelet.server.streams import Streams
from trikubelet.status.figures import EventFigures, PublishFigures, WriterFigures
from trikubelet.testing.memory_runtime import MemoryRuntime
from trikubelet.testing.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from trikubelet.core.doctor import Finding
    from trikubelet.model.runtime_errors import RuntimeCallError
    from trikubelet.model.stats_snapshot import VolumeUsed

NOW = "2026-11-21T12:00:00Z"
NOW_NS = parse_rfc3339(NOW)


def node_figures(**more: Any) -> NodeFigures:
    """Return the figures of a node that has done nothing yet, except the given ones."""
    some: dict[str, Any] = {
        "setup": Setup(),
        "tally": Tally(),
        "pods": PodFigures(),
        "startups": Startups(StoppedClock()),
        "ended": {},
        "pulls": PullFigures(),
        "volumes": VolumeFigures(),
        "devices": DeviceFigures(),
        "swept": (0, 0),
    }
    return NodeFigures(**{**some, **more})


@dataclass
class FakeView:
    """A view that says what it was given."""

    shown: list[k8s.Pod] = field(default_factory=list)
    told: list[k8s.Event] = field(default_factory=list)
    wrong: list[ManifestFault] = field(default_factory=list)
    brought: list[ManifestNote] = field(default_factory=list)
    worked: list[PodWork] = field(default_factory=list)
    logs: dict[tuple[str, str, str, bool], str] = field(default_factory=dict)
    runs: RunningContainer = field(default_factory=lambda: RunningContainer("app", tty=False))
    over: bool = True
    problems: tuple[str, ...] = ()
    measured: Measured = field(default_factory=Measured)
    called: list[CallFigures] = field(default_factory=list)
    counted: NodeFigures = field(default_factory=node_figures)

    def pods(self) -> list[k8s.Pod]:
        return self.shown

    def running(self) -> list[k8s.Pod]:
        return self.shown[:1]

    def events(self) -> list[k8s.Event]:
        return self.told

    def faults(self) -> list[ManifestFault]:
        return self.wrong

    def manifests(self) -> list[ManifestNote]:
        return self.brought

    def work(self) -> list[PodWork]:
        return self.worked

    def node(self) -> NodeNote:
        return NodeNote("n1", self.problems)

    def pleg(self) -> Figures:
        return Figures(
            measured=self.measured,
            listed_ago_seconds=2.5,
            counts=Counts(7, 1, 12, 3, 4),
            requests_waiting=0,
            requests_answered=5,
            requests_dropped=6,
            inspections=Distribution(),
            inspections_running=2,
            inspections_waiting=0,
            oldest_inspection_seconds=45.0,
            hung_pods=1,
            event_streams=2,
            event_stream_failures=3,
            events_received=8,
            has_reliable_events=True,
        )

    def rejected(self) -> dict[str, int]:
        return {"OutOfcpu": 2}

    def preempted(self) -> dict[str, int]:
        return {"memory": 3}

    def shutdown_times(self) -> ShutdownTimes:
        return ShutdownTimes("2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z")

    def evicted(self) -> tuple[dict[str, int], dict[str, Distribution]]:
        ages = Distribution()
        ages.add(0.5)
        return {"memory.available": 2}, {"memory.available": ages}

    def images_removed(self) -> dict[str, int]:
        return {"space": 5}

    def probes(self) -> list[ProbeFigures]:
        durations = Distribution((0.1, 1.0))
        durations.add(0.5)
        return [ProbeFigures("default", "web", "u1", "main", "Readiness", {"successful": 4, "failed": 1}, durations)]

    def publishing(self) -> PublishFigures:
        durations = Distribution((0.1, 1.0))
        durations.add(0.5)
        second = 10**9
        started = NodeStartup(1 * second, 2 * second, 3 * second, 4 * second)
        return PublishFigures(WriterFigures(1, 0, 20, 3, 4, 8, durations), EventFigures(30, 2, 5, 6, 7, 9), started)

    def calls(self) -> list[CallFigures]:
        return self.called

    def figures(self) -> NodeFigures:
        return self.counted

    def running_container(self, namespace: str, name: str, container: str, uid: str = "") -> RunningContainer:
        self._named(namespace, name)
        if (container, uid) not in ((self.runs.id, ""), (self.runs.id, "uid-1")):
            raise NotShown(f'container not found ("{container}")')
        return self.runs

    def running_sandbox(self, namespace: str, name: str, uid: str = "") -> str:
        self._named(namespace, name)
        return "sandbox"

    def _named(self, namespace: str, name: str) -> None:
        if (namespace, name) not in [(one.metadata.namespace, one.metadata.name) for one in self.shown]:
            raise NoSuchPod(f'pod "{name}" is not on this node')

    async def log(self, namespace: str, name: str, container: str, *, previous: bool) -> LogPlace:
        if all(name != pod.metadata.name for pod in self.shown):
            raise NoSuchPod(f"no {name}")
        if (namespace, name, container, previous) not in self.logs:
            raise NotShown(f"{container} has no log")
        return LogPlace(self.logs[namespace, name, container, previous], lambda: self.over, AtOnce())


@dataclass
class FakeAgent:
    """An agent that says what it was given."""

    described: k8s.Node = field(default_factory=lambda: k8s.Node(metadata=k8s.ObjectMeta(name="n1")))
    had: list[ImageNote] = field(default_factory=list)
    configured: ConfigNote = field(default_factory=lambda: ConfigNote({}, {}, {}, "n1"))
    problem: RuntimeCallError | None = None
    found: list[Finding] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)
    for_kubectl: bytes = b""

    async def node(self) -> k8s.Node:
        return self.described

    async def images(self) -> list[ImageNote]:
        if self.problem is not None:
            raise self.problem
        return self.had

    def configuration(self) -> ConfigNote:
        return self.configured

    def kubeconfig(self) -> bytes:
        if not self.for_kubectl:
            raise NotShown("kubectl cannot read from this agent")
        return self.for_kubectl

    def restart(self, namespace: str, name: str, container: str) -> dict[str, str]:
        if container == "none":
            raise NotShown("no such container")
        self.restarted.append(f"{namespace}/{name}/{container}")
        return {one: one for one in ([container] if container else ["app", "side"])}

    async def examined(self) -> list[Finding]:
        return self.found


@dataclass
class FakeUse:
    """What is used, look by look; the last one stays."""

    looks: list[Summary] = field(default_factory=lambda: [Summary(NodeStats("n1", NOW), ())])

    async def shown(self, _depth: object, _spell: object) -> Summary:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    async def claimed(self) -> list[tuple[str, VolumeUsed]]:
        return []


def no_streams() -> Streams:
    """Raise the error of a node without running containers."""
    return Streams(FakeView(), MemoryRuntime(World()), 0)


class StoppedClock:
    def now_ns(self) -> int:
        return NOW_NS


@asynccontextmanager
async def served(
    view: FakeView,
    directory: Path,
    about: FakeAgent | None = None,
    streams: Streams | None = None,
    stats: FakeUse | None = None,
) -> AsyncIterator[AgentClient]:
    """The view's local API for the length of the block, and a client to it."""
    path = str(directory / "trikubelet.sock")
    async with trio.open_nursery() as nursery:
        await nursery.start(
            serve_local_api,
            view,
            about or FakeAgent(),
            streams or no_streams(),
            stats or FakeUse(),
            StoppedClock(),
            path,
        )
        yield AgentClient(path)
        nursery.cancel_scope.cancel()


def pod(name: str = "web-n1", namespace: str = "default", uid: str = "", **spec) -> k8s.Pod:
    """A pod of one container that runs, five minutes old."""
    state = k8s.ContainerState(running=k8s.ContainerStateRunning(started_at="2026-11-21T11:55:02Z"))
    spec.setdefault("containers", (k8s.Container(name="app", image="app:1"),))
    return k8s.Pod(
        api_version="v1",
        kind="Pod",
        metadata=k8s.ObjectMeta(
            name=name, namespace=namespace, uid=uid or f"uid-{name}", creation_timestamp="2026-11-21T11:55:00Z"
        ),
        spec=k8s.PodSpec(node_name="n1", **spec),
        status=k8s.PodStatus(
            phase="Running",
            pod_ip="10.0.0.7",
            pod_ips=(k8s.PodIP(ip="10.0.0.7"),),
            host_ip="192.0.2.1",
            start_time="2026-11-21T11:55:01Z",
            qos_class="BestEffort",
            conditions=(k8s.PodCondition(type="Ready", status="True"),),
            container_statuses=tuple(
                k8s.ContainerStatus(
                    name=container.name, image="app:1", image_id="sha256:1", container_id=f"c://{container.name}",
                    ready=True, restart_count=0, started=True, state=state,
                )
                for container in spec["containers"]
            ),
        ),
    )  # fmt: skip


def event(
    about: k8s.Pod, reason: str, message: str, *, part: str = "", count: int = 1, first: int = 60, last: int = 60
) -> k8s.Event:
    """An event about a pod, or this part of it; ``first`` and ``last`` are seconds ago."""
    return k8s.Event(
        metadata=k8s.ObjectMeta(name="e", namespace=about.metadata.namespace),
        involved_object=k8s.ObjectReference(
            kind="Pod", name=about.metadata.name, namespace=about.metadata.namespace, uid=about.metadata.uid,
            field_path=part,
        ),
        type="Normal", reason=reason, message=message, count=count, source=k8s.EventSource(component="trikubelet"),
        first_timestamp=rfc3339(NOW_NS - first * SECOND_NS), last_timestamp=rfc3339(NOW_NS - last * SECOND_NS),
    )  # fmt: skip
