"""The node object that an agent registers, and its changes to an existing one.

The operator's labels and taints are set only when the node is created; later they may be changed by others, like
upstream. On an existing node only the labels that describe the machine are updated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import field

from trikubelet.core.node_status.status import extended
from trikubelet.model import k8s
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ATTACH_DETACH: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
NODE_IP: Final = "alpha.kubernetes.io/provided-node-ip"
UNINITIALIZED: Final = k8s.Taint(
    key="node.cloudprovider.kubernetes.io/uninitialized", value="true", effect="NoSchedule"
)

# Updated on an existing node, like upstream.
_MACHINE_LABELS: Final = (
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


class Identity(Frozen):
    """The node's identity in the cluster. ``provided_ips``: those of ``--node-ip``, from which an external cloud
    provider chooses."""

    name: str
    hostname: str
    architecture: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[k8s.Taint] = ()
    provider_id: str = ""
    provided_ips: Sequence[str] = ()
    external_cloud: bool = False
    controller_attaches: bool = True

    def all_labels(self) -> dict[str, str]:
        """Return the labels of the machine, overridden by the operator's."""
        machine = {"kubernetes.io/hostname": self.hostname}
        for prefix in ("", "beta."):
            machine[f"{prefix}kubernetes.io/os"] = "linux"
            machine[f"{prefix}kubernetes.io/arch"] = self.architecture
        return machine | dict(self.labels)

    def annotations(self) -> dict[str, str]:
        """Return the annotations that controllers need."""
        found = {ATTACH_DETACH: "true"} if self.controller_attaches else {}
        if self.external_cloud and self.provided_ips:
            found[NODE_IP] = ",".join(self.provided_ips)
        return found


def new_node(identity: Identity, status: k8s.NodeStatus) -> k8s.Node:
    """Return the object to register."""
    taints = list(identity.taints)
    if identity.external_cloud and not any(_same_place(taint, UNINITIALIZED) for taint in taints):
        taints.append(UNINITIALIZED)
    return k8s.Node(
        api_version="v1",
        kind="Node",
        metadata=k8s.ObjectMeta(name=identity.name, labels=identity.all_labels(), annotations=identity.annotations()),
        spec=k8s.NodeSpec(taints=tuple(taints), provider_id=identity.provider_id),
        status=status,
    )


def self_described(identity: Identity) -> k8s.Node:
    """Return the node before a cluster has described it, for pods that read its fields. It has no status."""
    return k8s.Node(metadata=k8s.ObjectMeta(name=identity.name, labels=identity.all_labels()))


def reconciliation(identity: Identity, there: k8s.Node) -> Mapping[str, object] | None:
    """Return the strategic merge patch for an existing node; None if the agent has nothing to change."""
    labels, annotations = there.metadata.labels, there.metadata.annotations
    wanted = identity.all_labels()
    changed_labels = {
        name: wanted[name] for name in _MACHINE_LABELS if name in wanted and labels.get(name) != wanted[name]
    }
    ours = identity.annotations()
    changed_annotations: dict[str, str | None] = {
        name: value for name, value in ours.items() if annotations.get(name) != value
    }
    changed_annotations |= {name: None for name in (ATTACH_DETACH, NODE_IP) if name in annotations and name not in ours}
    metadata: dict[str, object] = {}
    if changed_labels:
        metadata["labels"] = changed_labels
    if changed_annotations:
        metadata["annotations"] = changed_annotations
    return {"metadata": metadata} if metadata else None


def emptied(there: k8s.NodeStatus) -> Mapping[str, object] | None:
    """Return the strategic merge patch for the status of an existing node that the agent adopts; None if it needs none:
    devices that an earlier agent advertised count as 0 until they are advertised again (upstream-behaviour.md
    §1.17)."""
    changes = {
        member: dict.fromkeys(names, "0")
        for member, amounts in (("capacity", there.capacity), ("allocatable", there.allocatable))
        if (names := [name for name, amount in extended(amounts).items() if amount != "0"])
    }
    return {"status": changes} if changes else None


def _same_place(one: k8s.Taint, other: k8s.Taint) -> bool:
    return (one.key, one.effect) == (other.key, other.effect)
