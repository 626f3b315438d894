"""KubeletConfiguration ``kubelet.config.k8s.io/v1beta1``: every field, its type and its default.

The records are what ``core.structure`` reads a configuration into and what the composition root builds the agent
from. Durations are written as Go writes them and held in seconds. A default stands here when it is one value; the few
that depend on other fields are filled in by ``core.configuration``, which also says what happens to a zero. Fields
that are None when absent have no default upstream either.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from trikubelet.model.duration import parse_duration
from trikubelet.model.k8s import Quantity, Taint
from trikubelet.model.scalar import Int32, Scalar

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"

_UPPER = ("api", "ca", "cfs", "cidr", "dns", "gc", "id", "oom", "qos", "qps", "tls", "ttl", "url")
_ODD_WORDS = {word: word.upper() for word in _UPPER} | {"cpus": "CPUs", "iptables": "IPTables", "json": "json"}


def _seconds(value: str | float) -> float:
    if not isinstance(value, str):  # taken here only to say what is missing
        raise ValueError(f"a duration has a unit: write {value}s for seconds, or 1m30s")  # noqa: TRY004  # Scalar's rule
    return parse_duration(value)


def _seconds_or_nanoseconds(value: str | int) -> float:
    return value / 1e9 if isinstance(value, int) else parse_duration(value)


Seconds = Annotated[float, Scalar(_seconds, "a duration such as 1m30s", (str, int, float))]
_Flush = Annotated[float, Scalar(_seconds_or_nanoseconds, "a duration such as 5s", (str, int))]
DURATIONS: Final = (Seconds, _Flush)
"""The types of fields that are durations; every other float is just a number."""


def wire_name(attribute: str) -> str:
    """A field's name in a configuration file: ``image_gc_high_threshold_percent`` is imageGCHighThresholdPercent."""
    head, *rest = attribute.split("_")
    return head + "".join(_ODD_WORDS.get(word) or word.capitalize() for word in rest)


class _Record(msgspec.Struct, frozen=True, kw_only=True, rename=wire_name):
    """The base of all these records."""


class AnonymousAuthentication(_Record, frozen=True):
    """Requests without credentials to the node's HTTPS API."""

    enabled: bool = False


class WebhookAuthentication(_Record, frozen=True):
    """Bearer tokens, asked of the API server (TokenReview)."""

    enabled: bool = True
    cache_ttl: Seconds = 120.0


class X509Authentication(_Record, frozen=True):
    """Client certificates; an empty path turns them off."""

    client_ca_file: str = ""


class Authentication(_Record, frozen=True):
    """The ways to authenticate clients."""

    x509: X509Authentication = X509Authentication()
    webhook: WebhookAuthentication = WebhookAuthentication()
    anonymous: AnonymousAuthentication = AnonymousAuthentication()


class WebhookAuthorization(_Record, frozen=True):
    """How long the API server's answers (SubjectAccessReview) are believed."""

    cache_authorized_ttl: Seconds = 300.0
    cache_unauthorized_ttl: Seconds = 30.0


class Authorization(_Record, frozen=True):
    """The authorization of clients."""

    mode: Literal["Webhook", "AlwaysAllow"] = "Webhook"
    webhook: WebhookAuthorization = WebhookAuthorization()


class MemorySwap(_Record, frozen=True):
    """Whether containers may use swap."""

    swap_behavior: Literal["NoSwap", "LimitedSwap"] = "NoSwap"


class VerbosityOfFile(_Record, frozen=True):
    """The verbosity of the source files that match a pattern."""

    file_pattern: str
    verbosity: Int32


class JsonLogging(_Record, frozen=True):
    """Options of the JSON format. Splitting sends errors to stderr and the rest, buffered, to stdout."""

    split_stream: bool = False
    info_buffer_size: Quantity = "0"


class TextLogging(JsonLogging, frozen=True):
    """The same options for the text format."""


class LoggingOptions(_Record, frozen=True):
    """Options of the formats."""

    json: JsonLogging = JsonLogging()
    text: TextLogging = TextLogging()


class Logging(_Record, frozen=True):
    """How and how much is logged."""

    format: Literal["text", "json"] = "text"
    flush_frequency: _Flush = 5.0
    verbosity: Int32 = 0
    vmodule: tuple[VerbosityOfFile, ...] = ()
    options: LoggingOptions = LoggingOptions()


class Tracing(_Record, frozen=True):
    """Where traces go (a host and port, or a URL, that takes OTLP over HTTP) and how many of a million."""

    endpoint: str = "localhost:4318"
    sampling_rate_per_million: Int32 = 0


