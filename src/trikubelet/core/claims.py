"""Checks that a pod's claim and its volume can be used, and how the pod's containers may use them.

A pod names a PersistentVolumeClaim of its namespace. For an ephemeral volume, a controller makes a claim for that pod
alone. A bound claim names a PersistentVolume, which says where the data is. ``volumes.claims`` reads both from an API
server; the rules and texts here are upstream's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.admission.affinity import is_selected
from trikubelet.core.names import all_containers
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from trikubelet.model import k8s

BLOCK: Final = "Block"
ONE_POD: Final = "ReadWriteOncePod"
GROUP_ANNOTATION: Final = "pv.beta.kubernetes.io/gid"
GROUP_MAX: Final = 2**31 - 1
"""As for the groups a pod names itself; a runtime is given nothing longer than an int64."""


class Claim(Frozen):
    """A claim as a pod names it. ``of_pod``: it was made for this pod alone."""

    name: str
    read_only: bool = False
    of_pod: bool = False


def claim_of(pod: k8s.Pod, volume: k8s.Volume) -> Claim | None:
    """Return the claim behind a volume; None for a volume without one."""
    if (source := volume.persistent_volume_claim) is not None:
        return Claim(source.claim_name, bool(source.read_only))
    if volume.ephemeral is not None:
        return Claim(f"{pod.metadata.name}-{volume.name}", of_pod=True)
    return None


def claim_problem(pod: k8s.Pod, claim: Claim, held: k8s.PersistentVolumeClaim) -> str:
    """Return why the pod may not use the claim; "" if it may."""
    owners = held.metadata.owner_references
    if claim.of_pod and not any(owner.controller and owner.uid == pod.metadata.uid for owner in owners):
        theirs, ours = (f"{meta.namespace}/{meta.name}" for meta in (held.metadata, pod.metadata))
        return f"PVC {theirs} was not created for pod {ours} (pod is not owner)"
    if held.metadata.deletion_timestamp:
        return "PVC is being deleted"
    if held.status is None or held.status.phase != "Bound" or not held.spec.volume_name:
        return "PVC is not bound"
    return ""


def volume_problem(held: k8s.PersistentVolumeClaim, volume: k8s.PersistentVolume) -> str:
    """Return why the volume is not bound to the claim; "" if it is."""
    name, bound_to = volume.metadata.name, volume.spec.claim_ref
    if bound_to is None:
        return f'found PV object "{name}" but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim'
    if bound_to.uid != held.metadata.uid:
        return (
            f'found PV object "{name}" but its pv.Spec.ClaimRef.UID "{bound_to.uid}" does not point to claim.UID '
            f'"{held.metadata.uid}"'
        )
    return ""


def use_problem(pod: k8s.Pod, name: str, volume: k8s.PersistentVolume) -> str:
    """Return why the pod's containers may not use the volume as they ask to; "" if they may."""
    containers = all_containers(pod)
    if volume.spec.volume_mode == BLOCK:
        if any(mount.name == name for container in containers for mount in container.volume_mounts):
            return f"volume {name} has volumeMode Block, but is specified in volumeMounts"
    elif any(device.name == name for container in containers for device in container.volume_devices):
        return f"volume {name} has volumeMode Filesystem, but is specified in volumeDevices"
    return ""


def is_on(node: k8s.Node, volume: k8s.PersistentVolume) -> bool:
    """True if the volume's node affinity allows the node."""
    affinity = volume.spec.node_affinity
    return affinity is None or affinity.required is None or is_selected(node, affinity.required)


def group_wanted(volume: k8s.PersistentVolume) -> int | None:
    """Return the group that processes need to use the volume, from the annotation that provisioners write. None if
    there is no annotation, or if its value is not a group id (upstream ignores that, too)."""
    said = volume.metadata.annotations.get(GROUP_ANNOTATION, "")
    if not (said.isascii() and said.isdecimal() and len(said) <= len(str(GROUP_MAX))):
        return None
    return group if (group := int(said)) <= GROUP_MAX else None


def is_for_one_pod(volume: k8s.PersistentVolume) -> bool:
    """True if only one pod at a time may use the volume."""
    return volume.spec.access_modes == (ONE_POD,)
