"""A node's part in a cluster: the composition root for everything that talks to an API server.

One readable function wires the parts, as ``app/node.py`` does for the pods. It receives ports, real or not. Each
purpose has connections of its own, so nothing delays the lease.

    informer (pods) ─► source "api" ─► the node's mux          informer (own node) ─► publisher
    statuses · informer · workers ─► status writer ─► PATCH    static pods ─► mirrors ─► POST
    publisher ─► PATCH of the node                             events ─► event writer ─► POST
    volumes, variables ─► pod objects ─► watches, tokens       pod objects ─► workers, to sync again
    drivers ─► CSINode ─► PUT                                  lease ─► PUT
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from trikubelet.core.names import API_SOURCE, is_static, namespaced_name
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.outage import Outage
from trikubelet.kube.claims import ApiClaims
from trikubelet.kube.figures import ApiFigures
from trikubelet.kube.informer import Informer
from trikubelet.kube.pod_objects import ApiPodObjects
from trikubelet.model import k8s
from trikubelet.model.api import NODES, PODS, Selection
from trikubelet.model.api_errors import ApiFailure
from trikubelet.model.decoding import decode_object
from trikubelet.model.objects import ObjectRef
from trikubelet.node.csi_node import CsiNode
from trikubelet.node.lease import NodeLease
from trikubelet.node.publisher import NodePublisher
from trikubelet.node.second_look import SecondLook
from trikubelet.sources.api import ApiSource, decode_pod
from trikubelet.status.event_writer import EventWriter
from trikubelet.status.mirror import MirrorPods
from trikubelet.status.writer import StatusWriter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from trikubelet.app.node import Node
    from trikubelet.core.node_status import Identity, NodeReport
    from trikubelet.node.publisher import Pace
    from trikubelet.ports import Api, Clock
    from trikubelet.status.event_writer import EventRate

log = logging.getLogger(__name__)


async def _not_stated() -> str:
    """Raise an error for a server that does not report its version. Raises ApiFailure."""
    await trio.lowlevel.checkpoint()
    raise ApiFailure("the server reports no version")


@dataclass(frozen=True, slots=True)
class ApiClients:
    """Clients of an API server, each with connections of its own. ``objects``: for watches of single objects;
    ``volumes``: for single requests of volumes: tokens, certificates and claims. ``reset``: reconnects those of the
    heartbeats: the lease's and the node's. ``server_version``: returns the server's version, like ``v1.37.2``, and
    raises ApiError. ``figures``: metrics of the requests over all of them."""

    lease: Api
    node: Api
    watches: Api
    statuses: Api
    events: Api
    certificates: Api
    objects: Api
    volumes: Api
    reviews: Api
    reset: Callable[[], None]
    server_version: Callable[[], Awaitable[str]] = _not_stated
    figures: ApiFigures = field(default_factory=ApiFigures)


@dataclass(frozen=True, slots=True)
class Membership:
    """The node's settings as a member of its cluster. ``report``: returns all data of the node's status."""

    identity: Identity
    report: Callable[[], Awaitable[NodeReport]]
    pace: Pace
    lease_seconds: int
    event_rate: EventRate


@dataclass(frozen=True, slots=True)
class Member:
    """The parts of a member. ``up``: the node has come up, which its status reports at once."""

    pods: Informer[k8s.Pod]
    own: Informer[k8s.Node]
    publisher: NodePublisher
    second_look: SecondLook
    lease: NodeLease
    writer: StatusWriter
    mirrors: MirrorPods
    events: EventWriter
    objects: ApiPodObjects
    csi_node: CsiNode
    up: trio.Event


def join_cluster(node: Node, clients: ApiClients, membership: Membership, clock: Clock) -> Member:
    """Build the parts. Nothing runs yet."""
    name = membership.identity.name
    chance, bounds = node.chance, node.bounds
    outage = Outage("API server")
    pods = Informer(clients.watches, PODS, Selection(fields=f"spec.nodeName={name}"), decode_pod, outage, chance)
    own = Informer(clients.watches, NODES, Selection(fields=f"metadata.name={name}"), _decode_node, outage, chance)
    publisher = NodePublisher(
        api=clients.node,
        identity=membership.identity,
        report=membership.report,
        pace=membership.pace,
        clock=clock,
        events=node.events,
        this_node=ObjectRef("Node", name, uid=name),
        node=node.node_object,
        outage=outage,
        reset=clients.reset,
        chance=chance,
    )
    second_look = SecondLook(clients.node, name, node.node_object, publisher.found)
    lease = NodeLease(
        clients.lease, name, publisher.uid, membership.lease_seconds, clock, outage, clients.reset, chance
    )
    writer = StatusWriter(clients.statuses, node.statuses, pods, node.workers, clock, outage, bounds, chance)
    mirrors = MirrorPods(
        clients.statuses,
        lambda: (pod for pod in node.desired if is_static(pod)),
        pods,
        lambda: publisher.node,
        node.workers,
        node.statuses,
        outage,
        bounds,
        chance,
    )
    events = EventWriter(clients.events, name, membership.event_rate, clock, outage, bounds, chance, publisher.uid)
    objects = ApiPodObjects(
        clients.objects, clients.volumes, node.workers.wake, outage, chance, node.events, lambda: publisher.node
    )
    noted = _Noted(pods, node, clients.figures)
    source = ApiSource(pods, node.slots[API_SOURCE], clock)

    def pods_changed(keys: Collection[tuple[str, str]]) -> None:
        if own.has_synced:  # otherwise the node's labels are not known, by which pods are rejected for good
            source.changed(keys)
        if pods.is_set_back:
            mirrors.forget_answers()
            writer.forget_answers()
        mirrors.enqueue(keys)
        writer.enqueue(keys)
        noted.changed(keys)

    def own_changed(keys: Collection[tuple[str, str]]) -> None:
        # A list from before it was registered does not have it, and one of a restored server may have it unchanged, but
        # not the answers since.
        if ("", name) in keys or (own.is_set_back and ("", name) in own.objects):
            publisher.seen(own.objects.get(("", name)), is_set_back=own.is_set_back)
        source.changed(())  # pods that waited for this node's labels
        node.volumes.node_changed()
        csi_node.node_changed()
        mirrors.enqueue_all()

    def pod_changed(pod: k8s.Pod) -> None:
        names = [namespaced_name(pod)]
        mirrors.enqueue(names)
        writer.enqueue(names)

    node.objects.join(objects)
    csi_node = CsiNode(clients.volumes, lambda: publisher.node, node.volumes.drivers, outage, chance)

    def volumes_changed() -> None:
        publisher.wake()
        csi_node.wake()

    node.volumes.use_claims(ApiClaims(clients.volumes), lambda: publisher.node, volumes_changed, node.events)
    node.node_object.look_again = second_look.awaits
    writer.refused_mirror.add(mirrors.remake)
    pods.add_listener(pods_changed)
    own.add_listener(own_changed)
    node.statuses.changed.add(lambda _uid, pod, _status, _version: pod_changed(pod))
    node.workers.finished.add(pod_changed)
    _publish_at_once(node, publisher)
    node.events.recorded.add(events.record)
    return Member(pods, own, publisher, second_look, lease, writer, mirrors, events, objects, csi_node, node.up)


def _publish_at_once(node: Node, publisher: NodePublisher) -> None:
    """Have the node's status published when a part of it changes."""
    node.runtime_state.changed.add(publisher.wake)
    node.shutdown.changed.add(publisher.wake)
    node.devices.changed.add(lambda _uids: publisher.wake())


