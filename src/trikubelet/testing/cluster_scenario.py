"""The events of a simulated cluster around a member node: the other half of the scenario, drawn from the same seed.

A scheduler binds pods, users change and delete them, controllers write their own fields and sometimes others, an
operator deletes mirror pods and the node itself. The API server's pods *are* the desired ones of the source "api", so
every write is recorded in ``Wanted``. The network between the two, and the server's failures, are here as well.
"""

from __future__ import annotations

import random
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from trikubelet.core.names import API_SOURCE, is_mirror
from trikubelet.model import k8s
from trikubelet.model.api import NODES, PODS, PatchKind
from trikubelet.model.runtime import SandboxState
from trikubelet.sources.api import decode_pod
from trikubelet.testing.api_link import Link, LinkState
from trikubelet.testing.apiserver.server import ApiServer, StreamedLists
from trikubelet.testing.chance import NO_PROBLEM, Odds
from trikubelet.testing.memory_api import ApiProblems
from trikubelet.testing.scenario import PODS_MAX
from trikubelet.testing.settings import ServerSettings
from trikubelet.testing.world import wall_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.testing.apiserver.store import Write
    from trikubelet.testing.scenario import Scenario, Wanted
    from trikubelet.testing.world import World

NAMESPACE = "default"
NODE_NAME = "n"
WRITES = frozenset({"create", "patch", "replace", "delete"})
TURNS_MAX = 5
EPHEMERAL_MAX = 2
FOREIGN_CONDITION = "example.com/checked"


