"""Translates settings and the machine's facts into the inputs of the parts: bounds, rules, node facts.

It is the one place where a configuration field gets its effect on pods. This is plain translation; the decisions are in
``core``. Read by the composition root only.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trikubelet.app.endpoint import EMBEDDED, FAKE
from trikubelet.app.node import Rules
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.embedded_refusals import host_image
from trikubelet.core.containers.memory_rules import MemoryRules
from trikubelet.core.containers.reserved_cgroups import ReservedCgroup
from trikubelet.core.eviction import EvictionRules
from trikubelet.core.eviction.thresholds import parse_thresholds
from trikubelet.core.image_garbage import ImageRules
from trikubelet.core.log_rotation import FLOOD_SECONDS, RotationRules
from trikubelet.core.node_addresses import ANY_IPV6, AddressRules
from trikubelet.core.node_shutdown import shutdown_groups
from trikubelet.core.node_status import Identity, Reserved, allocatable, capacity, shared_limit
from trikubelet.core.node_status.amounts import CPU, MEMORY
from trikubelet.core.pull_rights import VerificationPolicy
from trikubelet.core.restarts import BackoffLimits
from trikubelet.core.user_namespaces import HOST_IDS, pool_of
from trikubelet.host.node import read_resolv_conf
from trikubelet.images.puller import PullRules
from trikubelet.model import quantity
from trikubelet.model.bounds import Bounds
from trikubelet.model.duration import parse_duration
from trikubelet.model.errors import StartFailed
from trikubelet.model.runtime_config import DNSConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trikubelet.app.settings import Settings
    from trikubelet.core.user_namespaces import IdPool, SubordinateIds
    from trikubelet.model.kubelet_configuration import KubeletConfiguration
    from trikubelet.model.node_reading import NodeReading

# With the gate ReduceDefaultCrashLoopBackOffDecay.
REDUCED_BACKOFF = BackoffLimits(first_seconds=1.0, seconds_max=60.0)


ENSURES_RIGHTS = "KubeletEnsureSecretPulledImages"


def bounds_of(configuration: KubeletConfiguration) -> Bounds:
    """Return the agent's bounds, with the configured ones."""
    return Bounds(
        resync_seconds=configuration.sync_frequency,
        file_check_seconds=configuration.file_check_frequency,
        http_check_seconds=configuration.http_check_frequency,
        runtime_call_seconds_max=configuration.runtime_request_timeout,
        syncloop_stale_seconds_max=max(300.0, 2 * configuration.sync_frequency),
    )


def rules_of(settings: Settings, bounds: Bounds) -> Rules:
    """Return the configuration about pods."""
    return Rules(
        bounds=bounds,
        backoff=_backoff(settings),
        pulls=_pulls(settings, bounds),
        node_hosts=_text(Path("/etc/hosts")),
        logs=_logs(settings.configuration),
        eviction=_eviction(settings.configuration),
        images=_images(settings.configuration),
        shutdown=shutdown_groups(settings.configuration),
        ends_unknown_pods=settings.ends_unknown_pods or settings.runtime.inside,
        unknown_pods_means=settings.unknown_pods_means,
    )


def _eviction(configuration: KubeletConfiguration) -> EvictionRules:
    graces = {signal: parse_duration(text) for signal, text in configuration.eviction_soft_grace_period.items()}
    return EvictionRules(
        thresholds=parse_thresholds(
            configuration.eviction_hard,
            configuration.eviction_soft,
            graces,
            configuration.eviction_minimum_reclaim,
            pods_limited="pods" in configuration.enforce_node_allocatable,
        ),
        transition_seconds=configuration.eviction_pressure_transition_period,
        grace_seconds_max=configuration.eviction_max_pod_grace_period,
        local_limits=configuration.local_storage_capacity_isolation,
    )


