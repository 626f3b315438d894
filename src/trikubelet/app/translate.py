"""From settings and the machine to what the parts take: bounds, rules, node facts.

The one place where a configuration field gets its effect on pods. What stands here is plain translation; the decisions
are in ``core``. Read by the composition root only.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trikubelet.app.node import Rules
from trikubelet.core.containers import NodeFacts
from trikubelet.core.restarts import BackoffLimits
from trikubelet.host.node import default_addresses, read_resolv_conf
from trikubelet.model import quantity
from trikubelet.model.bounds import Bounds
from trikubelet.model.runtime_config import DNSConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.app.settings import Settings
    from trikubelet.host.node import NodeReading
    from trikubelet.model.kubelet_configuration import KubeletConfiguration

# With the gate ReduceDefaultCrashLoopBackOffDecay.
REDUCED_BACKOFF = BackoffLimits(first_seconds=1.0, seconds_max=60.0)


def bounds_of(configuration: KubeletConfiguration) -> Bounds:
    """The agent's bounds, with what the configuration says about them."""
    return Bounds(
        resync_seconds=configuration.sync_frequency,
        file_check_seconds=configuration.file_check_frequency,
        http_check_seconds=configuration.http_check_frequency,
        runtime_call_seconds_max=configuration.runtime_request_timeout,
        syncloop_stale_seconds_max=max(300.0, 2 * configuration.sync_frequency),
    )


def rules_of(settings: Settings, bounds: Bounds) -> Rules:
    """What the configuration says about pods."""
    configuration = settings.configuration
    parallel = configuration.max_parallel_image_pulls or bounds.pulls_max
    return Rules(
        bounds=bounds,
        backoff=_backoff(settings),
        pulls_max=1 if configuration.serialize_image_pulls else parallel,
        node_hosts=_text(Path("/etc/hosts")),
    )


def _backoff(settings: Settings) -> BackoffLimits:
    limits = REDUCED_BACKOFF if settings.gate("ReduceDefaultCrashLoopBackOffDecay") else BackoffLimits()
    longest = settings.configuration.crash_loop_back_off.max_container_restart_period
    if longest is None or not settings.gate("KubeletCrashLoopBackOffMax"):
        return limits
    return BackoffLimits(first_seconds=min(limits.first_seconds, longest), seconds_max=longest)


def facts_of(settings: Settings, reading: NodeReading) -> NodeFacts:
    """The node facts. Raises StartFailed when the resolv.conf for pods cannot be read."""
    configuration = settings.configuration
    resolv_conf = read_resolv_conf(Path(configuration.resolv_conf)) if configuration.resolv_conf else DNSConfig()
    return NodeFacts(
        node_name=settings.node_name,
        host_ips=settings.node_ips or default_addresses() or ("127.0.0.1",),
        memory_bytes=reading.memory_bytes,
        allocatable=_allocatable(configuration, reading),
        cluster_dns=configuration.cluster_dns,
        cluster_domain=configuration.cluster_domain,
        resolv_conf=resolv_conf,
        pod_logs_dir=str(settings.pod_logs_dir),
        seccomp_root=str(settings.root_dir / "seccomp"),
        seccomp_default=configuration.seccomp_default,
        cpu_cfs_quota=configuration.cpu_cfs_quota,
        cpu_cfs_period_us=round(configuration.cpu_cfs_quota_period * 1e6),
        cgroups_managed=configuration.cgroups_per_qos,
        cgroup_driver=configuration.cgroup_driver,
        cgroup_root=configuration.cgroup_root or "/",
        huge_page_sizes=tuple(reading.huge_pages),
        allowed_sysctls=configuration.allowed_unsafe_sysctls,
        in_cluster=not settings.standalone,
        pod_pids_max=max(0, configuration.pod_pids_limit),
        allocatable_enforced="pods" in configuration.enforce_node_allocatable,
    )


def _allocatable(configuration: KubeletConfiguration, reading: NodeReading) -> Mapping[str, int]:
    """Capacity less what is reserved: what a container without limits is told it may use."""
    reserved = (configuration.system_reserved, configuration.kube_reserved)
    cpu = sum(quantity.milli(one["cpu"]) for one in reserved if "cpu" in one)
    memory = sum(quantity.whole(one["memory"]) for one in reserved if "memory" in one)
    return {"cpu": max(0, reading.cpus * 1000 - cpu), "memory": max(0, reading.memory_bytes - memory)}


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
