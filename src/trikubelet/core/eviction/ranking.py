"""Ranks pods for eviction (upstream: the rank functions of pkg/kubelet/eviction/helpers.go).

For memory and disk: pods that use more than they requested, then those of lower priority, then those furthest above
their request. For process ids: lower priority, then more processes. A pod whose usage is unknown comes first, like
upstream, because it may exceed its request. So does a pod whose own directories count but cannot be read. A count that
takes long does not make a pod come first: the part counted so far is its usage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trikubelet.core.eviction.thresholds import DISK_SIGNALS, IMAGE_SIGNALS, INODE_SIGNALS, MEMORY_SIGNALS, PIDS
from trikubelet.core.requests import promised
from trikubelet.core.stats.summary import pod_used

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trikubelet.model import k8s
    from trikubelet.model.stats_snapshot import ContainerUsed, PodUsed
    from trikubelet.model.usage import FsUsage


class Candidate(NamedTuple):
    """A pod that may be evicted and its usage, None if nothing was measured."""

    pod: k8s.Pod
    used: PodUsed | None


def rank(candidates: Iterable[Candidate], signal: str, *, image_disk: bool) -> Sequence[Candidate]:
    """Return the candidates, the first to be evicted first. ``image_disk``: images and containers' layers are on a
    separate disk."""
    return sorted(candidates, key=lambda one: _key(one, signal, image_disk=image_disk))


def _key(one: Candidate, signal: str, *, image_disk: bool) -> tuple[int, int, int]:
    priority = one.pod.spec.priority or 0
    usage = _known_usage(one, signal, image_disk=image_disk)
    if signal == PIDS:
        return (0, priority, 0) if usage is None else (1, priority, -usage)
    if usage is None:
        return 0, priority, 0
    beyond = usage - _requested(one.pod, signal)
    return (1 if beyond > 0 else 2), priority, -beyond


def _known_usage(one: Candidate, signal: str, *, image_disk: bool) -> int | None:
    if one.used is None:
        return None
    usage = usage_of(one.used, signal, image_disk=image_disk)
    if usage is None or not counts_directories(signal, image_disk=image_disk) or one.used.is_disk_measured:
        return usage
    so_far = one.used.disk_so_far
    return None if so_far is None else usage + (_amount(so_far, signal) or 0)


def usage_of(used: PodUsed, signal: str, *, image_disk: bool) -> int | None:
    """Return the pod's usage of the signal's resource: bytes, inodes or processes; None if unknown."""
    if signal in (*MEMORY_SIGNALS, PIDS):
        whole = pod_used(used)
        if whole is None:
            return None
        return whole.usage.processes if signal == PIDS else whole.usage.working_set_bytes
    with_layers, with_local = _counts(signal, image_disk=image_disk)
    measured = [*_files(used, with_layers=with_layers, with_local=with_local)]
    return sum(_amount(one, signal) or 0 for one in measured)


def _amount(measured: FsUsage, signal: str) -> int | None:
    return measured.inodes_used if signal in INODE_SIGNALS else measured.used_bytes


def counts_directories(signal: str, *, image_disk: bool) -> bool:
    """True if logs and local volumes are on the disk of the signal."""
    return signal in DISK_SIGNALS and _counts(signal, image_disk=image_disk)[1]


def _counts(signal: str, *, image_disk: bool) -> tuple[bool, bool]:
    """Return if layers are on the disk of the signal, and if logs and local volumes are."""
    with_layers = not image_disk or signal in IMAGE_SIGNALS
    return with_layers, not image_disk or not with_layers


def _files(used: PodUsed, *, with_layers: bool, with_local: bool) -> Iterator[FsUsage]:
    """Yield the pod's files on the disk of the signal: layers, and with the node's own disk logs, local volumes and the
    files of the pod's own directory."""
    for container in used.containers:
        yield from _of_container(container, with_layers=with_layers, with_local=with_local)
    if with_local:
        if used.own_files is not None:
            yield used.own_files
        yield from (volume.usage for volume in used.volumes if volume.is_local)


def _of_container(container: ContainerUsed, *, with_layers: bool, with_local: bool) -> Iterator[FsUsage]:
    if with_layers and container.layer is not None:
        yield container.layer
    if with_local:
        yield from container.local_files()


def _requested(pod: k8s.Pod, signal: str) -> int:
    """Return the pod's request; inodes cannot be requested."""
    if signal in INODE_SIGNALS:
        return 0
    return promised(pod).get("memory" if signal in MEMORY_SIGNALS else "ephemeral-storage", 0)
