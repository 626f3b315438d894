"""Whether a volume that became larger is to become larger on this node, too, and what is written to its claim.

    claim enlarged ─► a controller makes the disk larger, notes that in the PersistentVolume, and marks the claim
        ─► the node's driver lets the file system follow ─► the claim has its new size and no marks

The claim's marks are a state, or with older controllers a condition. ``volumes.csi_expansion`` carries out; states and
rules are upstream's (KEP-284, KEP-1790).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trikubelet.model.quantity import canonical, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model import k8s
    from trikubelet.model.csi import DriverFailed

STORAGE: Final = "storage"
PENDING: Final = "NodeResizePending"
IN_PROGRESS: Final = "NodeResizeInProgress"
INFEASIBLE: Final = "NodeResizeInfeasible"
WAITS_FOR_NODE: Final = "FileSystemResizePending"
FAILED: Final = "NodeResizeError"
NOT_REQUIRED: Final = "volume.kubernetes.io/node-expansion-not-required"
"""A claim's annotation, by which a controller says that nodes have nothing to do."""
_MARKS: Final = frozenset({"Resizing", WAITS_FOR_NODE, "ControllerResizeError", FAILED})


@dataclass(frozen=True, slots=True)
class Expansion:
    """How large a volume is to become. ``is_claims``: its claim is to be updated, which another node may have done."""

    size: str
    size_bytes: int
    is_claims: bool


def claimed_bytes(held: k8s.PersistentVolumeClaim) -> int | None:
    """The size the claim is known to have, None where that is not known yet. Raises ValueError."""
    size = held.status.capacity.get(STORAGE) if held.status is not None else None
    return None if size is None else whole(size)


def due(held: k8s.PersistentVolumeClaim, volume: k8s.PersistentVolume, here_bytes: int) -> Expansion | None:
    """What is to be done about a volume that had ``here_bytes`` when it was last looked at on this node. Raises
    ValueError."""
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
    """Whether each node that has the volume must see to it by itself: on one node alone nobody else could have."""
    return "ReadWriteMany" in held.spec.access_modes and NOT_REQUIRED not in held.metadata.annotations


def waits_for_node(held: k8s.PersistentVolumeClaim) -> bool:
    """Whether a controller has done its part, and a node is to do the rest."""
    if state := _state(held):
        return state in (PENDING, IN_PROGRESS)
    conditions = held.status.conditions if held.status is not None else ()
    return any(one.type == WAITS_FOR_NODE and one.status == "True" for one in conditions)


def _state(held: k8s.PersistentVolumeClaim) -> str:
    return held.status.allocated_resource_statuses.get(STORAGE, "") if held.status is not None else ""


def begun(held: k8s.PersistentVolumeClaim) -> Mapping[str, Any] | None:
    """What is written to the claim's status before the driver is asked: None where nothing need be."""
    if _state(held) in ("", IN_PROGRESS):
        return None
    return _merge(held, allocatedResourceStatuses={STORAGE: IN_PROGRESS})


def ended(held: k8s.PersistentVolumeClaim, expansion: Expansion) -> Mapping[str, Any]:
    """What is written to the claim's status when the volume has its size: that, and no marks any more."""
    status = {"capacity": {STORAGE: expansion.size}, "conditions": _conditions_but(held, _MARKS)}
    return _merge(held, **status, **({"allocatedResourceStatuses": {STORAGE: None}} if _state(held) else {}))


def failed(held: k8s.PersistentVolumeClaim, expansion: Expansion, error: DriverFailed) -> Mapping[str, Any]:
    """What is written to the claim's status when the driver said no: why, and whether another size must be, or was,
    asked for. Raises ValueError."""
    why = {"type": FAILED, "status": "True", "message": f"failed to expand pvc with {error}"}
    is_over = error.is_infeasible or _is_taken_back(held, expansion)
    state = {"allocatedResourceStatuses": {STORAGE: INFEASIBLE}} if _state(held) and is_over else {}
    return _merge(held, conditions=[*_conditions_but(held, frozenset({FAILED})), why], **state)


def _is_taken_back(held: k8s.PersistentVolumeClaim, expansion: Expansion) -> bool:
    """Whether an expansion had failed before and the claim asks for another size by now: a controller may only see to
    that once this one is given up (KEP-1790)."""
    has_failed = held.status is not None and any(one.type == FAILED for one in held.status.conditions)
    asked = held.spec.resources.requests.get(STORAGE) if held.spec.resources is not None else None
    return has_failed and asked is not None and whole(asked) != expansion.size_bytes


def _conditions_but(held: k8s.PersistentVolumeClaim, types: frozenset[str]) -> list[Any]:
    conditions = held.status.conditions if held.status is not None else ()
    return [msgspec.to_builtins(one) for one in conditions if one.type not in types]


def _merge(held: k8s.PersistentVolumeClaim, **status: Any) -> Mapping[str, Any]:
    """A merge into the claim's status as it was read, and no other."""
    return {"metadata": {"resourceVersion": held.metadata.resource_version}, "status": status}
