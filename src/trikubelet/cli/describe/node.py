"""The node's description, in kubectl's layout. Pure: API objects and the time in, lines out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.cli.describe.layout import Layout
from trikubelet.cli.describe.pod import events_of, pairs, when
from trikubelet.core.kubectl.node_row import roles_of
from trikubelet.core.kubectl.words import NONE, since
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Sequence

_SYSTEM: Final = {
    "Machine ID": "machine_id",
    "System UUID": "system_uuid",
    "Boot ID": "boot_id",
    "Kernel Version": "kernel_version",
    "OS Image": "os_image",
    "Operating System": "operating_system",
    "Architecture": "architecture",
    "Container Runtime Version": "container_runtime_version",
    "Kubelet Version": "kubelet_version",
}
_OVER: Final = ("Succeeded", "Failed")


def describe_node(
    node: k8s.Node, pods: Sequence[k8s.Pod], events: Sequence[k8s.Event], problems: Sequence[str], now_ns: int
) -> list[str]:
    """Return the lines. ``events``: the node's, least recently seen first; ``problems``: reasons why it cannot do its
    work."""
    out = Layout()
    meta, status, spec = node.metadata, node.status or k8s.NodeStatus(), node.spec or k8s.NodeSpec()
    out.field(0, "Name", meta.name)
    out.field(0, "Roles", roles_of(node))
    out.fields(0, "Labels", pairs(meta.labels, "="))
    out.fields(0, "Annotations", pairs(meta.annotations, ": "))
    if meta.creation_timestamp:
        out.field(0, "CreationTimestamp", when(meta.creation_timestamp))
    out.fields(0, "Taints", [_taint(one) for one in spec.taints])
    out.field(0, "Unschedulable", "true" if spec.unschedulable else "false")
    if problems:
        out.title(0, "Problems")
        out.texts(1, problems)
    _conditions(out, status, now_ns)
    for title, amounts in (("Capacity", status.capacity), ("Allocatable", status.allocatable)):
        out.title(0, title)
        for name, amount in sorted(amounts.items()):
            out.field(1, name, amount)
    if status.node_info is not None:
        out.title(0, "System Info")
        for label, member in _SYSTEM.items():
            out.field(1, label, getattr(status.node_info, member))
    _pods(out, pods, now_ns)
    _devices(out, pods)
    events_of(out, events, now_ns)
    return out.lines()


def _taint(one: k8s.Taint) -> str:
    return f"{one.key}={one.value}:{one.effect}" if one.value else f"{one.key}:{one.effect}"


def _conditions(out: Layout, status: k8s.NodeStatus, now_ns: int) -> None:
    out.title(0, "Conditions")
    rows = [
        (
            one.type,
            one.status,
            since(one.last_heartbeat_time, now_ns),
            since(one.last_transition_time, now_ns),
            one.reason,
            one.message,
        )
        for one in status.conditions
    ]
    out.table(1, ("Type", "Status", "Heartbeat", "Transition", "Reason", "Message"), rows, ruled=True)
    out.title(0, "Addresses")
    for address in status.addresses:
        out.field(1, address.type, address.address)


def _pods(out: Layout, pods: Sequence[k8s.Pod], now_ns: int) -> None:
    left = _not_ended(pods)
    if not left:
        out.field(0, "Non-terminated Pods", NONE)
        return
    out.title(0, f"Non-terminated Pods ({len(left)} in total)")
    metas = [pod.metadata for pod in left]
    rows = [(one.namespace, one.name, since(one.creation_timestamp, now_ns)) for one in metas]
    out.table(1, ("Namespace", "Name", "Age"), rows, ruled=True)


def _devices(out: Layout, pods: Sequence[k8s.Pod]) -> None:
    """Lay out which container holds each device. Nothing on a node whose pods hold none."""
    rows = [
        (resource.name, device.resource_id, device.health, f"{pod.metadata.namespace}/{pod.metadata.name}", one.name)
        for pod in _not_ended(pods)
        if pod.status is not None
        for one in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        for resource in one.allocated_resources_status
        for device in resource.resources
    ]
    if rows:
        out.title(0, "Allocated Devices")
        out.table(1, ("Resource", "Device", "Health", "Pod", "Container"), sorted(rows), ruled=True)


def _not_ended(pods: Sequence[k8s.Pod]) -> list[k8s.Pod]:
    return [pod for pod in pods if pod.status is None or pod.status.phase not in _OVER]
