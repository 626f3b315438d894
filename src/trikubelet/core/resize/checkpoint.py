"""Upstream's files of the allocated and the actual resources of all pods, as its kubelet writes and reads them.

    {"data": "{\"entries\": {UID: {"ContainerResources": {NAME: …}, "PodLevelResources": …}}}", "checksum": N}

The checksum is FNV-1a (32 bits) over Go's print of the data. Upstream's kubelet does not start with a file whose
checksum is wrong. It ignores fields that it does not know, and leaves them out when it writes: so the field ``writer``
shows if this agent wrote the file last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.core.fnv import fnv1a_32
from trikubelet.core.resize.allocation import Allocation
from trikubelet.core.resize.progress import with_amounts
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Mapping

_WRITER: Final = "trikubelet"


class PodResources(msgspec.Struct, frozen=True, rename="pascal"):
    """The resources of one pod's containers by name, and the pod's own."""

    container_resources: dict[str, k8s.ResourceRequirements] | None = None
    pod_level_resources: k8s.ResourceRequirements | None = None


class Checkpoint(msgspec.Struct, frozen=True):
    """The content of a file. ``is_own``: this agent wrote it last."""

    pods: dict[str, PodResources]
    is_own: bool


class _Data(msgspec.Struct, frozen=True):
    entries: dict[str, PodResources] = {}


class _File(msgspec.Struct, frozen=True):
    data: str
    checksum: int
    writer: str = ""


def written(pods: Mapping[str, PodResources]) -> bytes:
    """Return the file of these pods, by UID."""
    data = msgspec.json.encode(_Data(dict(pods))).decode()
    return msgspec.json.encode(_File(data, _checksum(data), _WRITER))


def read(content: bytes) -> Checkpoint:
    """Return the content of a file. Raises ValueError."""
    file = msgspec.json.decode(content, type=_File)  # whose errors are ValueErrors
    if file.checksum != _checksum(file.data):
        raise ValueError("its checksum is wrong")
    return Checkpoint(msgspec.json.decode(file.data, type=_Data).entries, file.writer == _WRITER)


def allocated(allocation: Allocation) -> PodResources:
    """Return the resources that the pod is allocated."""
    return PodResources(allocation.containers, allocation.pod)


def actuated(allocation: Allocation, before: PodResources | None = None) -> PodResources:
    """Return the resources that the pod's containers were created with; for containers without a record, those that the
    file had ``before``."""
    made = {name: with_amounts(allocation.containers.get(name), one.amounts) for name, one in allocation.made.items()}
    known = (before.container_resources if before is not None else None) or {}
    return PodResources({**known, **made}, allocation.pod_made)


def allocation_of_upstream(found: PodResources, before: Allocation | None = None) -> Allocation:
    """Return the allocation of a pod by upstream's kubelet. The runtime reports its containers' actual amounts;
    ``before``: this agent's own record."""
    return Allocation(
        generation=before.generation if before is not None else 0,
        containers=found.container_resources or {},
        pod=found.pod_level_resources,
        pod_made=found.pod_level_resources,
    )


def _checksum(data: str) -> int:
    return fnv1a_32(b"(string)" + data.encode())
