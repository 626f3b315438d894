"""The witness at the API server: checks an agent's writes for violations.

    every write of a pod     by a running agent · of the containers of that very pod · no part of a status older than
                             one already written (``status_order``) · a terminal phase is never reverted, nor reported
                             while a container runs · others' fields stay · an object is removed only when it is being
                             deleted and no container of it runs
    every pod notified       an agent's cache of a pod only gets newer: no version goes back, no deleted pod comes
                             back
    every write of the node  Ready is not reverted while the runtime is healthy, as by a restart of the agent
    every request            during an outage there are few
    between actions          no queue grows without bound

Violations are reported like those of ``testing/witness.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import trio

from trikubelet.core.names import is_mirror, status_uid
from trikubelet.core.pod_status import normalize
from trikubelet.model import k8s
from trikubelet.model.api import NODES, PODS
from trikubelet.sources.api import decode_pod
from trikubelet.testing.cluster_scenario import FOREIGN_CONDITION
from trikubelet.testing.status_order import StatusOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from trikubelet.app.cluster import Member
    from trikubelet.app.node import Node
    from trikubelet.testing.apiserver.store import Write
    from trikubelet.testing.cluster_scenario import ClusterScenario
    from trikubelet.testing.witness import Witness
    from trikubelet.testing.world import World

TERMINAL = frozenset({"Succeeded", "Failed"})
OUTAGE_WINDOW_SECONDS = 10.0
OUTAGE_REQUESTS_MAX = 80
"""Requests in a window while no connection succeeds: every part's first attempts, and no more."""

WATCHES_MAX = 5
"""Watches of pods, the node and services, and of the two objects that pods of the cluster need (``settings``)."""