class CrashLoopBackOff(_Record, frozen=True):
    """The longest wait before a crashing container starts again; 5 minutes when None."""

    max_container_restart_period: Seconds | None = None


class MemoryReservation(_Record, frozen=True):
    """Memory kept from pods on one NUMA node, by type (``memory``, ``hugepages-2Mi``)."""

    numa_node: Int32
    limits: dict[str, Quantity]


class ShutdownGracePeriod(_Record, frozen=True):
    """The grace of pods of this priority and above, when the node shuts down."""

    priority: Int32
    shutdown_grace_period_seconds: int


class UserNamespaces(_Record, frozen=True):
    """The user namespaces of pods with ``hostUsers: false``."""

    ids_per_pod: int = 65536


def _hard_eviction() -> dict[str, str]:
    return {
        "memory.available": "100Mi",
        "nodefs.available": "10%",
        "nodefs.inodesFree": "5%",
        "imagefs.available": "15%",
        "imagefs.inodesFree": "5%",
    }


ImageVerification = Literal["NeverVerifyPreloadedImages", "NeverVerify", "NeverVerifyAllowlistedImages", "AlwaysVerify"]


class KubeletConfiguration(_Record, frozen=True):
    """The whole configuration of a node's agent."""

    api_version: str = API_VERSION
    kind: str = KIND

    # Where pods come from
    static_pod_path: str = ""
    static_pod_url: str = ""
    static_pod_url_header: dict[str, tuple[str, ...]] = {}
    sync_frequency: Seconds = 60.0
    file_check_frequency: Seconds = 20.0
    http_check_frequency: Seconds = 20.0
    run_once: bool = False

    # The node's HTTPS API
    enable_server: bool = True
    address: str = "0.0.0.0"  # noqa: S104  # upstream's default; authentication guards it
    port: Int32 = 10250
    read_only_port: Int32 = 0
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    tls_curve_preferences: tuple[Int32, ...] = ()
    tls_min_version: str = ""
    rotate_certificates: bool = False
    server_tls_bootstrap: bool = False
    authentication: Authentication = Authentication()
    authorization: Authorization = Authorization()
    enable_debugging_handlers: bool = True
    enable_contention_profiling: bool = False
    enable_profiling_handler: bool = True
    enable_debug_flags_handler: bool = True
    enable_system_log_handler: bool = True
    enable_system_log_query: bool = False
    streaming_connection_idle_timeout: Seconds = 14400.0
    healthz_port: Int32 = 10248
    healthz_bind_address: str = "127.0.0.1"

    # The API server
    content_type: str = "application/vnd.kubernetes.protobuf"
    kube_api_qps: Int32 = 50
    kube_api_burst: Int32 = 100
    event_record_qps: Int32 = 50
    event_burst: Int32 = 100
    register_node: bool = True
    register_with_taints: tuple[Taint, ...] = ()
    provider_id: str = ""
    node_status_update_frequency: Seconds = 10.0
    node_status_report_frequency: Seconds = 300.0
    node_lease_duration_seconds: Int32 = 40
    node_status_max_images: Int32 = 50
    config_map_and_secret_change_detection_strategy: Literal["Watch", "Cache", "Get"] = "Watch"  # noqa: S105  # a word

    # The container runtime and its images
    container_runtime_endpoint: str = ""
    image_service_endpoint: str = ""
    runtime_request_timeout: Seconds = 120.0
    registry_pull_qps: Int32 = 5
    registry_burst: Int32 = 10
    serialize_image_pulls: bool = True
    max_parallel_image_pulls: Int32 | None = None
    image_pull_credentials_verification_policy: ImageVerification = "NeverVerifyPreloadedImages"
    preloaded_images_verification_allowlist: tuple[str, ...] = ()
    image_minimum_gc_age: Seconds = 120.0
    image_maximum_gc_age: Seconds = 0.0
    image_gc_high_threshold_percent: Int32 = 85
    image_gc_low_threshold_percent: Int32 = 80

    # Pods and containers
    max_pods: Int32 = 110
    pods_per_core: Int32 = 0
    pod_pids_limit: int = -1
    pod_cidr: str = ""
    hairpin_mode: Literal["promiscuous-bridge", "hairpin-veth", "none"] = "promiscuous-bridge"
    cluster_domain: str = ""
    cluster_dns: tuple[str, ...] = ()
    resolv_conf: str = "/etc/resolv.conf"
    crash_loop_back_off: CrashLoopBackOff = CrashLoopBackOff()
    seccomp_default: bool = False
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    default_pod_sysctls: dict[str, str] = {}
    user_namespaces: UserNamespaces | None = None
    single_process_oom_kill: bool | None = None
    pod_logs_dir: str = "/var/log/pods"
    container_log_max_size: Quantity = "10Mi"
    container_log_max_files: Int32 = 5
    container_log_max_workers: Int32 = 1
    container_log_monitor_interval: Seconds = 10.0
    volume_plugin_dir: str = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"
    volume_stats_agg_period: Seconds = 60.0
    enable_controller_attach_detach: bool = True
    local_storage_capacity_isolation: bool = True

    # Cgroups and resources
    cgroup_driver: Literal["cgroupfs", "systemd"] = "cgroupfs"
    cgroup_root: str = ""
    cgroups_per_qos: bool = True
    kubelet_cgroups: str = ""
    system_cgroups: str = ""
    fail_cgroup_v1: bool = True
    cpu_cfs_quota: bool = True
    cpu_cfs_quota_period: Seconds = 0.1
    cpu_manager_policy: Literal["none", "static"] = "none"
    cpu_manager_policy_options: dict[str, str] = {}
    cpu_manager_reconcile_period: Seconds = 10.0
    memory_manager_policy: Literal["None", "Static"] = "None"
    topology_manager_policy: Literal["none", "best-effort", "restricted", "single-numa-node"] = "none"
    topology_manager_scope: Literal["container", "pod"] = "container"
    topology_manager_policy_options: dict[str, str] = {}
    qos_reserved: dict[str, str] = {}
    system_reserved: dict[str, str] = {}
    kube_reserved: dict[str, str] = {}
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""
    reserved_system_cpus: str = ""
    reserved_memory: tuple[MemoryReservation, ...] = ()
    enforce_node_allocatable: tuple[str, ...] = ("pods",)
    memory_throttling_factor: float | None = None
    memory_reservation_policy: Literal["None", "TieredReservation"] = "None"
    memory_swap: MemorySwap = MemorySwap()
    fail_swap_on: bool = True

    # Pressure and shutdown
    eviction_hard: dict[str, str] = msgspec.field(default_factory=_hard_eviction)
    eviction_soft: dict[str, str] = {}
    eviction_soft_grace_period: dict[str, str] = {}
    eviction_pressure_transition_period: Seconds = 300.0
    eviction_max_pod_grace_period: Int32 = 0
    eviction_minimum_reclaim: dict[str, str] = {}
    merge_default_eviction_settings: bool = False
    kernel_memcg_notification: bool = False
    shutdown_grace_period: Seconds = 0.0
    shutdown_grace_period_critical_pods: Seconds = 0.0
    shutdown_grace_period_by_pod_priority: tuple[ShutdownGracePeriod, ...] = ()

    # The process and its host
    feature_gates: dict[str, bool] = {}
    logging: Logging = Logging()
    tracing: Tracing | None = None
    show_hidden_metrics_for_version: str = ""
    oom_score_adj: Int32 = -999
    max_open_files: int = 1_000_000
    protect_kernel_defaults: bool = False
    make_iptables_util_chains: bool = True
    iptables_masquerade_bit: Int32 = 14
    iptables_drop_bit: Int32 = 15


