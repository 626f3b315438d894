"""Assembles a snapshot from its parts: pods, the gauges of their cgroups, the runtime's stats, disks, rates.

A container's usage is its cgroup's, or the runtime's if the cgroup is not readable. A pod's cgroup without containers
in it is unused by the runtime, and does not count.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import field

from trikubelet.core.containers.resources import shares
from trikubelet.core.names import all_containers
from trikubelet.core.stats.rates import Rate, advanced
from trikubelet.core.stats.summary import files_total, total
from trikubelet.model import quantity
from trikubelet.model.frozen import Frozen
from trikubelet.model.stats_snapshot import ContainerUsed, NodeUsed, PodUsed, StatsSnapshot, Used

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trikubelet.model import k8s
    from trikubelet.model.runtime import ContainerStatus, PodObservation
    from trikubelet.model.stats_snapshot import VolumeUsed
    from trikubelet.model.usage import ContainerStats, FsUsage, NodeGauges, PodGauges, Usage

NODE: Final = "node"


class Disk(NamedTuple):
    """The disk usage of a pod's directories: logs by container, and its volumes. ``is_measured``: false while those on
    the node's disk were never counted completely, so that they are missing here; ``so_far``: the part counted then,
    None if counting failed. ``hosts``: the managed hosts file; ``messages``: termination message files, by
    container."""

    logs: Mapping[str, FsUsage]
    volumes: tuple[VolumeUsed, ...]
    is_measured: bool = True
    so_far: FsUsage | None = None
    hosts: FsUsage | None = None
    messages: Mapping[str, FsUsage] = MappingProxyType({})


class PodFound(NamedTuple):
    """The findings about one pod. ``cgroup``: its path, or "" if the agent made none."""

    pod: k8s.Pod
    seen: PodObservation
    cgroup: str
    gauges: PodGauges
    disk: Disk = Disk({}, ())


class Found(Frozen):
    """All findings. ``runtime_stats``: the runtime's, by containers' ids; ``parts``: of the node."""

    node_name: str
    gauges: NodeGauges
    pods: Sequence[PodFound]
    parts: Mapping[str, Usage | None]
    runtime_stats: Mapping[str, ContainerStats]
    disk: FsUsage | None = None
    images: FsUsage | None = None
    layers: FsUsage | None = None
    problem: str = ""
    groups: Mapping[str, Usage] = field(default_factory=dict)
    device: str = ""


class Rates:
    """Owns the rates of everything in a snapshot while it is assembled; ``before``: those of the last snapshot. Rates
    of anything that is not in this one are dropped."""

    def __init__(self, before: Mapping[str, Rate]) -> None:
        self._before = before
        self.now: dict[str, Rate] = {}

    def used(self, key: str, usage: Usage | None, started_ns: int | None = None) -> Used | None:
        """Return the usage with its rate. ``started_ns``: when usage was zero, None if unknown."""
        if usage is None:
            return None
        if usage.cpu_ns is None:
            return Used(usage)
        self.now[key] = advanced(self._before.get(key), usage.at_ns, usage.cpu_ns, started_ns)
        return Used(usage, self.now[key].nanocores)


def assembled(found: Found, before: Mapping[str, Rate]) -> tuple[StatsSnapshot, Mapping[str, Rate]]:
    """Return the snapshot, and the rates for the next one."""
    rates = Rates(before)
    booted_ns = found.gauges.booted_ns
    node = rates.used(NODE, found.gauges.usage, booted_ns)
    parts = {name: rates.used(f"part {name}", usage, booted_ns) for name, usage in found.parts.items()}
    snapshot = StatsSnapshot(
        at_ns=found.gauges.usage.at_ns,
        node=NodeUsed(
            name=found.node_name,
            gauges=found.gauges,
            nanocores=node.nanocores if node is not None else None,
            disk=found.disk,
            images=found.images,
            layers=found.layers,
            parts={name: used for name, used in parts.items() if used is not None},
            groups=found.groups,
            device=found.device,
        ),
        pods=tuple(_pod(one, found.runtime_stats, rates) for one in found.pods),
        problem=found.problem,
    )
    return snapshot, rates.now


def _pod(found: PodFound, runtime_stats: Mapping[str, ContainerStats], rates: Rates) -> PodUsed:
    meta, gauges = found.pod.metadata, found.gauges
    specs = {one.name: one for one in all_containers(found.pod)}
    containers = tuple(
        _container(
            one,
            specs.get(one.name),
            gauges.containers.get(one.id),
            runtime_stats.get(one.id),
            found.disk,
            rates,
        )
        for one in found.seen.running
    )
    used = rates.used(meta.uid, gauges.pod if gauges.containers else None)
    if used is not None and used.nanocores is None:
        # The cgroup's creation time is unknown: it may be older than its containers. Its first rate is their sum.
        used = used._replace(nanocores=total(one.used.nanocores for one in containers if one.used is not None))
    return PodUsed(
        uid=meta.uid,
        name=meta.name,
        namespace=meta.namespace,
        started_ns=min((one.created_at for one in found.seen.sandboxes), default=0),
        cgroup=found.cgroup,
        used=used,
        interfaces=gauges.interfaces,
        containers=containers,
        volumes=found.disk.volumes,
        is_disk_measured=found.disk.is_measured,
        disk_so_far=found.disk.so_far,
        own_files=files_total(_own_files(found)),
    )


def _own_files(found: PodFound) -> list[FsUsage]:
    """Return the hosts file, which belongs to no single container, and the message files of stopped containers."""
    running = {one.name for one in found.seen.running}
    of_ended = [usage for name, usage in found.disk.messages.items() if name not in running]
    return of_ended if found.disk.hosts is None else [found.disk.hosts, *of_ended]


def _container(
    seen: ContainerStatus,
    spec: k8s.Container | None,
    usage: Usage | None,
    runtime_stats: ContainerStats | None,
    disk: Disk,
    rates: Rates,
) -> ContainerUsed:
    if usage is None and runtime_stats is not None:
        usage = runtime_stats.usage
    resources = spec.resources if spec is not None else None
    limits = resources.limits if resources is not None else {}
    wanted = {**limits, **(resources.requests if resources is not None else {})}
    return ContainerUsed(
        name=seen.name,
        id=seen.id,
        image=seen.image,
        started_ns=seen.started_at,
        used=rates.used(seen.id, usage, seen.started_at or None),
        layer=runtime_stats.layer if runtime_stats is not None else None,
        logs=disk.logs.get(seen.name),
        messages=disk.messages.get(seen.name),
        cpu_shares=shares(quantity.milli(wanted["cpu"]) if "cpu" in wanted else 0),
        cpu_millis=quantity.milli(limits["cpu"]) if "cpu" in limits else None,
        memory_limit_bytes=quantity.whole(limits["memory"]) if "memory" in limits else None,
    )
