"""What kubectl can list on a node without a cluster, with the columns ``trikubelet get`` has.

Pods and events are the node's view's, the node is the agent's; namespaces are made of what is in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.kubectl import event_row, node_row, pod_row
from trikubelet.core.kubectl.words import since
from trikubelet.model import k8s
from trikubelet.server.kubectl.api import POD_PARTS
from trikubelet.server.kubectl.reading import WATCH_SECONDS
from trikubelet.server.kubectl.resources import NAME_FIELDS, Namespace, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trikubelet.server.agent_view import AgentView
    from trikubelet.server.kubectl.resources import Thing
    from trikubelet.server.node_view import NodeView

NODE_SECONDS: Final = 5.0
"""How old a watch's state of the node may be: reading it costs a call to the runtime now and then."""
ALWAYS_THERE: Final = "default"

_POD_FIELDS: Final[Mapping[str, Callable[[k8s.Pod], str]]] = {
    **NAME_FIELDS,
    "spec.nodeName": lambda pod: pod.spec.node_name,
    "spec.restartPolicy": lambda pod: pod.spec.restart_policy,
    "spec.schedulerName": lambda pod: pod.spec.scheduler_name,
    "spec.serviceAccountName": lambda pod: pod.spec.service_account_name,
    "spec.hostNetwork": lambda pod: _word(pod.spec.host_network),
    "status.phase": lambda pod: pod.status.phase if pod.status else "",
    "status.podIP": lambda pod: pod.status.pod_ip if pod.status else "",
    "status.nominatedNodeName": lambda pod: pod.status.nominated_node_name if pod.status else "",
}
_EVENT_FIELDS: Final[Mapping[str, Callable[[k8s.Event], str]]] = {
    **NAME_FIELDS,
    "involvedObject.kind": lambda event: event.involved_object.kind,
    "involvedObject.namespace": lambda event: event.involved_object.namespace,
    "involvedObject.name": lambda event: event.involved_object.name,
    "involvedObject.uid": lambda event: event.involved_object.uid,
    "involvedObject.apiVersion": lambda event: event.involved_object.api_version,
    "involvedObject.resourceVersion": lambda event: event.involved_object.resource_version,
    "involvedObject.fieldPath": lambda event: event.involved_object.field_path,
    "reason": lambda event: event.reason,
    "type": lambda event: event.type,
    "source": lambda event: event.source.component if event.source else "",
    "reportingComponent": lambda event: event.source.component if event.source else "",
}
_NODE_FIELDS: Final[Mapping[str, Callable[[k8s.Node], str]]] = {
    **NAME_FIELDS,
    "spec.unschedulable": lambda node: _word(node.spec.unschedulable if node.spec else None),
}
"""Upstream's names (pkg/apis/core/v1, AddFieldLabelConversionsFor…), as are those above."""


def resources(view: NodeView, agent: AgentView) -> Sequence[Resource]:
    """All resources."""

    async def pods() -> Sequence[Thing]:
        return pod_row.in_order(view.pods())

    async def events() -> Sequence[Thing]:
        return view.events()

    async def nodes() -> Sequence[Thing]:
        return [await agent.node()]

    async def namespaces() -> Sequence[Thing]:
        used = {pod.metadata.namespace for pod in view.pods()} | {event.metadata.namespace for event in view.events()}
        return [Namespace(metadata=k8s.ObjectMeta(name=name)) for name in sorted({*used, ALWAYS_THERE} - {""})]

    return (
        Resource(
            name="pods",
            singular="pod",
            kind="Pod",
            short=("po",),
            columns=pod_row.COLUMNS,
            wide=pod_row.WIDE_COLUMNS,
            cells=lambda pod, now_ns: pod_row.pod_row(pod, now_ns).cells,
            things=pods,
            look_seconds=WATCH_SECONDS,
            fields=_POD_FIELDS,
            categories=("all",),
            parts=POD_PARTS,
        ),
        Resource(
            name="events",
            singular="event",
            kind="Event",
            short=("ev",),
            columns=event_row.COLUMNS,
            wide=event_row.WIDE_COLUMNS,
            cells=event_row.event_cells,
            things=events,
            look_seconds=WATCH_SECONDS,
            fields=_EVENT_FIELDS,
        ),
        Resource(
            name="nodes",
            singular="node",
            kind="Node",
            short=("no",),
            columns=node_row.COLUMNS,
            wide=node_row.WIDE_COLUMNS,
            cells=node_row.node_cells,
            things=nodes,
            look_seconds=NODE_SECONDS,
            fields=_NODE_FIELDS,
            namespaced=False,
        ),
        Resource(
            name="namespaces",
            singular="namespace",
            kind="Namespace",
            short=("ns",),
            columns=("NAME", "STATUS", "AGE"),
            cells=lambda one, now_ns: (
                one.metadata.name,
                one.status.phase,
                since(one.metadata.creation_timestamp, now_ns),
            ),
            things=namespaces,
            look_seconds=WATCH_SECONDS,
            fields=NAME_FIELDS,
            namespaced=False,
        ),
    )


def _word(value: bool | None) -> str:
    """A boolean as the API's selectors have it."""
    return "true" if value else "false"
