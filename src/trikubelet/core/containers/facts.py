"""The facts about this node that configurations depend on.

Gathered once at start by the composition root, from the configuration and from ``host.node`` and ``host.cgroups``. The
core reads nothing else of the machine, so a test defines its kind of node in one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from trikubelet.core.containers.memory_rules import MemoryRules
from trikubelet.core.user_namespaces import IdPool
from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime_config import DNSConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.containers.reserved_cgroups import ReservedCgroup


class NodeFacts(Frozen):
    """One node. ``host_ips``, which may change, has the primary address first and is empty while the node has none;
    ``memory_bytes`` is the capacity; ``capacity`` and ``allocatable`` map resource names to whole numbers (bytes;
    millicores under ``cpu``). ``cgroups_managed``: the agent names pods' cgroups, else the runtime's defaults hold;
    ``cgroup_version`` is 1, 2 or 0 for unknown. ``pods_limit``: the limit of all pods together, in the same names and
    units, with processes under ``pid``; ``pod_pids_max``: processes in one pod, 0 for no limit; ``memory``: the rules
    for memory besides limits; ``reserved_cgroups``: those of other programs to limit.
    ``apparmor``: the kernel enforces it. ``strict_groups``: the runtime can limit a process's groups to the pod's.
    ``throttle_paths``: the directories that show each CPU's thermal throttling, which would leak the load of other
    pods.
    ``huge_page_sizes`` are in bytes. ``recursive_read_only``: the runtime can make a mount read-only including all
    mounts below it. ``allowed_sysctls``: the unsafe ones that the operator allows, as names or prefixes ending in
    ``*``.
    ``in_cluster``: there is a cluster whose DNS pods may expect. ``user_ids``: those for pods with a user namespace.
    ``embedded``: pods are processes of the embedded runtime, which supports fewer fields. ``may_mount``: the agent may
    mount volumes; if not, pods are processes of its own user. ``booted_ns``: when the machine started, in nanoseconds
    since the epoch, 0 for unknown."""

    node_name: str
    host_ips: tuple[str, ...] = ()
    memory_bytes: int = 0
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    resolv_conf: DNSConfig = field(default_factory=DNSConfig)
    pod_logs_dir: str = "/var/log/pods"
    seccomp_root: str = "/var/lib/kubelet/seccomp"
    seccomp_default: bool = False
    apparmor: bool = False
    strict_groups: bool = False
    throttle_paths: tuple[str, ...] = ()
    cpu_cfs_quota: bool = True
    cpu_cfs_period_us: int = 100_000
    cgroups_managed: bool = True
    cgroup_driver: str = "cgroupfs"
    cgroup_root: str = "/"
    cgroup_version: int = 0
    pods_limit: Mapping[str, int] = field(default_factory=dict)
    pod_pids_max: int = 0
    reserved_cgroups: tuple[ReservedCgroup, ...] = ()
    memory: MemoryRules = field(default_factory=MemoryRules)
    huge_page_sizes: tuple[int, ...] = ()
    recursive_read_only: bool = False
    allowed_sysctls: tuple[str, ...] = ()
    in_cluster: bool = True
    user_ids: IdPool = field(default_factory=IdPool)
    embedded: bool = False
    may_mount: bool = True
    booted_ns: int = 0