class _Noted:
    """Records the API server's state of each pod, for the metrics about it. Owns no state."""

    def __init__(self, pods: Informer[k8s.Pod], node: Node, figures: ApiFigures) -> None:
        self._pods = pods
        self._node = node
        self._figures = figures
        self._barriers = FaultBarriers(log, "%s: a bug in recording its state at the API server; its figures lack it")

    def changed(self, keys: Collection[tuple[str, str]]) -> None:
        """Record the changed pods. Never blocks."""
        for key in keys:
            with self._barriers.of(f"Pod {key[0]}/{key[1]}"):
                self._note(key)

    def _note(self, key: tuple[str, str]) -> None:
        pod = self._pods.objects.get(key)
        if pod is None:
            self._figures.over(*key)
        else:
            self._figures.there(*key)
            self._node.startups.observed(pod)


async def run_member(member: Member, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run the parts until cancelled. Started at once: the API server may be unavailable for long; nothing waits for
    it."""
    async with trio.open_nursery() as nursery:
        for run in (
            member.lease.run,
            member.publisher.run,
            member.second_look.run,
            member.own.run,
            member.objects.run,  # before there are pods that request objects
            member.pods.run,
            member.writer.run,
            member.mirrors.run,
            member.events.run,
            member.csi_node.run,
        ):
            await nursery.start(run)
        task_status.started()
        await member.up.wait()
        member.publisher.wake()


def _decode_node(raw: bytes) -> k8s.Node:
    return decode_object(raw, k8s.Node)
