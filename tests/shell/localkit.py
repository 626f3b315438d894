"""A node to look at, made by hand, and its local API on a real socket."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from trikubelet.app.client import Agent
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339, rfc3339
from trikubelet.model import k8s
from trikubelet.server.local_api import serve_local_api
from trikubelet.server.node_view import LogPlace, ManifestFault, NodeNote, NoSuchPod, NotShown, PodWork

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NOW = "2026-11-21T12:00:00Z"
NOW_NS = parse_rfc3339(NOW)


@dataclass
class FakeView:
    """A view that says what it was given."""

    shown: list[k8s.Pod] = field(default_factory=list)
    told: list[k8s.Event] = field(default_factory=list)
    wrong: list[ManifestFault] = field(default_factory=list)
    worked: list[PodWork] = field(default_factory=list)
    logs: dict[tuple[str, str, str, bool], str] = field(default_factory=dict)
    over: bool = True
    troubles: tuple[str, ...] = ()

    def pods(self) -> list[k8s.Pod]:
        return self.shown

    def events(self) -> list[k8s.Event]:
        return self.told

    def faults(self) -> list[ManifestFault]:
        return self.wrong

    def work(self) -> list[PodWork]:
        return self.worked

    def node(self) -> NodeNote:
        return NodeNote("n1", self.troubles)

    def log(self, namespace: str, name: str, container: str, *, previous: bool) -> LogPlace:
        if all(name != pod.metadata.name for pod in self.shown):
            raise NoSuchPod(f"no {name}")
        if (namespace, name, container, previous) not in self.logs:
            raise NotShown(f"{container} has no log")
        return LogPlace(self.logs[namespace, name, container, previous], lambda: self.over)


class StoppedClock:
    def now_ns(self) -> int:
        return NOW_NS


@asynccontextmanager
async def served(view: FakeView, directory: Path) -> AsyncIterator[Agent]:
    """The view's local API for the length of the block, and a client to it."""
    path = str(directory / "trikubelet.sock")
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_local_api, view, StoppedClock(), path)
        yield Agent(path)
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


def event(about: k8s.Pod, reason: str, message: str, *, count: int = 1, first: int = 60, last: int = 60) -> k8s.Event:
    """An event about a pod; ``first`` and ``last`` are seconds ago."""
    return k8s.Event(
        metadata=k8s.ObjectMeta(name="e", namespace=about.metadata.namespace),
        involved_object=k8s.ObjectReference(
            kind="Pod", name=about.metadata.name, namespace=about.metadata.namespace, uid=about.metadata.uid
        ),
        type="Normal", reason=reason, message=message, count=count, source=k8s.EventSource(component="trikubelet"),
        first_timestamp=rfc3339(NOW_NS - first * SECOND_NS), last_timestamp=rfc3339(NOW_NS - last * SECOND_NS),
    )  # fmt: skip