class ClusterWitness:
    """Owns the writes to the server so far. ``is_well``: the runtime has had no problems for a while."""

    def __init__(self, witness: Witness, world: World, scenario: ClusterScenario, is_well: Callable[[], bool]) -> None:
        self._witness = witness
        self._world = world
        self._scenario = scenario
        self._is_well = is_well
        self._agent_lives = False
        self._node: Node | None = None
        self._member: Member | None = None
        self._order = StatusOrder(world)
        self._over: dict[str, str] = {}
        self._ended: set[str] = set()
        self._heard: dict[tuple[str, str], tuple[str, int]] = {}
        self._gone: set[str] = set()
        self._window = (0.0, 0)
        scenario.server.store.watchers.append(self._on_write)

    def follow(self, node: Node, member: Member) -> None:
        """An agent starts."""
        self._node, self._member = node, member
        self._agent_lives = True
        self._order.begin()
        self._heard.clear()
        self._gone.clear()
        self._window = (trio.current_time(), 0)
        node.statuses.changed.add(lambda uid, _, status, version: self._order.computed(uid, status, version))
        member.pods.add_listener(lambda keys: self._on_heard(keys, member.pods.objects))

    def end(self) -> None:
        """The agent was stopped or killed: from now on it must not write."""
        self._agent_lives = False

    def _on_heard(self, keys: Iterable[tuple[str, str]], known: Mapping[tuple[str, str], k8s.Pod]) -> None:
        """The agent's cache of these pods has changed."""
        for key in keys:
            before, held = self._heard.pop(key, ("", 0))
            meta = known[key].metadata if key in known else k8s.ObjectMeta()
            uid, version = meta.uid, int(meta.resource_version or 0)
            if before and uid != before:
                self._gone.add(before)
            if uid in self._gone:
                self._witness.blame(f"what is known of pod {uid} goes back: it had gone, and is there again")
            if uid == before and version < held:
                self._witness.blame(f"what is known of pod {uid} goes back from version {held} to {version}")
            if uid:
                self._heard[key] = (uid, version)

    # ---- writes ----

    def _on_write(self, write: Write) -> None:
        by_hand = self._scenario.by_hand
        if not by_hand and not self._agent_lives:
            self._witness.blame(f"an agent that has ended writes {write.resource.plural} {write.key[1]}")
        if write.resource == NODES and not by_hand:
            self._on_node(write)
        if write.resource != PODS:
            return
        pod = decode_pod(msgspec.json.encode(write.last))
        if write.after is None:
            if not by_hand and not is_mirror(pod):
                self._on_removal(pod)
            return
        if not is_mirror(pod):
            self._witness.unique.add(pod.metadata.uid)
        self._on_phase(pod)
        if not by_hand and write.before is not None:
            self._on_pod_status(decode_pod(msgspec.json.encode(write.before)), pod)

    def _on_removal(self, pod: k8s.Pod) -> None:
        uid, name = pod.metadata.uid, pod.metadata.name
        if not pod.metadata.deletion_timestamp:
            self._witness.blame(f"pod {name} ({uid}) is removed without a request")
        if self._world.running_of(uid):
            self._witness.blame(f"pod {name} ({uid}) is removed, and a container of it runs")

    def _on_phase(self, pod: k8s.Pod) -> None:
        uid, status = pod.metadata.uid, pod.status or k8s.PodStatus()
        before = self._over.get(uid, status.phase)
        if before != status.phase:
            self._witness.blame(f"the published status of pod {uid} went from {before} to {status.phase}")
        if status.phase not in TERMINAL or uid in self._over:
            return
        self._over[uid] = status.phase
        if is_mirror(pod):
            return
        self._witness.over.add(uid)
        if self._world.running_of(uid):
            self._witness.blame(f"the published status of pod {uid} is {status.phase}, and a container of it runs")

    def _on_pod_status(self, before: k8s.Pod, pod: k8s.Pod) -> None:
        uid, status = status_uid(pod), normalize(pod, pod.status or k8s.PodStatus())  # in the form it was computed in
        shown = (
            *status.init_container_statuses,
            *status.container_statuses,
            *status.ephemeral_container_statuses,
        )
        self._on_ids(uid, shown)
        for problem in self._order.written(uid, pod.metadata.uid, status, lives_once=uid in self._witness.unique):
            self._witness.blame(f"status of {uid}: {problem}")
        if _foreign(before) != _foreign(pod):
            self._witness.blame(f"status of {uid}: the agent changed what others had written")

    def _on_ids(self, uid: str, shown: tuple[k8s.ContainerStatus, ...]) -> None:
        """Containers are the pod's own, and no terminated one runs again."""
        for container in shown:
            id_ = container.container_id.partition("://")[2]
            if id_ and self._world.uids.get(id_) != uid:
                self._witness.blame(f"status of {uid}: container {id_} is of pod {self._world.uids.get(id_)}")
            state = container.state or k8s.ContainerState()
            if state.running is not None and id_ in self._ended:
                self._witness.blame(f"status of {uid}: container {id_} has ended and is published as running again")
            if state.terminated is not None:
                self._ended.add(id_)

    def _on_node(self, write: Write) -> None:
        before, after = (_ready(tree) for tree in (write.before, write.after))
        if before == "True" and after != "True" and self._is_well():
            self._witness.blame(f"the node goes from Ready to {after}, and its runtime is well")

    # ---- requests and bounds ----

    def on_request(self, verb: str, path: str) -> None:
        """A request is made."""
        self._world.note(f"{verb} {path}")
        began, count = self._window
        if self._scenario.is_reachable or trio.current_time() - began > OUTAGE_WINDOW_SECONDS:
            began, count = trio.current_time(), 0
        self._window = (began, count + 1)
        if not self._scenario.is_reachable and count >= OUTAGE_REQUESTS_MAX:
            self._witness.blame(f"more than {OUTAGE_REQUESTS_MAX} requests in {OUTAGE_WINDOW_SECONDS:.0f} s of outage")

    def check_bounds(self) -> None:
        """No queue of writes may grow without bound."""
        node, member = self._node, self._member
        if node is None or member is None or not self._agent_lives:
            return
        writer, events = member.writer.figures(), member.events.figures()
        known = len(member.pods.objects)
        found = {
            "statuses under way": (writer.busy, node.bounds.status_writes_max),
            "events waiting": (events.waiting, node.bounds.events_waiting_max + node.bounds.event_writes_max),
            "watches": (len(self._scenario.link.watches), WATCHES_MAX),
            "pods known": (known, len(self._over) + len(self._world.uids) + 10),
        }
        for name, (size, bound) in found.items():
            if size > bound:
                self._witness.blame(f"{name}: {size} is more than {bound}")


def _foreign(pod: k8s.Pod) -> list[k8s.PodCondition]:
    return [one for one in (pod.status or k8s.PodStatus()).conditions if one.type == FOREIGN_CONDITION]


def _ready(tree: object) -> str:
    if tree is None:
        return ""
    status = msgspec.convert(tree, k8s.Node).status or k8s.NodeStatus()
    return next((one.status for one in status.conditions if one.type == "Ready"), "")
