"""The node object an agent registers, and what it mends of one that is already there.

Labels and taints an operator asked for belong to a node that is made; on a node that is there they are others' to
change, as upstream has it, and only the labels that say what the machine is are brought up to date.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trikubelet.core.node_status.status import extended
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ATTACH_DETACH: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
NODE_IP: Final = "alpha.kubernetes.io/provided-node-ip"
UNINITIALIZED: Final = k8s.Taint(
    key="node.cloudprovider.kubernetes.io/uninitialized", value="true", effect="NoSchedule"
)

# Brought up to date on a node that is there, as upstream does.
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


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the node is to the cluster. ``provided_ips`` are those of ``--node-ip``, for an external cloud provider to
    choose by."""

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
        """What the machine is, and over it what the operator says."""
        machine = {"kubernetes.io/hostname": self.hostname}
        for prefix in ("", "beta."):
            machine[f"{prefix}kubernetes.io/os"] = "linux"
            machine[f"{prefix}kubernetes.io/arch"] = self.architecture
        return machine | dict(self.labels)

    def annotations(self) -> dict[str, str]:
        """What controllers must know of this node."""
        found = {ATTACH_DETACH: "true"} if self.controller_attaches else {}
        if self.external_cloud and self.provided_ips:
            found[NODE_IP] = ",".join(self.provided_ips)
        return found


def new_node(identity: Identity, status: k8s.NodeStatus) -> k8s.Node:
    """The object to register."""
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
    """The node as long as no cluster has said anything of it, for pods that ask where they are. It has no status."""
    return k8s.Node(metadata=k8s.ObjectMeta(name=identity.name, labels=identity.all_labels()))


def reconciliation(identity: Identity, there: k8s.Node) -> Mapping[str, object] | None:
    """The strategic merge patch for a node that is there, or None when nothing of it is ours to mend."""
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
    """The strategic merge patch for the status of a node that is taken up, or None when it needs none: what devices
    were advertised by an earlier agent nobody vouches for, until they are advertised again (upstream-behaviour.md
    §1.17)."""
    changes = {
        member: dict.fromkeys(names, "0")
        for member, amounts in (("capacity", there.capacity), ("allocatable", there.allocatable))
        if (names := [name for name, amount in extended(amounts).items() if amount != "0"])
    }
    return {"status": changes} if changes else None


def _same_place(one: k8s.Taint, other: k8s.Taint) -> bool:
    return (one.key, one.effect) == (other.key, other.effect)
