"""A cluster in memory with this node's pods, what an informer saw of them, and a status writer between the two.

``Seen`` is the informer's picture: it follows the server at once, or stands still while ``lags`` is set, at a version
that is unknown but for ``lags_at``; pods that are ``unread`` it cannot read any more. ``PodStates`` says how far each
pod is on the node. ``Watchful`` is a client that counts what it is asked, and how much of it at one time.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from trikubelet.core.names import namespaced_name
from trikubelet.kit.outage import Outage
from trikubelet.model import k8s
from trikubelet.model.api import PODS, Unread
from trikubelet.model.bounds import Bounds
from trikubelet.status.memory import PodStatuses
from trikubelet.status.writer import StatusWriter
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import ApiProblems, MemoryApi

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.model.api import Item
    from trikubelet.testing.apiserver.store import Write

START = 1_800_000_000


class TrioClock:
    """Wall time that follows Trio's clock."""

    def now_ns(self) -> int:
        return int((START + trio.current_time()) * 1e9)


class Watchful(MemoryApi):
    """A client of the server that is slow by ``latency_seconds`` and counts."""

    def __init__(self, server: ApiServer, problems: ApiProblems | None = None) -> None:
        super().__init__(server, None, problems)
        self.latency_seconds = 0.0
        self.asked: Counter[str] = Counter()
        self.written: list[str] = []
        self.bodies: list[Any] = []
        self.deletions: list[dict[str, Any]] = []
        self.running: Counter[str] = Counter()
        self.running_peak = 0
        self.together_peak = 0

    async def patch(self, resource: Any, name: str, body: object, namespace: str = "", **how: Any) -> Item:
        self.asked["patch"] += 1
        self.bodies.append(body)
        return await self._counted(name, lambda: super(Watchful, self).patch(resource, name, body, namespace, **how))

    async def delete(self, resource: Any, name: str, namespace: str = "", **how: Any) -> None:
        self.asked["delete"] += 1
        self.deletions.append(how)
        await self._counted(name, lambda: super(Watchful, self).delete(resource, name, namespace, **how))

    async def get(self, resource: Any, name: str, namespace: str = "") -> Item:
        self.asked["get"] += 1
        return await super().get(resource, name, namespace)

    async def create(self, resource: Any, body: object, namespace: str = "", **how: Any) -> Item:
        self.asked["create"] += 1
        self.bodies.append(body)
        return await super().create(resource, body, namespace, **how)

    async def _counted(self, name: str, call: Callable[[], Any]) -> Any:
        self.running[name] += 1
        self.running_peak = max(self.running_peak, self.running[name])
        self.together_peak = max(self.together_peak, self.running.total())
        try:
            await trio.sleep(self.latency_seconds)
            answer = await call()
            self.written.append(name)
            return answer
        finally:
            self.running[name] -= 1


class Seen:
    """What the informer saw (``ports.ApiPods``)."""

    def __init__(self, server: ApiServer) -> None:
        self.lags = False
        self.lags_at = ""
        self.unread: set[str] = set()
        self.watchers: list[Callable[[list[tuple[str, str]]], None]] = []
        self._server = server
        self.objects: dict[tuple[str, str], k8s.Pod] = {}
        self.has_synced = True
        server.store.watchers.append(self._follow)

    @property
    def version(self) -> str:
        """Up to which it knows everything."""
        return self.lags_at if self.lags else str(self._server.store.version)

    def faults(self) -> dict[tuple[str, str], Unread]:
        """Those it cannot read."""
        return {key: Unread(pod.metadata.uid, "") for key, pod in self.objects.items() if key[1] in self.unread}

    def catch_up(self) -> None:
        """See everything as it is now, and go on following."""
        self.lags = False
        self.see(self._server.store.version)

    def see(self, version: int) -> None:
        """See everything as it was at that version."""
        objects = self._server.store.at(PODS, version)
        self.objects = {key: msgspec.convert(tree, k8s.Pod) for key, tree in objects.items()}
        self._tell(*self.objects)

    def _follow(self, write: Write) -> None:
        if self.lags or write.resource != PODS or write.key[1] in self.unread:
            return
        if write.after is None:
            self.objects.pop(write.key, None)
        else:
            self.objects[write.key] = msgspec.convert(write.after, k8s.Pod)
        self._tell(write.key)

    def _tell(self, *names: tuple[str, str]) -> None:
        for watcher in self.watchers:
            watcher(list(names))


class PodStates:
    """How far each pod is (``ports.PodDeletionSafetyProvider``): on its way, unless it is among ``stopped`` or
    ``finished``."""

    def __init__(self) -> None:
        self.stopped: set[str] = set()
        self.finished: set[str] = set()

    def could_have_running_containers(self, uid: str) -> bool:
        return uid not in self.stopped | self.finished

    def is_finished(self, uid: str) -> bool:
        return uid in self.finished

    def is_to_begin_again(self, uid: str) -> bool:
        return False


class Cluster:
    """An API server, what is seen of it, and a writer that tells it of pods."""

    def __init__(self, bounds: Bounds | None = None, problems: ApiProblems | None = None, seed: int = 1) -> None:
        self.server = ApiServer(TrioClock().now_ns, seed)
        self.api = Watchful(self.server, problems)
        self.seen = Seen(self.server)
        self.pod_states = PodStates()
        self.statuses = PodStatuses()
        self.outage = Outage("The API server")
        self.writer = StatusWriter(
            self.api,
            self.statuses,
            self.seen,
            self.pod_states,
            TrioClock(),
            self.outage,
            bounds or Bounds(),
            random.Random(seed),
        )
        self.seen.watchers.append(self.writer.enqueue)
        self.statuses.changed.add(lambda _uid, pod, *_: self.writer.enqueue([namespaced_name(pod)]))

    def add(self, name: str, policy: str = "Always", **meta: Any) -> k8s.Pod:
        """A pod bound to this node, as the informer sees it."""
        body = {
            "metadata": {"name": name, **meta},
            "spec": {"nodeName": "n", "restartPolicy": policy, "containers": [{"name": "main", "image": "i"}]},
        }
        self.server.create(PODS, body, "default")
        return self.get(name)

    def get(self, name: str) -> k8s.Pod:
        """The pod as the server has it."""
        return msgspec.json.decode(self.server.get(PODS, name, "default").raw, type=k8s.Pod)

    def publish(self, pod: k8s.Pod, status: k8s.PodStatus) -> None:
        """A worker computed a status."""
        self.statuses.publish(pod.metadata.uid, pod, status)

    def finish(self, pod: k8s.Pod) -> None:
        """Nothing of the pod is left to do on this node."""
        self.pod_states.finished.add(pod.metadata.uid)
        self.writer.enqueue([namespaced_name(pod)])


def shows(pod: k8s.Pod) -> tuple[str, str, bool]:
    """Phase, message and readiness of a pod."""
    status = pod.status or k8s.PodStatus()
    ready = any(c.type == "Ready" and c.status == "True" for c in status.conditions)
    return status.phase, status.message, ready


def computed(phase: str = "Running", message: str = "", *, ready: bool = False) -> k8s.PodStatus:
    """A status as a worker computes it."""
    condition = k8s.PodCondition(type="Ready", status=str(ready), last_transition_time="2027-01-15T08:00:00Z")
    return k8s.PodStatus(phase=phase, message=message, conditions=(condition,))
