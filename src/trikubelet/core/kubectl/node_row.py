"""A node in a table, by kubectl's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.kubectl.words import NONE, UNKNOWN, since

if TYPE_CHECKING:
    from trikubelet.model.k8s import Node

COLUMNS: Final = ("NAME", "STATUS", "ROLES", "AGE", "VERSION")
WIDE_COLUMNS: Final = ("INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME")
_ROLE: Final = "node-role.kubernetes.io/"


def node_cells(node: Node, now_ns: int) -> tuple[str, ...]:
    """Return name, status, roles, age and version; then, for a wide table, addresses, system, kernel and runtime."""
    status = node.status
    info = status.node_info if status else None
    return (
        node.metadata.name,
        _word(node),
        roles_of(node),
        since(node.metadata.creation_timestamp, now_ns),
        info.kubelet_version if info else UNKNOWN,
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        info.os_image if info else UNKNOWN,
        info.kernel_version if info else UNKNOWN,
        info.container_runtime_version if info else UNKNOWN,
    )


def roles_of(node: Node) -> str:
    """Return the node's roles, from its labels."""
    return ",".join(sorted(name.removeprefix(_ROLE) for name in node.metadata.labels if name.startswith(_ROLE))) or NONE


def _address(node: Node, type_: str) -> str:
    """Return the first of the node's addresses of that type."""
    addresses = node.status.addresses if node.status else ()
    return next((one.address for one in addresses if one.type == type_), NONE)


def _word(node: Node) -> str:
    conditions = node.status.conditions if node.status else ()
    ready = next((one.status for one in conditions if one.type == "Ready"), None)
    states = ["Ready" if ready == "True" else "Unknown" if ready is None else "NotReady"]
    if node.spec is not None and node.spec.unschedulable:
        states.append("SchedulingDisabled")
    return ",".join(states)
