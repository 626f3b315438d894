"""The resources that kubectl can list on a node without a cluster, with the columns of ``trikubelet get``.

Pods and events come from the node's view, the node from the agent; namespaces are derived from the objects in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.kubectl import event_row, node_row, pod_row
from trikubelet.core.kubectl.fields import EVENT_FIELDS, NAME_FIELDS, NODE_FIELDS, POD_FIELDS
from trikubelet.core.kubectl.words import since
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.model import k8s
from trikubelet.server.kubectl.api import POD_PARTS
from trikubelet.server.kubectl.reading import WATCH_SECONDS
from trikubelet.server.kubectl.resources import Namespace, Resource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.server.agent_view import AgentView
    from trikubelet.server.kubectl.resources import Thing
    from trikubelet.server.node_view import NodeView

NODE_SECONDS: Final = 5.0
"""Age in seconds of a watch's state of the node: reading it costs a call to the runtime now and then."""
ALWAYS_THERE: Final = "default"


def _lives_again(was: k8s.Pod, now: k8s.Pod) -> bool:
    """True for a static pod that came back under its UID. No client may see a phase go back from its end."""
    phases = [pod.status.phase if pod.status is not None else "" for pod in (was, now)]
    return phases[0] in TERMINAL and phases[1] not in TERMINAL


def resources(view: NodeView, agent: AgentView) -> Sequence[Resource]:
    """Return all resources."""

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
            fields=POD_FIELDS,
            is_next_life=_lives_again,
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
            fields=EVENT_FIELDS,
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
            fields=NODE_FIELDS,
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
