"""Decides if an expanded volume must be expanded on this node, too, and how its claim is updated.

    claim enlarged ─► a controller makes the disk larger, notes that in the PersistentVolume, and marks the claim
        ─► the node's driver lets the file system follow ─► the claim has its new size and no marks

The claim's marks are a state, or with older controllers a condition. ``volumes.csi_expansion`` does the work; states
and rules are upstream's (KEP-284, KEP-1790).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from trikubelet.model.frozen import Frozen
from trikubelet.model.quantity import canonical, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model import k8s
    from trikubelet.model.plugins import PluginFailed

STORAGE: Final = "storage"
PENDING: Final = "NodeResizePending"
IN_PROGRESS: Final = "NodeResizeInProgress"
INFEASIBLE: Final = "NodeResizeInfeasible"
WAITS_FOR_NODE: Final = "FileSystemResizePending"
FAILED: Final = "NodeResizeError"
NOT_REQUIRED: Final = "volume.kubernetes.io/node-expansion-not-required"
"""A claim's annotation by which a controller declares that nodes have nothing to do."""
_MARKS: Final = frozenset({"Resizing", WAITS_FOR_NODE, "ControllerResizeError", FAILED})


class Expansion(Frozen):
    """The target size of a volume. ``is_claims``: its claim must be updated, which another node may have done."""

    size: str
    size_bytes: int
    is_claims: bool


def claimed_bytes(held: k8s.PersistentVolumeClaim) -> int | None:
    """Return the claim's known size; None if it is unknown yet. Raises ValueError."""
    size = held.status.capacity.get(STORAGE) if held.status is not None else None
    return None if size is None else whole(size)


def due(held: k8s.PersistentVolumeClaim, volume: k8s.PersistentVolume, here_bytes: int) -> Expansion | None:
    """Return the due expansion of a volume that had ``here_bytes`` when this node last checked it; None if none is due.
    Raises ValueError."""
    if held.spec.volume_name != volume.metadata.name:  # recreated under its name
        return None
    size, known = volume.spec.capacity.get(STORAGE), claimed_bytes(held)
    if size is None or known is None:
        return None
    size_bytes = whole(size)
    if size_bytes > known:
        return Expansion(canonical(size), size_bytes, is_claims=True) if waits_for_node(held) else None
    grew_elsewhere = size_bytes > here_bytes and _is_on_many_nodes(held)
    return Expansion(canonical(size), size_bytes, is_claims=False) if grew_elsewhere else None


def _is_on_many_nodes(held: k8s.PersistentVolumeClaim) -> bool:
    """True if each node that has the volume must expand it by itself; a volume on one node has no other node to do
    it."""
    return "ReadWriteMany" in held.spec.access_modes and NOT_REQUIRED not in held.metadata.annotations


def waits_for_node(held: k8s.PersistentVolumeClaim) -> bool:
    """True if the controller's part is done and the node's is due."""
    if state := _state(held):
        return state in (PENDING, IN_PROGRESS)
    conditions = held.status.conditions if held.status is not None else ()
    return any(one.type == WAITS_FOR_NODE and one.status == "True" for one in conditions)


def _state(held: k8s.PersistentVolumeClaim) -> str:
    return held.status.allocated_resource_statuses.get(STORAGE, "") if held.status is not None else ""


def begun(held: k8s.PersistentVolumeClaim) -> Mapping[str, Any] | None:
    """Return the patch of the claim's status before the driver is called; None if none is needed."""
    if _state(held) in ("", IN_PROGRESS):
        return None
    return _merge(held, allocatedResourceStatuses={STORAGE: IN_PROGRESS})


def ended(held: k8s.PersistentVolumeClaim, expansion: Expansion) -> Mapping[str, Any]:
    """Return the patch of the claim's status after the expansion: the new size, and no marks."""
    status = {"capacity": {STORAGE: expansion.size}, "conditions": _conditions_but(held, _MARKS)}
    return _merge(held, **status, **({"allocatedResourceStatuses": {STORAGE: None}} if _state(held) else {}))


def failed(held: k8s.PersistentVolumeClaim, expansion: Expansion, error: PluginFailed) -> Mapping[str, Any]:
    """Return the patch of the claim's status after the driver failed: why, and if another size must be, or was,
    requested. Raises ValueError."""
    why = {"type": FAILED, "status": "True", "message": f"failed to expand pvc with {error}"}
    is_over = error.is_infeasible or _is_taken_back(held, expansion)
    state = {"allocatedResourceStatuses": {STORAGE: INFEASIBLE}} if _state(held) and is_over else {}
    return _merge(held, conditions=[*_conditions_but(held, frozenset({FAILED})), why], **state)


def _is_taken_back(held: k8s.PersistentVolumeClaim, expansion: Expansion) -> bool:
    """True if an expansion had failed before and the claim requests another size now: a controller can only act on that
    once this expansion is given up (KEP-1790)."""
    has_failed = held.status is not None and any(one.type == FAILED for one in held.status.conditions)
    asked = held.spec.resources.requests.get(STORAGE) if held.spec.resources is not None else None
    return has_failed and asked is not None and whole(asked) != expansion.size_bytes


def _conditions_but(held: k8s.PersistentVolumeClaim, types: frozenset[str]) -> list[Any]:
    conditions = held.status.conditions if held.status is not None else ()
    return [msgspec.to_builtins(one) for one in conditions if one.type not in types]


def _merge(held: k8s.PersistentVolumeClaim, **status: Any) -> Mapping[str, Any]:
    """Return a merge patch of the claim's status that applies only to the version that was read."""
    return {"metadata": {"resourceVersion": held.metadata.resource_version}, "status": status}