def _images(configuration: KubeletConfiguration) -> ImageRules:
    return ImageRules(
        high_percent=configuration.image_gc_high_threshold_percent,
        low_percent=configuration.image_gc_low_threshold_percent,
        age_seconds_min=configuration.image_minimum_gc_age,
        unused_seconds_max=configuration.image_maximum_gc_age,
    )


def _logs(configuration: KubeletConfiguration) -> RotationRules | None:
    size_bytes = quantity.whole(configuration.container_log_max_size)
    if size_bytes < 0:
        return None
    return RotationRules(
        size_bytes=size_bytes,
        files_max=configuration.container_log_max_files,
        workers_max=configuration.container_log_max_workers,
        period_seconds=configuration.container_log_monitor_interval,
        flood_seconds=FLOOD_SECONDS,
    )


def _pulls(settings: Settings, bounds: Bounds) -> PullRules:
    configuration = settings.configuration
    policy = VerificationPolicy(
        configuration.image_pull_credentials_verification_policy, configuration.preloaded_images_verification_allowlist
    )
    parallel = configuration.max_parallel_image_pulls or bounds.pulls_max
    return PullRules(
        at_once_max=1 if configuration.serialize_image_pulls else parallel,
        per_second=configuration.registry_pull_qps,
        burst=configuration.registry_burst,
        # Where containers are simulated, images are too.
        verification=policy if settings.gate(ENSURES_RIGHTS) and settings.runtime.endpoint != FAKE else None,
        plugins=settings.credential_plugins,
        is_machine=partial(_is_machine, settings),
    )


def _is_machine(settings: Settings, image: str) -> bool:
    """True if the image is this machine itself."""
    return settings.runtime.endpoint == EMBEDDED and host_image(image) is not None


def _backoff(settings: Settings) -> BackoffLimits:
    limits = REDUCED_BACKOFF if settings.gate("ReduceDefaultCrashLoopBackOffDecay") else BackoffLimits()
    longest = settings.configuration.crash_loop_back_off.max_container_restart_period
    if longest is None or not settings.gate("KubeletCrashLoopBackOffMax"):
        return limits
    return BackoffLimits(first_seconds=min(limits.first_seconds, longest), seconds_max=longest)


def facts_of(settings: Settings, reading: NodeReading, subordinate_ids: SubordinateIds) -> NodeFacts:
    """Return the node facts, without its addresses; ``subordinate_ids``: as ``host.subordinate_ids`` read them. Raises
    StartFailed if the resolv.conf for pods cannot be read, or those ids are not sufficient."""
    configuration = settings.configuration
    resolv_conf = read_resolv_conf(Path(configuration.resolv_conf)) if configuration.resolv_conf else DNSConfig()
    amounts = capacity(reading, configuration.max_pods, configuration.pods_per_core)
    return NodeFacts(
        node_name=settings.node_name,
        memory_bytes=reading.memory_bytes,
        capacity=amounts,
        allocatable=allocatable(amounts, _reserved(configuration)),
        cluster_dns=configuration.cluster_dns,
        cluster_domain=configuration.cluster_domain,
        resolv_conf=resolv_conf,
        pod_logs_dir=str(settings.pod_logs_dir),
        seccomp_root=str(settings.root_dir / "seccomp"),
        seccomp_default=configuration.seccomp_default,
        apparmor=reading.apparmor,
        throttle_paths=reading.throttle_paths,
        cpu_cfs_quota=configuration.cpu_cfs_quota,
        cpu_cfs_period_us=round(configuration.cpu_cfs_quota_period * 1e6),
        cgroups_managed=configuration.cgroups_per_qos,
        cgroup_driver=configuration.cgroup_driver,
        cgroup_root=configuration.cgroup_root or "/",
        huge_page_sizes=tuple(reading.huge_pages),
        allowed_sysctls=configuration.allowed_unsafe_sysctls,
        in_cluster=not settings.standalone,
        pod_pids_max=max(0, configuration.pod_pids_limit),
        memory=_memory_rules(settings, reading, amounts),
        pods_limit=shared_limit(amounts, reading.processes_max, _pods_reserve(configuration)),
        reserved_cgroups=tuple(_reserved_cgroups(configuration)),
        user_ids=_user_ids(configuration, subordinate_ids),
        embedded=settings.runtime.endpoint == EMBEDDED,
        # The runtime inside the agent then runs everything as the agent's own user, too.
        may_mount=reading.may_mount or not settings.runtime.inside,
        booted_ns=reading.booted_ns,
    )


