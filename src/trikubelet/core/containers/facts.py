"""The facts about this node that configurations depend on.

Gathered once at start by the composition root, from the configuration and from ``host.node`` and ``host.cgroups``; the
core reads nothing else of the machine, so a test says what kind of node it means in one line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trikubelet.model.runtime_config import DNSConfig

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node. ``host_ips`` has the primary address first; ``memory_bytes`` is the capacity; ``allocatable`` maps
    resource names to whole numbers (bytes; millicores under ``cpu``). ``cgroups_managed``: pod cgroups are ours to
    name, else the runtime's defaults hold; ``cgroup_version`` is 1, 2 or 0 for unknown. ``allocatable_enforced``: all
    pods together may use no more than that; ``pod_pids_max``: processes in one pod, 0 for no limit.
    ``huge_page_sizes`` are in bytes. ``recursive_read_only``: the runtime can make a mount read-only with all that is
    mounted below it. ``allowed_sysctls`` are the unsafe ones the operator lets through, as names or prefixes ending in
    ``*``.
    ``in_cluster``: there is a cluster whose DNS pods may expect."""

    node_name: str
    host_ips: tuple[str, ...] = ()
    memory_bytes: int = 0
    allocatable: Mapping[str, int] = field(default_factory=dict)
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    resolv_conf: DNSConfig = field(default_factory=DNSConfig)
    pod_logs_dir: str = "/var/log/pods"
    seccomp_root: str = "/var/lib/kubelet/seccomp"
    seccomp_default: bool = False
    cpu_cfs_quota: bool = True
    cpu_cfs_period_us: int = 100_000
    cgroups_managed: bool = True
    cgroup_driver: str = "cgroupfs"
    cgroup_root: str = "/"
    cgroup_version: int = 0
    allocatable_enforced: bool = True
    pod_pids_max: int = 0
    huge_page_sizes: tuple[int, ...] = ()
    recursive_read_only: bool = False
    allowed_sysctls: tuple[str, ...] = ()
    in_cluster: bool = True