ZERO_IS_A_VALUE: Final = frozenset(
    {
        "enableServer", "registryPullQPS", "eventRecordQPS", "enableDebuggingHandlers", "healthzPort", "oomScoreAdj",
        "imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "cgroupsPerQOS", "singleProcessOOMKill",
        "podPidsLimit", "resolvConf", "cpuCFSQuota", "cpuCFSQuotaPeriod", "nodeStatusMaxImages", "kubeAPIQPS",
        "serializeImagePulls", "maxParallelImagePulls", "mergeDefaultEvictionSettings",
        "enableControllerAttachDetach", "makeIPTablesUtilChains", "iptablesMasqueradeBit", "iptablesDropBit",
        "failSwapOn", "containerLogMaxFiles", "containerLogMaxWorkers", "containerLogMonitorInterval",
        "enableSystemLogHandler", "enableSystemLogQuery", "enableProfilingHandler", "enableDebugFlagsHandler",
        "seccompDefault", "memoryThrottlingFactor", "registerNode", "tracing", "localStorageCapacityIsolation",
        "failCgroupV1", "userNamespaces", "authentication.webhook.enabled", "authentication.anonymous.enabled",
        "crashLoopBackOff.maxContainerRestartPeriod", "tracing.endpoint", "tracing.samplingRatePerMillion",
        "userNamespaces.idsPerPod",
    }
)  # fmt: skip
"""Scalars whose zero (0, "", 0s, false) is what it says. Everywhere else a zero means "the default", as upstream, whose
Go structs cannot distinguish a zero from an absent field unless the field is a pointer. These are its pointers."""
