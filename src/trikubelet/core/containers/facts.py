"""The facts about this node that configurations depend on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ResolvConf:
    """The host's resolv.conf, as far as pods inherit it."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Gathered once at start by the composition root. ``allocatable`` maps resource names to whole numbers (bytes,
    millicores under ``cpu``). ``cgroups_managed``: pod cgroups are ours to name, else the runtime's defaults hold."""

    node_name: str
    host_ips: tuple[str, ...] = ()
    memory_bytes: int = 0
    allocatable: Mapping[str, int] = field(default_factory=dict)
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    resolv_conf: ResolvConf = ResolvConf()
    pod_logs_dir: str = "/var/log/pods"
    seccomp_root: str = "/var/lib/kubelet/seccomp"
    seccomp_default: bool = False
    cpu_cfs_quota: bool = True
    cpu_cfs_period_us: int = 100_000
    cgroups_managed: bool = True
    cgroup_driver: str = "cgroupfs"
    cgroup_root: str = "/"
    allowed_sysctls: tuple[str, ...] = ()
