"""Builds the parts of a node that most others use: ``app/node.py`` builds everything else on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.node_addresses import internal_ips
from trikubelet.images.credentials import PodCredentials
from trikubelet.images.puller import Puller
from trikubelet.images.rights import PullRights
from trikubelet.kit.gather import Gather
from trikubelet.model.frozen import Frozen
from trikubelet.model.objects import ObjectRef
from trikubelet.node.runtime_state import RuntimeState
from trikubelet.pleg.cache import PodCache
from trikubelet.pleg.pleg import Pleg
from trikubelet.pods.allocations import Allocations
from trikubelet.pods.figures import PodFigures
from trikubelet.pods.node_object import NodeObject
from trikubelet.pods.resize_notes import ResizeNotes
from trikubelet.pods.restart_requests import RestartRequests
from trikubelet.pods.tear_down import TearDown
from trikubelet.pods.user_ids import UserIds
from trikubelet.probes.node import NodeProbes
from trikubelet.sources.objects import ManifestObjects, NodeObjects
from trikubelet.status.memory import PodStatuses
from trikubelet.status.recorder import EventRecorder

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from trikubelet.app.node import Ports, Rules
    from trikubelet.core.containers import NodeFacts
    from trikubelet.kit.spans import Spans
    from trikubelet.model import k8s
    from trikubelet.model.bounds import Bounds
    from trikubelet.ports import HostIps


class SharedParts(Frozen):
    """The inputs of a node, and the parts that several packages need.

    ``host_ips``: the node's current addresses; ``wakes``: uids of pods that PLEG saw change; ``leftovers``: of those
    whose containers garbage collection should check; ``spans``: receives traces, or None.
    """

    ports: Ports
    facts: NodeFacts
    rules: Rules
    chance: random.Random
    spans: Spans | None
    this_node: ObjectRef
    host_ips: HostIps
    wakes: Gather[str]
    leftovers: Gather[str]
    events: EventRecorder
    figures: PodFigures
    statuses: PodStatuses
    cache: PodCache
    pleg: Pleg
    runtime_state: RuntimeState
    node_object: NodeObject
    objects: NodeObjects
    user_ids: UserIds
    allocations: Allocations
    resize_notes: ResizeNotes
    restart_requests: RestartRequests
    probes: NodeProbes
    puller: Puller
    tear_down: TearDown

    @property
    def bounds(self) -> Bounds:
        """Return those of the rules."""
        return self.rules.bounds


def share_parts(
    ports: Ports,
    facts: NodeFacts,
    rules: Rules,
    sources: Sequence[str],
    chance: random.Random,
    spans: Spans | None,
    described: k8s.Node | None,
    host_ips: HostIps | None,
) -> SharedParts:
    """Build them, for the arguments of ``build_node``. Nothing runs yet."""
    bounds = rules.bounds
    figures = PodFigures()
    wakes: Gather[str] = Gather()
    leftovers: Gather[str] = Gather()
    events = EventRecorder(ports.clock, bounds.events_kept_max)
    cache = PodCache()
    this_node = ObjectRef("Node", facts.node_name, uid=facts.node_name)
    node_object = NodeObject(described)
    kept_ips = _kept_ips(host_ips or (lambda: facts.host_ips), node_object)
    runtime_state = RuntimeState(ports.runtime, events, this_node, bounds)
    objects = NodeObjects(ManifestObjects(sources))
    ports.volumes.use_objects(objects)
    allocations = Allocations(ports.files)
    return SharedParts(
        ports=ports,
        facts=facts,
        rules=rules,
        chance=chance,
        spans=spans,
        this_node=this_node,
        host_ips=kept_ips,
        wakes=wakes,
        leftovers=leftovers,
        events=events,
        figures=figures,
        statuses=PodStatuses(),
        cache=cache,
        pleg=Pleg(ports.runtime, cache, wakes, leftovers, bounds, spans, events),
        runtime_state=runtime_state,
        node_object=node_object,
        objects=objects,
        user_ids=UserIds(ports.files, facts.user_ids, runtime_state, ports.ids_of_users),
        allocations=allocations,
        resize_notes=ResizeNotes(allocations, figures),
        restart_requests=RestartRequests(),
        probes=NodeProbes(
            runtime=ports.runtime,
            handlers=ports.handlers,
            events=events,
            clock=ports.clock,
            host_ips=kept_ips,
            bounds=bounds,
            chance=chance,
            notes=ports.files,
        ),
        puller=Puller(
            ports.images,
            PodCredentials(objects, ports.logins, rules.pulls.plugins, events),
            PullRights(ports.records, rules.pulls.verification, ports.clock),
            events,
            bounds,
            rules.pulls,
            ports.imports,
        ),
        tear_down=TearDown(ports.devices, ports.volumes, ports.cgroups, bounds, figures),
    )


def _kept_ips(host_ips: HostIps, node: NodeObject) -> HostIps:
    """Return the current addresses, or else those the node was published with: after a restart of the agent without a
    route, pods keep their addresses."""
    return lambda: host_ips() or internal_ips(node.newest)