class ClusterScenario:
    """Owns the cluster outside the node: its server, the network to it, and the problems of both. ``by_hand``: the
    current write is not the node's."""

    def __init__(self, seed: int, chance: random.Random, wanted: Wanted, world: World, pods: Scenario) -> None:
        problems = random.Random(f"network {seed}")  # noqa: S311 - a simulation's seed
        self.server = ApiServer(wall_ns, seed)
        self.server.streamed_lists = chance.choice(list(StreamedLists))
        self.server.store.watchers.append(self._note)
        self.settings = ServerSettings(seed, world, self.server)
        self.link = Link()
        self.problems = ApiProblems(NO_PROBLEM, problems)
        self.problems.lag_versions_max = chance.choice((0, 5, 40))
        self.by_hand = False
        self._chance = chance
        self._debuggers = random.Random(f"debuggers {seed}")  # noqa: S311 - a simulation's seed, apart from the story's
        self._wanted = wanted
        self._world = world
        self._pods = pods
        self._made = 0
        self._turns: deque[int] = deque(maxlen=TURNS_MAX)  # the versions in which pods last came or went

    # ---- the objects ----

    def pods(self) -> list[k8s.Pod]:
        """Every pod the server has, mirror pods too."""
        return [decode_pod(msgspec.json.encode(tree)) for tree in self._trees(PODS)]

    def node(self) -> k8s.Node | None:
        """The node's object, if there is one."""
        return next((msgspec.convert(tree, k8s.Node) for tree in self._trees(NODES)), None)

    def _trees(self, resource: Any) -> list[dict[str, Any]]:
        return list(self.server.store.at(resource, self.server.store.version).values())

    def _note(self, write: Write) -> None:
        if write.resource != PODS:
            return
        pod = decode_pod(msgspec.json.encode(write.last))
        if is_mirror(pod):
            return
        if write.before is None or write.after is None:
            self._turns.append(write.version)
        if write.after is None:
            self._wanted.drop(API_SOURCE, pod)
        else:
            self._wanted.put(API_SOURCE, pod)

    # ---- the changes ----

    def happen(self) -> None:
        """Make one change to the server's objects."""
        action = self._chance.choice(
            (
                self.schedule,
                self.schedule,
                self.edit,
                self.delete,
                self.delete,
                self.force,
                self.replace,
                self.replace,
                self.meddle,
                self.take_mirror,
                self.take_node,
                self.tidy,
                self.change_server,
            )
        )
        with self._hand():
            action()
            if self._debuggers.random() < 0.2:
                self.attach()
            self.settings.happen()

    def schedule(self, name: str = "") -> None:
        """The scheduler binds a new pod to the node; where there are enough, one is deleted instead."""
        if not name and len(self._wanted.all()) >= PODS_MAX:
            self.delete()
            return
        self._made += 1
        pod = self.settings.lend(self._pods.draw_pod(name or f"c{self._made}", "", API_SOURCE))
        body = msgspec.structs.replace(
            pod,
            api_version="v1",
            kind="Pod",
            metadata=k8s.ObjectMeta(name=pod.metadata.name, namespace=NAMESPACE),
            spec=msgspec.structs.replace(pod.spec, node_name=NODE_NAME),
        )
        item = self.server.create(PODS, body, NAMESPACE)
        self._say(f"binds {item.name} ({item.uid})")

    def edit(self) -> None:
        """A user changes an image, which is mutable."""
        pod = self._one()
        if pod is None:
            return
        first = pod.spec.containers[0]
        image = "app:1" if first.image == "app:2" else "app:2"
        if pod.spec.restart_policy != "Always":
            self._wanted.ambiguous.add(pod.metadata.uid)
        self._say(f"edits {pod.metadata.name} ({pod.metadata.uid})")
        body = {"spec": {"containers": [{"name": first.name, "image": image}]}}
        self.server.patch(PODS, pod.metadata.name, body, NAMESPACE, kind=PatchKind.STRATEGIC)

    def attach(self) -> None:
        """A user adds an ephemeral container to a pod (kubectl debug), be it just created or terminating."""
        found = [pod for source, pod in self._wanted.all() if source == API_SOURCE]
        pod = self._debuggers.choice(found) if found else None
        if pod is None or len(pod.spec.ephemeral_containers) == EPHEMERAL_MAX:
            return
        name = f"debug{len(pod.spec.ephemeral_containers)}"
        self._say(f"adds {name} to {pod.metadata.name} ({pod.metadata.uid})")
        command = self._debuggers.choice((["run"], ["run"], ["exit", "0", "0.5"], ["exit", "1", "1.5"], ["stubborn"]))
        added = {"name": name, "image": "app:1", "imagePullPolicy": "IfNotPresent", "command": command}
        body = {"spec": {"ephemeralContainers": [added]}}
        self.server.patch(
            PODS, pod.metadata.name, body, NAMESPACE, kind=PatchKind.STRATEGIC, subresource="ephemeralcontainers"
        )

    def delete(self) -> None:
        """A user deletes a pod, with its grace period or a shorter one."""
        pod = self._one()
        if pod is not None:
            self._delete(pod, self._chance.choice((None, 1, 3)))

    def force(self) -> None:
        """A user deletes a pod by force, whatever its containers do."""
        pod = self._one()
        if pod is not None:
            self._delete(pod, 0)

    def replace(self) -> None:
        """A pod is deleted by force, and another of its name is bound at once (as by a StatefulSet); the node may be
        notified late."""
        pod = self._one()
        if pod is not None:
            if self._chance.random() < 0.3:
                self._half_open()
            self._delete(pod, 0)
            self.schedule(pod.metadata.name)

    def meddle(self) -> None:
        """A controller sets a condition of its own, or the node controller writes one of the node's."""
        found = self.pods()
        if not found:
            return
        pod = self._chance.choice(found)
        type_ = self._chance.choice((FOREIGN_CONDITION, FOREIGN_CONDITION, "Ready"))
        condition = {"type": type_, "status": "False", "message": f"{self._chance.random():.3f}"}
        self._say(f"sets {type_} of {pod.metadata.name} ({pod.metadata.uid})")
        body = {"status": {"conditions": [condition]}}
        self.server.patch(PODS, pod.metadata.name, body, NAMESPACE, kind=PatchKind.STRATEGIC, subresource="status")

    def take_mirror(self) -> None:
        """An operator deletes a mirror pod."""
        mirrors = [pod for pod in self.pods() if is_mirror(pod)]
        if mirrors:
            self._delete(self._chance.choice(mirrors), self._chance.choice((None, 0)))

    def take_node(self) -> None:
        """The node is deleted, and the garbage collector deletes its mirror pods; or the node controller marks the node
        as lost."""
        node = self.node()
        if node is None:
            return
        if self._chance.random() < 0.5:
            self._say("says that the node is lost")
            body = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}
            self.server.patch(NODES, NODE_NAME, body, kind=PatchKind.STRATEGIC, subresource="status")
            return
        self._say("deletes the node")
        self.server.delete(NODES, NODE_NAME)
        for pod in self.pods():
            if is_mirror(pod):
                self._delete(pod, 0)

    def tidy(self) -> None:
        """Remove a sandbox that has ended, as an operator does, with the data that the node could have read from it."""
        ended = [one for one in self._world.sandboxes.values() if one.state is not SandboxState.READY]
        if ended:
            victim = self._chance.choice(ended)
            self._wanted.ambiguous.add(victim.uid)
            self._world.remove_sandbox(victim.id)

    def change_server(self) -> None:
        """The node is moved to another API server, which is cut off from all writes since some pod came or went."""
        heard = self._chance.choice(self._turns or [self.server.store.version]) - 1
        self._say(f"moves the node to a server that has heard of nothing after {heard}")
        self.link.fall_behind(heard)

    # ---- the network ----

    def new_weather(self) -> None:
        """New problems of requests and watches for a while."""
        slow = self._chance.choice((0.001, 0.01, 0.1, 0.4))
        self.problems.odds = self._chance.choice(
            (
                Odds(slow),
                Odds(slow, error=0.1, lost_answer=0.1),
                Odds(slow, error=0.05, lost_answer=0.05, hang=0.05),
                Odds(slow, error=1.0),
                Odds(slow, lost_stream=0.2, repeated_event=0.3),
                Odds(2.0, only=WRITES),
                Odds(slow, lost_answer=0.5, only=WRITES),
                Odds(slow, hang=0.3, only=frozenset({"list", "watch"})),
            )
        )
        self._world.note(f"** API weather: {self.problems.odds}")

    def new_network(self) -> None:
        """The network fails, falls silent or comes back; the server ends watches, forgets its history, or restarts."""
        action = self._chance.choice(
            (self.link.down, self.link.up, self.link.up, self.link.silence, self._half_open, self._half_open,
             self.link.cut, self.link.finish, self.server.store.forget, self._restart,
             self.change_server, self.link.catch_up)
        )  # fmt: skip
        self._world.note(f"** network: {action.__name__}")
        action()

    def _half_open(self) -> None:
        """Only watches fall silent: the node's caches get stale while it writes."""
        self.link.silence()
        self.link.up()

    def _restart(self) -> None:
        """The server is restarted, and has lost the history of its writes."""
        self.link.down()
        self.server.store.forget()
        self.link.up()

    def calm(self) -> None:
        """No more problems; a watch that fell silent stays silent."""
        self.problems.odds = Odds(0.001)
        self.problems.lag_versions_max = 0
        self.link.catch_up()
        self.link.up()
        with self._hand():
            self.settings.calm()

    @property
    def is_reachable(self) -> bool:
        """True if requests get through."""
        return self.link.state is LinkState.UP

    # ---- small ----

    def _one(self) -> k8s.Pod | None:
        found = [pod for source, pod in self._wanted.all() if source == API_SOURCE]
        return self._chance.choice(found) if found else None

    def _delete(self, pod: k8s.Pod, grace: int | None) -> None:
        self._say(f"deletes {pod.metadata.name} ({pod.metadata.uid}), grace {grace}")
        self.server.delete(PODS, pod.metadata.name, NAMESPACE, grace, pod.metadata.uid)

    @contextmanager
    def _hand(self) -> Iterator[None]:
        self.by_hand = True
        try:
            yield
        finally:
            self.by_hand = False

    def _say(self, what: str) -> None:
        self._world.note(f"** the cluster {what}")
