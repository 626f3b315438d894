"""One snapshot of the node: everything that was found out about what it, its pods and their containers use.

``stats`` takes it, ``core.stats.summary`` and the metrics endpoints show it. ``nanocores`` are billionths of a
processor, between this snapshot and the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import field

from trikubelet.model.frozen import Frozen
from trikubelet.model.usage import MachineIds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.usage import FsUsage, Interface, NodeGauges, Usage


class Used(NamedTuple):
    """A usage and the rate that goes with it."""

    usage: Usage
    nanocores: int | None = None


class ContainerUsed(Frozen):
    """A container that runs. ``layer``: what it wrote outside of volumes. ``messages``: its termination message files.
    ``cpu_shares`` is what it asks for, in the kernel's measure; ``cpu_millis`` and ``memory_limit_bytes`` are its
    limits, None without."""

    name: str
    id: str
    image: str
    started_ns: int
    used: Used | None = None
    layer: FsUsage | None = None
    logs: FsUsage | None = None
    cpu_millis: int | None = None
    memory_limit_bytes: int | None = None
    cpu_shares: int = 0
    messages: FsUsage | None = None

    def local_files(self) -> tuple[FsUsage, ...]:
        """Return what it has on the node's own disk, outside of volumes and its layer, as far as it was measured."""
        return tuple(one for one in (self.logs, self.messages) if one is not None)


class VolumeUsed(Frozen):
    """A volume of a pod. ``claim``: the name of what it was claimed by, or empty. ``is_local``: it is of the node's own
    disk and made for the pod, so that it counts as the pod's ephemeral storage. ``is_abnormal``: its driver says that
    something is wrong with it, None where it does not say."""

    name: str
    usage: FsUsage
    claim: str = ""
    is_local: bool = False
    is_abnormal: bool | None = None


class PodUsed(Frozen):
    """A pod of which something runs. ``cgroup``: its cgroup's path, or empty; ``used``: all of it together.
    On the node's own network its interfaces are the node's; without any they could not be read. ``is_disk_measured``:
    false while its logs and local volumes were never counted to the end, so that they are missing here though they may
    be large; ``disk_so_far`` is then what was counted of them, at least so much, and None where they cannot be counted.
    ``own_files``: its hosts file, and the termination message files of its containers that do not run."""

    uid: str
    name: str
    namespace: str
    started_ns: int
    cgroup: str = ""
    used: Used | None = None
    interfaces: tuple[Interface, ...] = ()
    containers: tuple[ContainerUsed, ...] = ()
    volumes: tuple[VolumeUsed, ...] = ()
    is_disk_measured: bool = True
    disk_so_far: FsUsage | None = None
    own_files: FsUsage | None = None


class NodeUsed(Frozen):
    """The node. ``disk`` is that of the root directory, ``images`` and ``layers`` the runtime's stores, None where it
    does not report them. ``parts``: by upstream's names, ``pods`` and ``kubelet`` and more, what has a cgroup of its
    own; ``groups``: by their paths, the cgroups of all pods and of those of a class, with Depth.METRICS;
    ``device``: what the disk is called, likewise."""

    name: str
    gauges: NodeGauges
    nanocores: int | None = None
    disk: FsUsage | None = None
    images: FsUsage | None = None
    layers: FsUsage | None = None
    parts: Mapping[str, Used] | None = None
    groups: Mapping[str, Usage] = field(default_factory=dict)
    device: str = ""
    ids: MachineIds = field(default_factory=MachineIds)


class StatsSnapshot(Frozen):
    """All of it. ``problem``: why something is missing that should be there, or empty."""

    at_ns: int
    node: NodeUsed
    pods: tuple[PodUsed, ...]
    problem: str = ""