def _memory_rules(settings: Settings, reading: NodeReading, amounts: Mapping[str, int]) -> MemoryRules:
    configuration, has_qos = settings.configuration, settings.gate("MemoryQoS")
    reserved = Reserved((configuration.system_reserved, configuration.kube_reserved))
    return MemoryRules(
        swap_bytes=reading.swap_bytes if configuration.memory_swap.swap_behavior == "LimitedSwap" else 0,
        kills_one=bool(configuration.single_process_oom_kill),
        qos=has_qos,
        throttle=(configuration.memory_throttling_factor or 0.0) if has_qos else 0.0,
        reserves=has_qos and configuration.memory_reservation_policy == "TieredReservation",
        unreserved_bytes=shared_limit(amounts, 0, reserved)[MEMORY],
    )


def identity_of(settings: Settings, reading: NodeReading) -> Identity:
    """Return the node's identity, for its cluster and for the downward API."""
    configuration = settings.configuration
    return Identity(
        name=settings.node_name,
        hostname=settings.node_name,
        architecture=reading.architecture,
        labels=settings.node_labels,
        taints=configuration.register_with_taints,
        provider_id=configuration.provider_id,
        provided_ips=settings.node_ips,
        external_cloud=settings.external_cloud,
        controller_attaches=configuration.enable_controller_attach_detach,
    )


def address_rules_of(settings: Settings) -> AddressRules:
    """Return the configuration of the node's addresses."""
    return AddressRules(
        node_name=settings.node_name,
        given=settings.node_ips,
        prefers_ipv6=settings.node_ip_family == ANY_IPV6,
        in_cluster=not settings.standalone,
    )


def _user_ids(configuration: KubeletConfiguration, subordinate_ids: SubordinateIds) -> IdPool:
    wish = configuration.user_namespaces
    try:
        return pool_of(wish.ids_per_pod if wish else HOST_IDS, subordinate_ids, configuration.max_pods)
    except ValueError as error:
        where = "userNamespaces.idsPerPod, maxPods, and the lines of /etc/subuid and /etc/subgid for the user kubelet"
        raise StartFailed(f"ids for pods with hostUsers: false: {error}; see {where}") from error


def _reserved(configuration: KubeletConfiguration) -> Reserved:
    return Reserved((configuration.system_reserved, configuration.kube_reserved), configuration.eviction_hard)


def _pods_reserve(configuration: KubeletConfiguration) -> Reserved:
    """Return what the cgroup of all pods reserves. An eviction threshold is not reserved: below it pods are evicted,
    one by one and by their requests, and the kernel must not kill first."""
    is_enforced = "pods" in configuration.enforce_node_allocatable
    return Reserved((configuration.system_reserved, configuration.kube_reserved)) if is_enforced else Reserved()


def _reserved_cgroups(configuration: KubeletConfiguration) -> Iterator[ReservedCgroup]:
    enforced = configuration.enforce_node_allocatable
    for owner, path, amounts in (
        ("System", configuration.system_reserved_cgroup, configuration.system_reserved),
        ("Kube", configuration.kube_reserved_cgroup, configuration.kube_reserved),
    ):
        kind = f"{owner.lower()}-reserved"
        only_compressible = f"{kind}-compressible" in enforced
        if only_compressible or kind in enforced:
            counted = {
                name: quantity.milli(text) if name == CPU else quantity.whole(text) for name, text in amounts.items()
            }
            yield ReservedCgroup(owner, path, counted, only_compressible)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
